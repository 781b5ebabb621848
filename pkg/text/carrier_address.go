package text

import (
	"net/netip"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// at reads a token with an @: an e-mail address or a handle.
func (sc *scanner) at(tok string) {
	i := strings.LastIndexByte(tok, '@')
	local, domain := tok[:i], strings.TrimRight(tok[i+1:], ".:-/_~+")
	if j := strings.LastIndexAny(local, ":/@"); j >= 0 {
		local = local[j+1:] // drops mailto: or a path before the address
	}
	domain, _, _ = strings.Cut(domain, "/")
	domain, _, _ = strings.Cut(domain, ":")
	local = strings.TrimLeft(local, ".-+~")
	switch {
	case local != "" && isDomain(domain):
		domain = strings.ToLower(domain)
		sc.named(Email, strings.ToLower(local)+"@"+domain)
		sc.named(Host, domain)
	case i == 0 && len(domain) >= 2 && len(domain) <= 40 && !strings.ContainsAny(domain, "@+~"):
		sc.keep(Handle, "@"+strings.ToLower(domain))
	}
}

// named adds an e-mail address or a host. If the address contains look-alike characters, it also adds the ASCII address
// that it could be mistaken for. It adds the address itself first, because a host that looks like a known one is a
// different host.
func (sc *scanner) named(kind Kind, value string) {
	sc.keep(kind, value)
	if kind == Host {
		sc.labelKeys(value)
	}
	for i := range len(value) {
		if value[i] >= utf8.RuneSelf {
			if like := Normalize(value); like != value {
				sc.keep(kind, like)
			}
			return
		}
	}
}

// isDomain reports whether s has the form of a domain name of at least two
// labels with a top-level name of letters.
func isDomain(s string) bool {
	if len(s) < 4 || len(s) > 253 {
		return false
	}
	label, dots, letters := 0, 0, true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.':
			if label == 0 || s[i-1] == '-' {
				return false
			}
			dots++
			label, letters = 0, true
		case c == '-' || c == '_' || c >= '0' && c <= '9':
			if label == 0 && c == '-' {
				return false
			}
			label++
			letters = letters && c == '-' // labels such as xn--p1ai
		case c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf:
			label++
		default:
			return false
		}
		if label > 63 {
			return false
		}
	}
	return dots > 0 && label >= 2 && (letters || strings.HasPrefix(s[strings.LastIndexByte(s, '.')+1:], "xn--"))
}

// url reads the URL that begins at start and whose scheme has n bytes, and returns its end. A URL may contain bytes at
// which any other token would end.
func (sc *scanner) url(start, n int) int {
	s := sc.s
	scheme := strings.ToLower(s[start : start+n])
	for i := len(scheme) - 1; i >= 0; i-- {
		if c := scheme[i]; !isAlnum(c) && c != '+' && c != '-' && c != '.' {
			scheme = scheme[i+1:]
			break
		}
	}
	rest := start + n + len("://")
	end := rest
	for end < len(s) && !endsURL(s[end]) {
		end++
	}
	end = rest + len(trimURL(s[rest:end]))
	body := s[rest:end]
	authority, tail := body, ""
	if i := strings.IndexAny(body, "/?#"); i >= 0 {
		authority, tail = body[:i], body[i:]
	}
	sc.insideURL(rest, end)
	if scheme == "hxxp" || scheme == "hxxps" {
		scheme = "http" + scheme[len("hxxp"):] // a defanged URL: hxxp
	}
	if scheme == "file" {
		sc.path(tail)
		return end
	}
	site := authority[strings.LastIndexByte(authority, '@')+1:]
	host, port := splitPort(strings.ToLower(strings.NewReplacer("[.]", ".", "(.)", ".").Replace(site)))
	sc.passwords(authority, tail, host, rest)
	if host == "" || scheme == "" {
		return end
	}
	tail, _, _ = strings.Cut(tail, "#")
	if tail == "/" {
		tail = ""
	}
	shown := host
	ip, isIP := parseIP(host)
	if isIP {
		shown = ip.String()
		if ip.Is6() {
			shown = "[" + shown + "]"
		}
	}
	if port != "" && !(scheme == "http" && port == "80" || scheme == "https" && port == "443") {
		shown += ":" + port
	}
	sc.named(URL, scheme+"://"+shown+tail)
	if isIP {
		sc.keep(IP, ip.String())
	} else {
		sc.named(Host, strings.TrimRight(host, "."))
	}
	return end
}

