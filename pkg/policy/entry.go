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
	floor         streams.Verdict // the stricter one of the level's floor and the field `require`
	reason        streams.Reason  // set if the floor is not allow
	effects       effectSet
	blast         beliefs.BlastRadius
	reversibility beliefs.Reversibility
	when          cel.Program // nil: always
	groups        uint64      // groups that the entry requires, as bits by index in Policy.Groups

	text *entryText // the source text; nil for otherwise

	approver keys.Role // required role; empty: the policy's

	needsObject bool
	anyTool     bool   // the entry names no tool and no words: only its condition decides
	of          string // catalogue that the tool must come from; empty: any
	insists     bool   // the entry has the field `require`
	fixed       bool   // the arguments of a call do not raise the level
}

// seen is the set of ways in which a tool's name matched an entry.
type seen uint8

const (
	seenTool seen = 1 << iota
	seenVerb
	seenNoun // an ambiguous word that may be a noun: the match can raise the level, not allow the action
	seenObject
)

// matches reports whether the entry matches a tool's name. s says which parts of the entry are in
// the name. plain says whether the name is ASCII. In other names, words match only an entry that
// does not allow the action.
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

// index maps words and names to entries, as indexes in Policy.entries.
type index struct {
	verbs     map[string][]int // count at any position
	ambiguous map[string][]int // count depending on their position
	objects   map[string][]int
	exact     map[string][]int     // whole names
	byWord    map[string][]pattern // patterns with a literal first word, by that word
	patterns  []pattern            // all others
}

type pattern struct {
	text  string
	entry int
}

func newIndex() index {
	return index{verbs: map[string][]int{}, ambiguous: map[string][]int{}, objects: map[string][]int{},
		exact: map[string][]int{}, byWord: map[string][]pattern{}}
}

// mark records in hits, for each entry, which parts of the name match.
func (x *index) mark(n *toolName, hits []seen) {
	for _, w := range n.words {
		text := n.text(w)
		if !w.still {
			for _, i := range x.verbs[string(text)] {
				hits[i] |= seenVerb
			}
		}
		if !w.noun {
			for _, i := range x.ambiguous[string(text)] {
				hits[i] |= seenNoun
				if w.act {
					hits[i] |= seenVerb
				}
			}
		}
		for _, i := range x.objects[string(text)] {
			hits[i] |= seenObject
		}
	}
	if n.reads {
		for _, i := range x.verbs["get"] {
			hits[i] |= seenVerb
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
