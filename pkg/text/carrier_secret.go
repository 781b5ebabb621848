package text

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minSecret = 16
	minOpaque = 20
)

// secretShape is the prefix and length of an issuer's API keys.
type secretShape struct {
	prefix   string
	min, max int // length of the whole key
}

var secretShapes = []secretShape{
	{"AIza", 39, 39}, {"ya29.", 30, 512},
	{"ghp_", 40, 40}, {"gho_", 40, 40}, {"ghu_", 40, 40}, {"ghs_", 40, 40}, {"ghr_", 40, 80}, {"github_pat_", 40, 120},
	{"glpat-", 20, 80}, {"xoxb-", 20, 120}, {"xoxp-", 20, 120}, {"xoxa-", 20, 120}, {"xoxr-", 20, 120}, {"xapp-", 20, 200},
	{"sk-", 20, 256}, {"sk_live_", 20, 128}, {"sk_test_", 20, 128}, {"rk_live_", 20, 128}, {"pk_live_", 20, 128},
	{"whsec_", 20, 128},
	{"SG.", 30, 128}, {"npm_", 36, 64}, {"pypi-", 40, 256}, {"hf_", 30, 64}, {"dop_v1_", 60, 80}, {"shpat_", 36, 48},
	{"sq0atp-", 24, 64}, {"AGE-SECRET-KEY-", 60, 90}, {"eyJ", 36, 4096},
}

// secretStart marks the bytes with which a prefix in secretShapes begins. A token that begins with another byte needs
// no further check.
var secretStart = func() (t [256]bool) {
	for _, s := range secretShapes {
		t[s.prefix[0]] = true
	}
	return t
}()

// secret reads an API key, a JSON Web Token, or a private key that begins with a PEM header.
func (sc *scanner) secret(tok string, start int) bool {
	if strings.HasPrefix(tok, "-----BEGIN") {
		return sc.pem(start)
	}
	if !secretStart[tok[0]] {
		return false
	}
	tok = strings.TrimRight(tok, ".:-/")
	for _, s := range secretShapes {
		if !strings.HasPrefix(tok, s.prefix) || len(tok) < s.min || len(tok) > s.max {
			continue
		}
		if s.prefix == "eyJ" && strings.Count(tok, ".") != 2 || s.prefix == "sk-" && !hasDigit(tok) {
			continue
		}
		sc.keep(Secret, masked(tok, len(s.prefix), 0))
		return s.prefix != "eyJ" // the parts of a JWT are base64 and are decoded too
	}
	return false
}

// pem reads a private key in PEM form. The carrier's value has a digest of the whole body.
func (sc *scanner) pem(start int) bool {
	const limit = 16 << 10
	s := sc.s[start:min(len(sc.s), start+limit)]
	head, body, ok := strings.Cut(s[len("-----BEGIN"):], "-----")
	if !ok || len(head) > 40 {
		return false
	}
	if head = spaces.Replace(head); !strings.HasSuffix(head, "PRIVATE KEY") {
		return false
	}
	end := start + len(s)
	if i := strings.Index(body, "-----END"); i >= 0 {
		end -= len(body) - i
		body = body[:i]
	}
	body = beforePEM(body)
	sc.keepAt(Secret, "-----BEGIN"+head+"…#"+shortDigest(strings.Join(strings.Fields(body), "")), start, end)
	return true
}

// beforePEM returns the part of a private key's body before the header of the next private key. Therefore the time for
// a text with many headers stays linear.
func beforePEM(body string) string {
	for at := 0; ; {
		i := strings.Index(body[at:], "-----BEGIN")
		if i < 0 {
			return body
		}
		at += i + len("-----BEGIN")
		head, _, ok := strings.Cut(body[at:min(len(body), at+46)], "-----")
		if ok && strings.HasSuffix(spaces.Replace(head), "PRIVATE KEY") {
			return body[:at-len("-----BEGIN")]
		}
	}
}

// spaces replaces the characters that stand for a space in a URL.
var spaces = strings.NewReplacer("+", " ", "_", " ", "%20", " ")

// secretsWithin keeps the API keys and JSON Web Tokens that begin inside s: in a URL, a path or a host name, or after a
// colon. at is the position of s in the text, or -1 if s was decoded from an encoded part. Ordinary names in a URL
// (sk-ii-facial-treatment-2024) can begin like a key. Therefore the conditions are stricter than those of the method
// secret.
func (sc *scanner) secretsWithin(s string, at int) {
	var run jwtRun
	for i := 0; i+minSecret <= len(s); i++ {
		if !secretStart[s[i]] {
			continue
		}
		glued := i > 0 && isAlnum(s[i-1])
		for _, k := range secretShapes {
			if !strings.HasPrefix(s[i:], k.prefix) {
				continue
			}
			key := ""
			switch {
			case glued && (!k.telling(s[i:]) || wordBefore(s, i) > maxGlued):
			case k.prefix == "eyJ":
				key = run.key(s, i, &k)
			default:
				if key = k.within(s[i:]); key == "" && k.telling(s[i:]) {
					key = k.cut(s[i:])
				}
			}
			if key == "" {
				continue
			}
			if value := masked(key, len(k.prefix), 0); at < 0 {
				sc.keep(Secret, value)
			} else {
				sc.keepAt(Secret, value, at+i, at+i+len(key))
			}
			i += len(key) - 1
			break
		}
	}
}

