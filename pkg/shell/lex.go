package shell

import "strings"

// token is a word of a command line without its quotes.
type token struct {
	text    string
	inner   []string // the command lines that a shell substitutes in it
	unknown bool     // a shell expands it to a text that the line does not say
	glob    bool     // only patterns of file names make it unknown
	told    bool     // a variable in it is known if the line sets none
	split   bool     // a shell may expand it to several words, by a substitution or variable outside of quotes
	pipe    bool     // it is the name of a pipe with the output of inner: <(…)
}

type redirect struct {
	op     string // >, < or <<, whose text is in to
	to     token
	errors bool // not the program's output is redirected
}

// simple is one program of a line with its redirections.
type simple struct {
	words     []token
	redirects []redirect
	piped     bool // its output is the input of the next one
}

// lexer reads a command line of a shell.
type lexer struct {
	s string
	i int
}

// lex splits a command line into its programs. Unlike split, it reads redirections, here-documents and substitutions.
// ok is false for syntax that it does not know.
func lex(line string) (all []simple, ok bool) {
	l := &lexer{s: line}
	var c simple
	errors := false // the next redirection is not that of the output
	end := func(n int, piped bool) {
		if l.i += n; len(c.words)+len(c.redirects) > 0 {
			c.piped = piped
			all = append(all, c)
		}
		c = simple{}
	}
	for l.i < len(l.s) {
		rest := l.s[l.i:]
		switch ch := rest[0]; {
		case ch == ' ' || ch == '\t' || ch == '\r':
			l.i++
		case strings.HasPrefix(rest, "\\\n"):
			l.i += 2
		case ch == '#':
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.i += n
			} else {
				l.i = len(l.s)
			}
		case strings.HasPrefix(rest, "&&"), strings.HasPrefix(rest, "||"):
			end(2, false)
		case strings.HasPrefix(rest, "&>"):
			l.i++
		case ch == ';' || ch == '&' || ch == '\n':
			end(1, false)
		case strings.HasPrefix(rest, "|&"):
			end(2, true)
		case ch == '|':
			end(1, true)
		case ch == '(':
			if len(c.words) > 0 {
				return nil, false // a function or an array
			}
			end(1, false)
		case ch == ')': // its redirections are those of what is in the parentheses
			end(1, false)
			c.words = append(c.words, token{text: "done"})
		case strings.HasPrefix(rest, "<("):
			inner, n, ok := substitution(rest)
			if !ok {
				return nil, false
			}
			l.i += n
			c.words = append(c.words, token{text: "/dev/fd/63", inner: []string{inner}, pipe: true})
		case ch == '<' || ch == '>':
			r, ok := l.redirect()
			if !ok {
				return nil, false
			}
			r.errors, errors = errors, false
			if r.op != "" {
				c.redirects = append(c.redirects, r)
			}
		default:
			from := l.i
			t, ok := l.word()
			if !ok || control[t.text] && len(c.words) == 0 {
				return nil, false
			}
			if leading[t.text] && len(c.words) == 0 {
				continue
			}
			if l.i < len(l.s) && strings.IndexByte("<>", l.s[l.i]) >= 0 && strings.Trim(l.s[from:l.i], "0123456789") == "" {
				errors = strings.Trim(l.s[from:l.i], "1") != "" // the number of a descriptor
				continue
			}
			c.words = append(c.words, t)
		}
	}
	end(0, false)
	return all, true
}

// control are words of control structures that lex does not know. leading are words in front of a program.
var (
	control = set("case esac function select coproc alias enable hash builtin")
	leading = set("if then else elif while until do { ! time")
)

