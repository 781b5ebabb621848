package fit

import (
	_ "embed"
	"math/rand"
	"strings"
	"sync"
)

// grammarText has a block for each name: the name with a colon, and below it, indented, its alternatives with || between
// them.
//
//go:embed grammar.txt
var grammarText string

// The data sets have few styles of language. These grammars add orders and harmless text in ordinary English, so that a
// weight depends on the style of more than one author. The grammars were written without looking at a data set. A name
// in braces is replaced by one of its alternatives.
var grammar = sync.OnceValue(func() map[string][]string {
	blocks := make(map[string]string)
	name := ""
	for line := range strings.Lines(grammarText) {
		if head, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), ":"); ok && !strings.HasPrefix(line, " ") {
			name = head
		} else {
			blocks[name] += line
		}
	}
	out := make(map[string][]string, len(blocks))
	for name, text := range blocks {
		out[name] = strings.Split(strings.Join(strings.Fields(text), " "), " || ")
	}
	return out
})

// expand returns a random sentence of a grammar.
func expand(rng *rand.Rand, name string) string {
	alt := grammar()[name]
	if alt == nil {
		panic("no alternatives for " + name)
	}
	s := alt[rng.Intn(len(alt))]
	for {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			return s
		}
		j := i + strings.IndexByte(s[i:], '}')
		s = s[:i] + expand(rng, s[i+1:j]) + s[j+1:]
	}
}

// drawn returns n random sentences with orders, and n random harmless sentences.
func drawn(n int) (attack, benign []string) {
	rng := rand.New(rand.NewSource(7))
	for range n {
		attack = append(attack, expand(rng, "attack"))
		benign = append(benign, expand(rng, "benign"))
	}
	return attack, benign
}
