package policy

import (
	"cel.dev/cel-go/cel"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// entry is a compiled entry.
type entry struct {
	name          string
	level         beliefs.Level
	floor         streams.Verdict // of the level and of require
	reason        streams.Reason  // when the floor is not allow
	effects       effectSet
	blast         beliefs.BlastRadius
	reversibility beliefs.Reversibility
	when          cel.Program // nil: always
	groups        uint64      // that it asks the assessment of, by place in Policy.Groups

	text *entryText // as written; nil for otherwise

	approver keys.Role // asked for by its approval; empty: the policy's

	needsObject bool
	anyTool     bool   // has a condition only
	of          string // only for tools of this catalogue; empty: of any
	insists     bool   // require stands in it
}

// seen is in which ways a tool's name met an entry.
type seen uint8

const (
	seenTool seen = 1 << iota
	seenVerb
	seenNoun // an ambiguous word that is not the first: enough to raise, not to admit
	seenObject
)

// matches decides by the name alone. plain is toolName.plain.
func (e *entry) matches(s seen, plain bool) bool {
	raises := e.floor > streams.Allow
	switch {
	case e.anyTool, s&seenTool != 0:
		return true
	case e.needsObject && s&seenObject == 0:
		return false
	case s&seenVerb != 0:
		return plain || raises
	}
	return s&seenNoun != 0 && raises
}

// index leads from words and names to entries, by their place in
// Policy.entries.
type index struct {
	verbs     map[string][]int // count wherever they stand
	ambiguous map[string][]int // count by where they stand
	objects   map[string][]int
	exact     map[string][]int     // whole names
	byWord    map[string][]pattern // patterns whose first word is literal, by that word
	patterns  []pattern            // all others
}

type pattern struct {
	text  string
	entry int
}

func newIndex() index {
	return index{
		verbs: map[string][]int{}, ambiguous: map[string][]int{}, objects: map[string][]int{},
		exact: map[string][]int{}, byWord: map[string][]pattern{},
	}
}

// mark notes in hits what the name has of each entry.
func (x *index) mark(n *toolName, hits []seen) {
	for _, w := range n.words {
		text := n.text(w)
		for _, i := range x.verbs[string(text)] {
			hits[i] |= seenVerb
		}
		if !w.noun {
			for _, i := range x.ambiguous[string(text)] {
				hits[i] |= seenNoun
				if w.head {
					hits[i] |= seenVerb
				}
			}
		}
		for _, i := range x.objects[string(text)] {
			hits[i] |= seenObject
		}
	}
	for _, i := range x.exact[string(n.norm)] {
		hits[i] |= seenTool
	}
	if len(n.words) > 0 {
		for _, p := range x.byWord[string(n.text(n.words[0]))] {
			if matchPattern(p.text, n.norm) {
				hits[p.entry] |= seenTool
			}
		}
	}
	for _, p := range x.patterns {
		if matchPattern(p.text, n.norm) {
			hits[p.entry] |= seenTool
		}
	}
}
