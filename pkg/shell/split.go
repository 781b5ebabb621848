package shell

import (
	"slices"
	"strings"
)

// word is a word of a command line without its quotes.
type word struct {
	text string
	wild bool // a shell may expand it to other words
}

// Words returns the words of a command line that starts one program. ok is false if a shell would do more with the
// line: expand or substitute a word, redirect to a file, or start another program. The file of an input redirection
// counts as a word, and a redirection that discards output counts as nothing.
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

// plainWords returns the words of programs. ok is false if a shell would substitute something, or redirect to a file.
// Discarding output, 2>&1, expansions and input from a file are allowed.
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
