package text

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// passwordNames are parameters of URLs whose values are passwords. Tokens are not among them: a link often has one, and
// it is for the link's own host.
var passwordNames = set(`password passwd pwd passphrase passcode user_password userpassword client_secret pass pw
	db_password dbpassword db_pass`)

// placeholders are values in place of a password in manuals, and passwords that many programs have at first.
var placeholders = set(`password passwd passwort secret secrets changeme change_me changeit example required optional
	hidden redacted masked removed postgres mysql root admin administrator guest default rabbitmq minioadmin foobar
	undefined string passphrase forgot forgotten confirm update private`)

// placeholderWord matches one word of a placeholder for a password in manuals, such as "your-db-password-here".
const placeholderWord = `(?:your|my|new|old|some|strong|secure|real|actual|user|admin|root|db|database|app|api|pg|` +
	`redis|mongo|smtp|server|client|ci|password|passwd|passwort|passphrase|passcode|pass|pwd|pw|secrets?|token|key|` +
	`credentials?|value|values|here|goes|env|vars?|placeholder|example|sample|dummy|change|me|insert|enter|replace|with|` +
	`redacted|hidden|masked|removed|xx+)`

var (
	// separateWords matches words with separators between them: your-password, new_db_pass_here. Only "your" may be
	// joined with the next word, because people choose passwords such as rootpass or NewAdminPass.
	separateWords = regexp.MustCompile(`^[-_. …]*(?:your)?` + placeholderWord + `(?:[-_. …]+` + placeholderWord +
		`)*[-_. …]*$`)
	joinedWords = regexp.MustCompile(`^` + placeholderWord + `+$`) // dbpassword, as in $dbPassword
)

// placeholder reports whether a value as a whole is a placeholder for a password: your-password, <db password>, ${PW},
// {{ .Values.password }}, ****. A password of which only a part has this form is no placeholder.
func placeholder(value string) bool {
	lower := strings.ToLower(value)
	if placeholders[lower] || variable(value) || strings.Trim(lower, lower[:1]) == "" ||
		separateWords.MatchString(lower) || strings.Trim(value, "….") == "" {
		return true
	}
	inner := strings.TrimRight(strings.TrimLeft(value, "$<{[(%*"), ">}])%*")
	if strings.IndexByte("$<{[(%*", value[0]) < 0 || strings.ContainsFunc(inner, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && !strings.ContainsRune("-_. /", r)
	}) {
		return false
	}
	return inner == strings.ToUpper(inner) && (value[0] == '$' || value[0] == '%') ||
		strings.HasPrefix(value, "$(") && !strings.HasSuffix(value, ")") ||
		slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(inner), notAlnum), joinedWords.MatchString)
}

const minPassword = 6

// passwords keeps the passwords in a URL: in front of the host, and in parameters. tail is the URL after its authority,
// and at is the position of the authority in the text. A host without a dot, such as localhost, is this machine or a
// machine of a test. A password in front of such a host does not count. If the host is reserved for manuals, no
// password counts.
func (sc *scanner) passwords(authority, tail, host string, at int) {
	if documented(host) {
		return
	}
	if i := strings.LastIndexByte(authority, '@'); i > 0 && remote(host) {
		if user, pw, ok := strings.Cut(authority[:i], ":"); ok && pw != user {
			sc.password(pw, at+len(user)+1)
		}
	}
	query, ok := "", false
	if i := strings.IndexAny(tail, "?#"); i >= 0 {
		query, ok = tail[i+1:], true
	}
	for from := at + len(authority) + len(tail) - len(query); ok && query != ""; {
		param := query
		if i := strings.IndexAny(query, "?&;#"); i >= 0 {
			param = query[:i]
		}
		if name, value, ok := strings.Cut(param, "="); ok && value != "" {
			if plain, err := url.QueryUnescape(name); err == nil && passwordNames[strings.ToLower(plain)] {
				sc.password(value, from+len(name)+1)
			}
		}
		query = query[min(len(param)+1, len(query)):]
		from += len(param) + 1
	}
}

// WithoutPasswords returns the URL s without the passwords in front of its host and in its query, and these passwords. It
// returns s and none if s is not a single URL.
func WithoutPasswords(s string) (bare string, passwords []string) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return s, nil
	}
	if pw, ok := u.User.Password(); ok {
		u.User, passwords = url.User(u.User.Username()), append(passwords, pw)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s, nil
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if passwordNames[strings.ToLower(name)] {
			passwords = append(passwords, query[name]...)
			delete(query, name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), passwords
}

// remote reports whether host is a name with a dot or an IP address, and not this machine.
func remote(host string) bool {
	if ip, ok := parseIP(host); ok {
		return !ip.IsLoopback()
	}
	return strings.IndexByte(host, '.') > 0
}

// documented reports whether host is one of the names that are reserved for manuals (RFC 2606). Nobody receives what is
// sent there.
func documented(host string) bool {
	for _, d := range []string{"example.com", "example.net", "example.org"} {
		if rest, ok := strings.CutSuffix(host, d); ok && (rest == "" || rest[len(rest)-1] == '.') {
			return true
		}
	}
	return false
}

// variable reports whether s has the form of the name of a variable: GITHUB_TOKEN, PASSWORD_HERE.
func variable(s string) bool {
	return strings.IndexByte(s, '_') > 0 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// password keeps a password at position at, unless it is a placeholder.
func (sc *scanner) password(raw string, at int) {
	value := raw
	if plain, err := url.QueryUnescape(raw); err == nil {
		value = plain
	}
	if len(value) < minPassword || placeholder(value) ||
		len(value) < 8 && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz") == "" {
		return
	}
	sc.keepAt(Secret, masked(value, 0, 0), at, at+len(raw))
}

// labelKeys keeps API keys that are in a label of a host. Hosts are in lower case and have no underscore. So such a key
// is in lower case, and may lack its underscore.
func (sc *scanner) labelKeys(host string) {
	if len(host) < minLabelKey {
		return
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) < minLabelKey {
			continue
		}
		for _, k := range secretShapes {
			prefix := strings.TrimRight(strings.ToLower(k.prefix), "_-.")
			rest, ok := strings.CutPrefix(label, prefix)
			if !ok || len(prefix) < 3 || prefix == "eyj" {
				continue
			}
			lost := len(k.prefix) - len(prefix)
			if rest = strings.TrimLeft(rest, "-_"); len(prefix)+lost+len(rest) < k.min || len(rest) > k.max ||
				!generated(longest(rest)) {
				continue
			}
			sc.keep(Secret, masked(label, len(prefix), 0))
			break
		}
	}
}

// minLabelKey is the length of the shortest key in a label of a host.
const minLabelKey = 20

// longest returns the longest run of letters and digits in s.
func longest(s string) (run string) {
	for part := range strings.FieldsFuncSeq(s, notAlnum) {
		if len(part) > len(run) {
			run = part
		}
	}
	return run
}