// insideURL looks for secrets and encoded parts in a URL, from byte i, where the authority begins, to end.
func (sc *scanner) insideURL(i, end int) {
	body := sc.s[i:end]
	sc.secretsWithin(body, i)
	sc.awsWithin(body, i)
	decoded := body
	for range maxDepth {
		if strings.IndexByte(decoded, '%') < 0 {
			break
		}
		decoded = decodePercent(decoded)
		sc.secretsWithin(decoded, -1)
		sc.awsWithin(decoded, -1)
	}
	if pem := strings.Index(body, "-----BEGIN"); pem >= 0 {
		sc.pem(i + pem)
	}
	for i < end {
		if tokenClass[sc.s[i]] == 0 {
			i = sc.delimiter(i)
			continue
		}
		start := i
		for i < end && tokenClass[sc.s[i]] != 0 {
			i++
		}
		if !sc.decoding || i-start < minEncoded {
			continue
		}
		if _, found := sc.encodedRun(start, i); found {
			continue
		}
		// A slash may be a character of base64, or the separator of a path. So the run is also read part by part
		// between slashes.
		for part := start; part < i; {
			to := part
			for to < i && sc.s[to] != '/' {
				to++
			}
			if to-part >= minEncoded && to-part < i-start {
				sc.encodedRun(part, to)
			}
			part = to + 1
		}
	}
}

func endsURL(c byte) bool {
	return c <= ' ' || c == 0x7f || strings.IndexByte("\"'<>`\\|^{}", c) >= 0
}

// trimURL removes punctuation at the end of a URL that belongs to the sentence around it.
func trimURL(u string) string {
	round := strings.Count(u, ")") - strings.Count(u, "(") // closing brackets without an opening one
	square := strings.Count(u, "]") - strings.Count(u, "[")
	for u != "" {
		switch u[len(u)-1] {
		case '.', ',', ';', ':', '!', '?', '*', '_', '~':
		case ')':
			if round <= 0 {
				return u
			}
			round--
		case ']':
			if square <= 0 {
				return u
			}
			square--
		default:
			return u
		}
		u = u[:len(u)-1]
	}
	return u
}

func splitPort(authority string) (host, port string) {
	if strings.HasPrefix(authority, "[") {
		host, port, _ = strings.Cut(authority[1:], "]")
		return host, strings.TrimPrefix(port, ":")
	}
	if i := strings.LastIndexByte(authority, ':'); i >= 0 {
		return authority[:i], authority[i+1:]
	}
	return authority, ""
}

