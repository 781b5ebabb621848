package shell

import (
	"slices"
	"strings"
)

// word is a word of a command line, after the quotes in it were removed.
type word struct {
	text string
	wild bool // a shell may expand it to other words
}

// Words returns the words of a command line that starts one program. ok is false if a shell would do more with the
// line: expand or substitute a word, redirect to a file, or start another program. The file of an input redirection is
// returned as a word. A redirection that discards output is ignored.
func Words(line string) (words []string, ok bool) {
	all, plain, ok := lex(line)
	programs, fine := plainWords(all)
	if !ok || !plain || !fine || len(programs) != 1 {
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

// plainWords returns the words of each program. ok is false if a shell would substitute something, or redirect to a
// file. Four things are allowed: discarding output, 2>&1, input from a file, and expansions. A word that expands has
// the field wild set.
func plainWords(all []simple) (programs [][]word, ok bool) {
	for _, c := range all {
		tokens := c.words
		for _, r := range c.redirects {
			switch {
			case r.op == "<":
				tokens = append(slices.Clip(tokens), r.to)
			case r.op != ">" || r.to.text != "/dev/null" || !literal(r.to):
				return nil, false
			}
		}
		var words []word
		for _, t := range tokens {
			if t.text == "" || t.loose || len(t.inner) > 0 {
				return nil, false
			}
			words = append(words, word{t.text, t.unknown || t.told || strings.Contains(t.text, "~")})
		}
		if len(words) == 0 {
			return nil, false
		}
		programs = append(programs, words)
	}
	return programs, len(programs) > 0
}

// Text is the word that Program returns instead of a document.
const Text = "\x00text"

// Program is like Words, with two differences. A word may be empty. A word in quotes may be a document, which is a
// here-document that cat prints, as in gh pr create --body "$(cat <<'EOF' …)". For such a word, Program returns Text.
func Program(line string) (words []string, ok bool) {
	all, plain, ok := lex(line)
	if len(line) > MaxLine || !ok || !plain || len(all) != 1 || len(all[0].words) == 0 {
		return nil, false
	}
	for _, r := range all[0].redirects {
		if r.op != ">" || r.to.text != "/dev/null" || !literal(r.to) {
			return nil, false
		}
	}
	for i, t := range all[0].words {
		switch {
		case literal(t) && !t.glob && !t.loose && !t.split && !t.pipe:
			words = append(words, t.text)
		case i > 0 && document(t):
			words = append(words, Text)
		default:
			return nil, false
		}
	}
	if assigns(words[0]) || words[0] == evaluating || words[0] == closing {
		return nil, false
	}
	return words, true
}

// document reports whether a word consists of a here-document that cat prints, in quotes, and of nothing else.
func document(t token) bool {
	if t.text != "" || t.unknown || t.told || t.split || t.loose || t.pipe || len(t.inner) != 1 ||
		len(t.inner[0].commands) != 1 {
		return false
	}
	c := t.inner[0].commands[0]
	return len(c.words) == 1 && c.words[0].text == "cat" && literal(c.words[0]) && len(c.redirects) == 1 &&
		c.redirects[0].op == "<<" && literal(c.redirects[0].to)
}