// redirect reads a redirection. A copy of a descriptor has no op.
func (l *lexer) redirect() (r redirect, ok bool) {
	op := ""
	for _, o := range []string{"<<<", "<<-", "<<", "<&", "<(", "<>", "<", ">>", ">&", ">|", ">(", ">"} {
		if strings.HasPrefix(l.s[l.i:], o) {
			op = o
			break
		}
	}
	l.i += len(op)
	for l.i < len(l.s) && (l.s[l.i] == ' ' || l.s[l.i] == '\t') {
		l.i++
	}
	from := l.i
	t, ok := l.word()
	if !ok {
		return r, false
	}
	switch op {
	case "<(", ">(", "<>":
		return r, false
	case "<<", "<<-":
		t, ok = l.document(t.text, op == "<<-", strings.ContainsAny(l.s[from:l.i], `'"\`))
		return redirect{op: "<<", to: t}, ok
	case "<<<":
		return redirect{op: "<<", to: t}, true
	case "<":
		return redirect{op: "<", to: t}, true
	case "<&":
		return r, t.text == "-"
	case ">&":
		if t.text == "-" || strings.Trim(t.text, "0123456789") == "" {
			return r, true
		}
	}
	return redirect{op: ">", to: t}, true
}

// document takes a here-document out of the line, and returns its text.
func (l *lexer) document(end string, tabs, quoted bool) (token, bool) {
	start := strings.IndexByte(l.s[l.i:], '\n')
	if start < 0 {
		return token{}, false
	}
	start += l.i + 1
	for at := start; at < len(l.s); {
		line, _, _ := strings.Cut(l.s[at:], "\n")
		next := min(at+len(line)+1, len(l.s))
		if tabs {
			line = strings.TrimLeft(line, "\t")
		}
		if line == end {
			body := l.s[start:at]
			l.s = l.s[:start] + l.s[next:]
			if quoted {
				return token{text: body}, true
			}
			inner := &lexer{s: body}
			var t token
			ok := inner.double(&t, false)
			return t, ok
		}
		at = next
	}
	return token{}, false
}

// word reads a word.
func (l *lexer) word() (t token, ok bool) {
	from := l.i
	for l.i < len(l.s) {
		switch c := l.s[l.i]; {
		case strings.IndexByte(" \t\r\n;|&<>()", c) >= 0:
			return t, l.i > from
		case c == '\'':
			end := strings.IndexByte(l.s[l.i+1:], c)
			if end < 0 {
				return t, false
			}
			t.text += l.s[l.i+1 : l.i+1+end]
			l.i += end + 2
		case c == '"':
			l.i++
			if !l.double(&t, true) {
				return t, false
			}
		case strings.HasPrefix(l.s[l.i:], "\\\n"):
			l.i += 2
		case c == '\\' && l.i+1 < len(l.s):
			t.text += l.s[l.i+1 : l.i+2]
			l.i += 2
		case c == '$' || c == '`':
			if strings.HasPrefix(l.s[l.i:], "$'") || !l.dollar(&t) { // $'…' has escapes
				return t, false
			}
			t.split = true
		default:
			if strings.IndexByte("*?[{", c) >= 0 {
				t.unknown, t.glob = true, t.glob || !t.unknown
			}
			t.text += l.s[l.i : l.i+1]
			l.i++
		}
	}
	return t, l.i > from
}

// double reads text as in double quotes, up to the quote or to the end.
func (l *lexer) double(t *token, quote bool) bool {
	for l.i < len(l.s) {
		switch c := l.s[l.i]; {
		case c == '"' && quote:
			l.i++
			return true
		case strings.HasPrefix(l.s[l.i:], "\\\n"):
			l.i += 2
		case c == '\\' && l.i+1 < len(l.s):
			t.text += l.s[l.i+1 : l.i+2]
			l.i += 2
		case c == '$' || c == '`':
			if !l.dollar(t) {
				return false
			}
		default:
			t.text += l.s[l.i : l.i+1]
			l.i++
		}
	}
	return !quote
}

// told are variables whose values say nothing that matters.
var told = set("HOME PWD USER LOGNAME HOSTNAME SHELL")

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// substitution returns the command line in $(…) or <(…) at the start of s, and the length of the whole.
func substitution(s string) (inner string, n int, ok bool) {
	depth, i := 1, 2
	for ; i < len(s) && depth > 0; i++ {
		switch s[i] {
		case '\\', '\'', '"':
			// Quotes may hide a parenthesis.
			if s[i] == '\\' {
				i++
			} else if end := strings.IndexByte(s[i+1:], s[i]); end >= 0 {
				i += end + 1
			}
		case '<':
			i += document(s[i:])
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	if depth > 0 {
		return "", 0, false
	}
	return s[2 : i-1], i, true
}

// document returns the length of a here-document with its operator at the start of s, up to the last byte of the
// word that ends it. It returns 0 if there is none.
func document(s string) int {
	word, rest, ok := strings.Cut(strings.TrimPrefix(s, "<<"), "\n")
	word = strings.Trim(word, " '\"")
	if !ok || !strings.HasPrefix(s, "<<") || word == "" || strings.Trim(word, nameLetters) != "" {
		return 0
	}
	end := strings.Index("\n"+rest, "\n"+word+"\n")
	if end < 0 {
		return 0
	}
	return len(s) - len(rest) + end + len(word) - 1
}

// dollar reads a substitution or a variable.
func (l *lexer) dollar(t *token) bool {
	rest := l.s[l.i:]
	switch {
	case rest[0] == '`':
		end := strings.IndexByte(rest[1:], '`')
		if end < 0 || strings.Contains(rest[1:1+end], `\`) {
			return false
		}
		t.inner = append(t.inner, rest[1:1+end])
		l.i += end + 2
	case strings.HasPrefix(rest, "$(("):
		end := strings.Index(rest, "))")
		if end < 0 || strings.ContainsAny(rest[3:end], "$`") {
			return false
		}
		l.i += end + 2
	case strings.HasPrefix(rest, "$("):
		inner, n, ok := substitution(rest)
		if !ok {
			return false
		}
		t.inner = append(t.inner, inner)
		l.i += n
	case strings.HasPrefix(rest, "${"):
		end := strings.IndexByte(rest, '}')
		if end < 0 || strings.ContainsAny(rest[2:end], "$`'\"\\=") {
			return false
		}
		if told[rest[2:end]] {
			t.told = true
		} else {
			t.unknown, t.glob = true, false
		}
		t.text += rest[:end+1]
		l.i += end + 1
	case strings.HasPrefix(rest, "$["):
		return false
	case strings.HasPrefix(rest, "$'"), strings.HasPrefix(rest, `$"`), len(rest) == 1:
		t.text += "$"
		l.i++
	default:
		name := rest[1:]
		if end := strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(nameLetters, r) }); end >= 0 {
			name = name[:end]
		}
		switch {
		case told[name]:
			t.told = true
		case name != "" || strings.HasPrefix(rest, "$@") || strings.HasPrefix(rest, "$*"): // not as in $?
			t.unknown, t.glob = true, false
		}
		t.text += rest[:1+len(name)]
		l.i += 1 + len(name)
	}
	return true
}