// parseIP parses an IP address as a browser does. It also accepts an address that is written as one
// number, with fewer than four parts, or in octal or hexadecimal.
func parseIP(host string) (netip.Addr, bool) {
	if host == "" || len(host) > 45 || host[0] < '0' || host[0] > '9' {
		if strings.IndexByte(host, ':') < 0 {
			return netip.Addr{}, false
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone(""), true
	}
	parts := strings.Split(strings.TrimRight(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 0, 33)
		if err != nil || strings.ContainsAny(p, "_oObB") && !strings.HasPrefix(p, "0x") {
			return netip.Addr{}, false
		}
		left := 8 * (4 - i) // bits of this part if it is the last one
		if i < len(parts)-1 {
			left = 8
		}
		if n >= 1<<left {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			v |= n << (24 - 8*i)
		} else {
			v |= n
		}
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// dotted reads a token with dots and without slashes: a host name or a file name.
func (sc *scanner) dotted(tok string) {
	tok = strings.Trim(tok, ".:-_~+")
	host, _, _ := strings.Cut(tok, ":")
	i := strings.LastIndexByte(host, '.')
	if i <= 0 {
		return
	}
	last := strings.ToLower(host[i+1:])
	file := fileEndings[last]
	if file {
		sc.keep(Path, host)
	}
	if (len(last) == 2 && !file || topLevels[last]) && isDomain(host) && !abbreviation(host) && !nextSentence(host[i+1:]) {
		sc.named(Host, strings.ToLower(host))
	}
}

// nextSentence reports whether the last label of a dotted token is the first word of a new sentence. That happens if
// the writer left out the space after a full stop: "see the file.Then go on".
func nextSentence(label string) bool {
	return tokenClass[label[0]] == inUpper && tokenClass[label[1]] == inLower
}

// abbreviation reports whether s is single letters with dots between them, as in e.g or a.m.
func abbreviation(s string) bool {
	for i := range len(s) {
		if i%2 == 1 && s[i] != '.' {
			return false
		}
	}
	return true
}

// path reads a token with a slash or a tilde.
func (sc *scanner) path(tok string) {
	tok = strings.TrimRight(tok, ".:-+")
	tok = strings.TrimLeft(tok, ":+")
	if i := strings.IndexByte(tok, '/'); i > 0 && tok[0] != '.' && tok[0] != '~' {
		host, _, _ := strings.Cut(tok[:i], ":")
		if ip, ok := parseIP(host); ok && strings.Count(host, ".") == 3 {
			sc.keep(IP, ip.String()) // a network, or an address followed by a path
			return
		}
		last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
		if len(last) < len(host) && isDomain(host) && (len(last) == 2 || topLevels[last]) && !fileEndings[last] {
			sc.named(Host, strings.ToLower(host))
			return
		}
	}
	anchored := strings.HasPrefix(tok, "/") || strings.HasPrefix(tok, "./") || strings.HasPrefix(tok, "../") ||
		strings.HasPrefix(tok, "~/")
	if len(tok) < 3 || strings.HasPrefix(tok, "//") && len(strings.Trim(tok, "/")) == 0 {
		return
	}
	if !anchored {
		// A relative path must end in a file name. So "and/or" and "3/4" are not paths.
		base := tok[strings.LastIndexByte(tok, '/')+1:]
		dot := strings.LastIndexByte(base, '.')
		if len(base) == len(tok) || dot < 0 || !fileEndings[strings.ToLower(base[dot+1:])] {
			return
		}
	}
	sc.keep(Path, path.Clean(tok))
}

// windowsPath reads a path such as C:\ at start and returns its end. The backslashes may be
// doubled.
func (sc *scanner) windowsPath(start, end int) int {
	s := sc.s
	for end < len(s) && (tokenClass[s[end]] != 0 || s[end] == '\\') && end-start < maxValue {
		end++
	}
	value := strings.TrimRight(strings.ReplaceAll(s[start:end], `\\`, `\`), `.:-\`)
	if len(value) > 3 {
		sc.keep(Path, value)
	}
	return end
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// topLevels are the top-level domains with more than two letters by which a host without a scheme is recognized. In
// addition, every top-level domain of two letters counts, except those in fileEndings.
var topLevels = set(`
com org net edu gov mil int info biz name pro aero coop museum arpa onion local internal localhost test example invalid
lan corp app dev page cloud online site website store shop tech space xyz top club live life world today news blog wiki
link click email mail chat social media agency company group team work works solutions services support systems network
digital finance bank money pay capital fund insure crypto wallet exchange trade market markets vip icu cyou cfd sbs buzz
monster quest rest bar fun win bid loan download stream host hosting press review science party gq zip mov
academy art design photo video studio games bet casino poker health care clinic school university institute foundation
ngo google amazon apple microsoft`)

// fileEndings are endings that make a name without a scheme a file name. Some of them are also top-level domains of
// countries. A name with such an ending counts as a host only in a URL.
var fileEndings = set(`
txt md rst csv tsv json jsonl yaml yml toml ini cfg conf env log xml html htm css js mjs ts tsx jsx py ipynb go rs rb
php pl lua java kt c h cc cpp hpp cs swift sh bash zsh ps1 bat cmd exe dll so dylib bin jar war apk deb rpm msi pkg dmg
iso img pdf doc docx xls xlsx ppt pptx odt ods rtf tex epub png jpg jpeg gif svg webp bmp ico mp3 mp4 wav mov avi mkv
zip tar gz tgz bz2 xz 7z rar zst pem key crt cer p12 pfx kdbx asc gpg sig pub db sqlite sql bak old tmp lock pid sock
service plist reg vbs lnk tf tfvars proto wasm map diff patch`)
