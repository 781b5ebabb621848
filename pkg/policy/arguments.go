package policy

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// Limits on how much of an action's arguments is read. If there is more, the field unread is set. It causes a hold if
// the policy checks all addresses and names in the arguments, or has protected resources.
const (
	maxArgDepth  = 16
	maxArgValues = 4096
	maxWords     = 16384 // in command lines
)

// arguments lists the destinations and resources that the arguments of a call name.
type arguments struct {
	destinations []destination
	resources    []string // lower case, paths cleaned
	unread       bool     // a limit was reached
	line         bool     // the call has a command line, and no other argument that may name a destination
	command      string   // the argument command, if it is a string
	text         string   // all strings
}

// lineFolders are arguments beside a command line that name no destination: the folder in which the line runs, and
// whether it runs in the background.
var lineFolders = text.Set("cwd workdir workingdirectory directory dir isbackground")

// hostWords are the last words of names of arguments that contain a host.
var hostWords = contentWords(strings.Fields(`host hostname server domain url uri endpoint address addr ip target
	destination dest proxy webhook callback site link href remote upstream gateway hosts urls uris endpoints addresses ips
	servers domains targets destinations recipient recipients to`))

// partyWords are the hostWords that may also name an account, a number or a person. A bare number
// in such an argument is not an address.
var partyWords = contentWords(strings.Fields("target destination dest targets destinations recipient recipients to"))

// networkSchemes are the URL schemes that name a host to connect to. A URL with another scheme
// (note://, s3://) does not, unless it has a port.
var networkSchemes = contentWords(
	strings.Fields(`http https ws wss ftp ftps sftp tftp scp ssh git rsync svn telnet tcp tcp4 tcp6 udp tls ssl unix gopher
	gophers dict ldap ldaps smb smbs cifs nfs afp imap imaps pop3 pop3s smtp smtps rtsp rtmp rtmps mms sip sips irc ircs
	xmpp redis rediss mongodb mysql mariadb postgres postgresql sqlserver oracle clickhouse cassandra amqp amqps mqtt mqtts
	nats kafka stomp grpc grpcs socks socks4 socks4a socks5 socks5h proxy vnc rdp docker hdfs webhdfs dav davs feed
	view-source jar netdoc`))

// networkURL reports whether a URL, in the form of text.URL, names a host to connect to.
func networkURL(u string) bool {
	scheme, _, _ := strings.Cut(u, "://")
	for part := range strings.SplitSeq(scheme, "+") { // as in git+ssh
		if networkSchemes[part] {
			return true
		}
	}
	host := urlHost(u)
	i := strings.LastIndexByte(host, ':')
	return i >= 0 && i+1 < len(host) && strings.Trim(host[i+1:], "0123456789") == ""
}

type argValue struct {
	text  string
	host  bool // the argument's name is one for hosts
	party bool // the argument may name a person or account instead
}

// readArguments extracts destinations and resources from the arguments of a call. content has the
// names of arguments that are only text for the receiver, so that addresses in them are not
// destinations. commands is set if every argument may be executed, as for a shell.
func readArguments(raw []byte, content map[string]bool, commands bool) (a arguments) {
	if len(raw) == 0 {
		return a
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		// A value that cannot be parsed is examined as a whole.
		a.unread = true
		root = string(raw)
	}
	var values []argValue
	var walk func(v any, key string, depth int)
	walk = func(v any, key string, depth int) {
		if depth > maxArgDepth || len(values) >= maxArgValues {
			a.unread = true
			return
		}
		last := lastWord(key)
		add := func(s string) {
			if s != "" && (commands || !content[last]) {
				values = append(values, argValue{s, hostWords[last], partyWords[last]})
			}
		}
		switch v := v.(type) {
		case string:
			add(v)
		case float64:
			if v >= 0 && v <= math.MaxUint32 && v == math.Trunc(v) {
				add(strconv.FormatUint(uint64(v), 10))
			}
		case []any:
			for _, x := range v {
				walk(x, key, depth+1)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				values = append(values, argValue{text: k})
				walk(v[k], k, depth+1)
			}
		}
	}
	walk(root, "", 0)
	m, _ := root.(map[string]any)
	a.command, a.line = m["command"].(string)
	for name := range m { // a tool with further arguments may connect to the addresses in these
		a.line = a.line && (lineArguments[plainArgument(name)] || lineFolders[plainArgument(name)])
	}
	a.gather(values, commands)
	return a
}

func lastWord(key string) string {
	n := parseName(key, nil, nil)
	for i := len(n.words) - 1; i >= 0; i-- {
		if w := string(n.text(n.words[i])); strings.Trim(w, "0123456789") != "" {
			return w
		}
	}
	return ""
}