// maxGlued is the maximum number of letters and digits that may stand directly before or after a key. Longer runs are
// encoded texts, in which the beginning of a key occurs by chance.
const maxGlued = 32

// telling reports whether the beginning of a key is hardly a part of a word. Then other letters may be glued to the
// key.
func (k *secretShape) telling(s string) bool {
	switch k.prefix {
	case "sk-":
		return strings.HasPrefix(s, "sk-proj-") || strings.HasPrefix(s, "sk-ant-") || strings.HasPrefix(s, "sk-or-v1-")
	case "eyJ", "SG.", "ya29.", "AIza":
		return false
	}
	return true
}

// wordBefore returns the number of letters and digits that end directly before byte i of s, at most maxGlued + 1.
func wordBefore(s string, i int) (n int) {
	for n <= maxGlued && n < i && isAlnum(s[i-n-1]) {
		n++
	}
	return n
}

// cut is like within, for a key of fixed length with letters glued to its end.
func (k *secretShape) cut(s string) string {
	if k.min != k.max || len(s) < k.max {
		return ""
	}
	n := k.max
	for n < len(s) && isAlnum(s[n]) {
		n++
	}
	key := s[:k.max]
	if n > k.max+maxGlued || !generated(key[len(k.prefix):]) || strings.ContainsFunc(key[len(k.prefix):], notAlnum) {
		return ""
	}
	return key
}

// within returns the key at the start of s if it has the shape k, and otherwise "".
func (k *secretShape) within(s string) string {
	plain := k.min == k.max // keys of a fixed length, except AIza…, have only letters and digits after the prefix
	n := len(k.prefix)
	for ; n < len(s) && n < k.max+1; n++ {
		c := s[n]
		if isAlnum(c) || (c == '-' || c == '_') && (!plain || k.prefix == "AIza") {
			continue
		}
		if c != '.' || !k.dotted() {
			break
		}
	}
	key := strings.TrimRight(s[:n], ".-_")
	if len(key) < k.min || len(key) > k.max {
		return ""
	}
	if !plain && !slices.ContainsFunc(strings.FieldsFunc(key[len(k.prefix):], notAlnum), generated) {
		return ""
	}
	return key
}

// jwtRun is the last run of characters that can occur in a JSON Web Token, with at most two dots. Several tokens could
// begin in the run before its first dot. The run is read only once for all of them.
type jwtRun struct {
	read bool
	dots []int // positions of the dots
	end  int
}

// key returns the JSON Web Token that begins at byte i of s, or "" if there is none.
func (r *jwtRun) key(s string, i int, k *secretShape) string {
	if !r.read || i >= r.end || len(r.dots) > 0 && i > r.dots[0] {
		r.read, r.dots = true, r.dots[:0]
		for r.end = i; r.end < len(s); r.end++ {
			if c := s[r.end]; c == '.' && len(r.dots) < 2 {
				r.dots = append(r.dots, r.end)
			} else if !isAlnum(c) && c != '-' && c != '_' {
				break
			}
		}
	}
	// Header and payload are JSON objects.
	end := min(r.end, i+k.max+1)
	if len(r.dots) < 2 || r.dots[1] >= end ||
		!strings.HasPrefix(s[r.dots[0]:], ".eyJ") && !strings.HasPrefix(s[r.dots[1]:end], ".eyJ") {
		return ""
	}
	key := strings.TrimRight(s[i:end], ".-_")
	if len(key) < k.min || len(key) > k.max {
		return ""
	}
	return key
}

// dotted reports whether a key of this shape may contain dots.
func (k *secretShape) dotted() bool {
	return k.prefix == "SG." || k.prefix == "ya29."
}

func notAlnum(r rune) bool { return r >= utf8.RuneSelf || !isAlnum(byte(r)) }

// generated reports whether a run of letters and digits looks like a part of a key, not like a word
// or a number.
func generated(run string) bool {
	if len(run) < 10 {
		return false
	}
	classes := uint16(0)
	for i := 1; i < len(run); i++ {
		classes |= tokenClass[run[i]]
	}
	return classes&inDigit != 0 && classes&inLetters != 0 || classes&inLetters == inLetters
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// opaque reads keys and addresses that are one run of letters and digits.
func (sc *scanner) opaque(tok string, mask uint16) bool {
	tok = strings.Trim(tok, ".:-+")
	if hexes := strings.TrimPrefix(tok, "0x"); len(hexes) >= 32 && isHex(hexes) {
		value := strings.ToLower(hexes)
		switch len(hexes) {
		case 32, 40, 64, 128:
			sc.keep(HexKey, value)
			return true
		}
		return false
	}
	if mask&(inUpper|inLower|inDigit) == inUpper|inLower|inDigit && mask&^(inLetters|inDigit|inDash) == 0 &&
		len(tok) <= maxValue && scattered(tok) {
		sc.keep(Opaque, tok)
		return true
	}
	return false
}

// scattered reports whether letters and digits alternate as often as in generated identifiers.
// Names such as ReportForQ3-2024 have fewer changes.
func scattered(tok string) bool {
	changes := 0
	for i := 1; i < len(tok); i++ {
		if (tokenClass[tok[i]]^tokenClass[tok[i-1]])&inDigit != 0 {
			changes++
		}
	}
	return 6*changes >= len(tok)
}

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}
