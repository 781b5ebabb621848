package lexical

import (
	_ "embed"
	"encoding/binary"
	"strings"
	"sync"

	"lazaret/pkg/text"
)

// The shape of the table of neighbours.
const (
	// NearWords is how many English stems have neighbours: the most frequent.
	NearWords = 12_000
	// NearEach is how many neighbours a stem has at most.
	NearEach = 32

	nearEntry = 3 // bytes: the neighbour's line in near.txt, its weight
)

// nearStems are the stems, one a line, the most frequent first. Command
// pkg/lexical/vectors makes both files from public word vectors; near.LICENSE has their
// licences.
//
//go:embed near.txt
var nearStems string

// nearTable has NearEach entries for each line of nearStems, the nearest first. A weight
// of 0 ends the neighbours of a stem.
//
//go:embed near.bin
var nearTable string

// Neighbour is a word that stands in similar texts as a word of a query.
type Neighbour struct {
	Term text.Term
	// Weight is what the neighbour counts for, in 256ths of the word itself: 0.3 times
	// the third power of the cosine of the two words' vectors.
	Weight uint32
}

type neighbours struct {
	stems []text.Term
	line  map[text.Term]int
}

var shipped = sync.OnceValue(func() *neighbours {
	n := &neighbours{line: make(map[text.Term]int, NearWords)}
	for s := range strings.Lines(nearStems) {
		t := text.Stem(strings.TrimSuffix(s, "\n"))
		if _, ok := n.line[t]; !ok {
			n.line[t] = len(n.stems)
		}
		n.stems = append(n.stems, t)
	}
	return n
})

// Near returns the neighbours of words, in the order of the words and nearest first:
// the value of Query.Near.
func Near(words []text.Term) []Neighbour {
	n := shipped()
	var out []Neighbour
	for _, w := range words {
		line, ok := n.line[w]
		if !ok {
			continue
		}
		row := nearTable[line*NearEach*nearEntry:][:NearEach*nearEntry]
		for ; len(row) > 0 && row[2] > 0; row = row[nearEntry:] {
			at := binary.BigEndian.Uint16([]byte(row[:2]))
			out = append(out, Neighbour{n.stems[at], uint32(row[2])})
		}
	}
	return out
}