func (a *arguments) gather(values []argValue, commands bool) {
	var all strings.Builder
	words := 0
	seen := make(map[destination]bool)
	urlHosts := make(map[string]bool)
	reaches := func(d destination) {
		if d.url {
			urlHosts[d.String()] = true
		}
		if !seen[d] {
			seen[d] = true
			a.destinations = append(a.destinations, d)
		}
	}
	touched := make(map[string]bool)
	touches := func(s string) {
		if len(s) > maxResourceLen {
			a.unread = true
			return
		}
		if s = cleanResource(s); s != "" && !touched[s] {
			touched[s] = true
			a.resources = append(a.resources, s)
		}
	}
	for _, v := range values {
		all.WriteString(v.text)
		all.WriteByte('\n')
		touches(v.text)
		bare := v.text
		if rest, ok := strings.CutPrefix(strings.ReplaceAll(v.text, `\`, "/"), "//"); ok { // as in //host/share
			bare, _, _ = strings.Cut(rest, "/")
			if d, ok := destinationOf(bare); ok {
				d.url = true
				reaches(d)
			}
		} else if v.host && !strings.Contains(bare, "://") && !strings.Contains(bare, "@") {
			bare, _, _ = strings.Cut(bare, "/")
			if d, ok := destinationOf(bare); ok && !(v.party && bareNumber(bare)) {
				d.url = strings.Contains(d.host, ".") || d.addr.IsValid()
				reaches(d)
			}
		}
		if !commands {
			continue
		}
		numbers, last, before := shell.Connects(v.text), "", ""
		for w := range strings.FieldsFuncSeq(v.text, shell.SplitsWords) {
			if words++; words > maxWords {
				a.unread = true
				break
			}
			touches(w)
			w = w[strings.LastIndexByte(w, '@')+1:]
			if before, last = last, w; before == "sleep" && seconds(w) {
				continue
			}
			if d, ok := destinationOf(w); ok && (d.addr.IsValid() && (strings.ContainsAny(w, ".:x") &&
				(numbers || !bareNumber(w)) || numbers && len(w) > 7) || innerHosts.hasHost(d.host) ||
				metaHosts.hasHost(d.host)) {
				reaches(d)
			}
		}
	}
	joined := all.String()
	a.text = joined
	f := text.Analyze(joined)
	a.unread = a.unread || f.Partial
	lower := strings.ToLower(joined)
	mail, named := mailHosts(f.Carriers, lower), make(map[string]bool)
	for _, c := range f.Carriers {
		if c.Kind != text.URL {
			continue
		}
		if !networkURL(c.Value) {
			// The URL's host counts only if it also occurs outside the URL.
			if h := urlHost(c.Value); strings.Count(lower, h) <= strings.Count(lower, "://"+h) {
				named[h] = true
			}
			continue
		}
		if d, ok := destinationOf(urlHost(c.Value)); ok {
			d.url = true
			reaches(d)
		}
	}
	for _, c := range f.Carriers {
		touches(c.Value)
		if c.Kind != text.Host && c.Kind != text.IP || named[c.Value] {
			continue
		}
		if d, ok := destinationOf(c.Value); ok && !urlHosts[d.String()] {
			d.mail = mail[c.Value]
			reaches(d)
		}
	}
}

// mailHosts returns the hosts that occur in e-mail addresses only.
func mailHosts(cs []text.Carrier, lower string) map[string]bool {
	mail := make(map[string]bool)
	for _, c := range cs {
		if c.Kind == text.Email {
			host := c.Value[strings.LastIndexByte(c.Value, '@')+1:]
			if strings.Count(lower, host) <= strings.Count(lower, "@"+host) {
				mail[host] = true
			}
		}
	}
	return mail
}

// urlHost returns the host of a URL in the form of text.URL.
func urlHost(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// seconds reports whether s is a number of seconds from 0.1 to 9.9, as in "sleep 0.2". Read as an address, such a number
// is a public one, or 0.0.0.1 to 0.0.0.9, to which no program can connect.
func seconds(s string) bool {
	return len(s) == 3 && s[0] >= '0' && s[0] <= '9' && s[1] == '.' && s[2] >= '1' && s[2] <= '9'
}

// bareNumber reports whether s has only digits (any number of them), or is a decimal fraction or two numbers with a
// colon between them, such as a time of day, with at most seven digits in all. Such a text counts as an address only
// in a URL, in an argument that can only name hosts, or in a command line with a program that connects.
func bareNumber(s string) bool {
	number, port, _ := strings.Cut(strings.TrimSpace(s), ":")
	whole, fraction, _ := strings.Cut(number, ".")
	plain := number == whole && number == strings.TrimSpace(s)
	return strings.Trim(whole+fraction+port, "0123456789") == "" && (plain || len(whole)+len(fraction)+len(port) <= 7)
}
