package shell

import "strings"

// word is a word of a command line without its quotes.
type word struct {
	text string
	wild bool // a shell may expand it to other words
}

// Words returns the words of a command line that starts one program. ok is false if a shell would do more with the
// line: expand or substitute a word, redirect to a file, or start another program. The file of an input redirection
// counts as a word, and a redirection that discards output counts as nothing.
func Words(line string) (words []string, ok bool) {
	programs, ok := split(line)
	if !ok || len(programs) != 1 {
		return nil, false
	}
	for _, w := range programs[0] {
		if w.wild {
			return nil, false
		}
		words = append(words, w.text)
	}
	return words, true
}

// split splits a command line into its programs, at pipes and separators. ok is false if a shell
// would substitute something, redirect to a file or run something in the background. Discarding
// output, 2>&1, expansions and input from a file are allowed.
func split(line string) (programs [][]word, ok bool) {
	var words []word
	flush := func() bool {
		if len(words) == 0 {
			return false
		}
		programs, words = append(programs, words), nil
		return true
	}
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case discarded(line[i:]) > 0:
			i += discarded(line[i:])
			if i < len(line) && !strings.ContainsRune(" \t\n;|&", rune(line[i])) {
				return nil, false
			}
		case strings.HasPrefix(line[i:], "&&"), strings.HasPrefix(line[i:], "||"):
			if i += 2; !flush() {
				return nil, false
			}
		case c == '|' || c == ';' || c == '\n':
			if i++; !flush() {
				return nil, false
			}
		case c == '<' && i+1 < len(line) && !strings.ContainsRune("<>(&", rune(line[i+1])):
			i++
		default:
			w, n, fine := readWord(line[i:])
			if !fine {
				return nil, false
			}
			words, i = append(words, w), i+n
		}
	}
	return programs, flush() || len(programs) > 0
}

// discarded returns the length of a redirection at the start of s that writes no file, or 0.
func discarded(s string) int {
	for _, r := range []string{"2>&1", ">/dev/null", "2>/dev/null"} {
		if strings.HasPrefix(s, r) {
			return len(r)
		}
	}
	return 0
}

// readWord reads a word, which may be quoted, and returns it and its length in s in bytes.
func readWord(s string) (w word, n int, ok bool) {
	var b strings.Builder
	for n < len(s) {
		c := s[n]
		switch {
		case strings.IndexByte(" \t\n;|", c) >= 0, strings.HasPrefix(s[n:], "&&"), c == '<':
			w.text = b.String()
			return w, n, w.text != ""
		case c == '#' && n == 0: // a comment, whose quotes do not count
			return word{}, 0, false
		case c == '\'':
			end := strings.IndexByte(s[n+1:], c)
			if end < 0 {
				return word{}, 0, false
			}
			b.WriteString(s[n+1 : n+1+end])
			n += end + 2
		case c == '"':
			text, size, fine := quoted(s[n+1:], &w.wild)
			if !fine {
				return word{}, 0, false
			}
			b.WriteString(text)
			n += size + 2
		case c == '\\' && n+1 < len(s) && s[n+1] >= ' ':
			b.WriteByte(s[n+1])
			n += 2
		case c == '=' && b.Len() > 0 && b.String()[0] == '-':
			b.WriteByte(c)
			n++
		case strings.IndexByte("~*?[]{}!=#$", c) >= 0 && !strings.HasPrefix(s[n:], "$(") &&
			!strings.HasPrefix(s[n:], "${") && !strings.HasPrefix(s[n:], "$[") && !strings.HasPrefix(s[n:], "$'"):
			w.wild = w.wild || c != '=' && c != '#' && c != '!'
			b.WriteByte(c)
			n++
		case strings.IndexByte("&<>$`(){}\\#*?[]!~=", c) >= 0, c < ' ', c >= 0x7f:
			return word{}, 0, false
		default:
			b.WriteByte(c)
			n++
		}
	}
	w.text = b.String()
	return w, n, w.text != ""
}

// quoted reads up to the end of a double quoted text.
func quoted(s string, expands *bool) (text string, n int, ok bool) {
	var b strings.Builder
	for ; n < len(s); n++ {
		switch c := s[n]; {
		case c == '"':
			return b.String(), n, true
		case c == '`':
			return "", 0, false
		case c == '$':
			if n+1 < len(s) && strings.IndexByte("({[", s[n+1]) >= 0 {
				return "", 0, false
			}
			*expands = true
			b.WriteByte(c)
		case c == '\\' && n+1 < len(s):
			if n++; s[n] == '\n' {
				continue // the line goes on
			}
			if strings.IndexByte("$`\"\\", s[n]) < 0 {
				b.WriteByte(c)
			}
			b.WriteByte(s[n])
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}
