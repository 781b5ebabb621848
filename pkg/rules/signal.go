package rules

import (
	"cmp"
	"reflect"
	"slices"
)

// Signal describes a signal to people: a name for state from earlier entries.
type Signal struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	Key    string `json:"key"`    // what the state is kept by
	Window string `json:"window"` // how far back it reaches
	Bound  string `json:"bound"`  // how much is kept at most, for each project
	Cost   string `json:"cost"`   // look-ups to read it
}

// signalDef is a signal with everything that the engine asks of it.
type signalDef struct {
	Signal
	typ reflect.Type
	// read returns a value of the type, or an error. The input has been noted.
	read func(*signals) any
	// evaluates reports whether reading it evaluates an expression.
	evaluates bool
	needs     notes // the state that it reads
}

// registered are the signals that need more than counting, by name. A pack
// declares the others itself.
var registered []*signalDef

// register adds a signal. Each signal has a file that registers it with the state
// that it reads; nothing else needs to know of it.
func register[T any](needs notes, s Signal, read func(*signals) T) {
	d := &signalDef{Signal: s, typ: reflect.TypeFor[T](), read: func(s *signals) any { return read(s) }, needs: needs}
	i, _ := slices.BinarySearchFunc(registered, s.Name, func(d *signalDef, name string) int { return cmp.Compare(d.Name, name) })
	registered = slices.Insert(registered, i, d)
}

// Signals lists the signals that every rule set knows.
func Signals() []Signal {
	var out []Signal
	for _, d := range registered {
		out = append(out, d.Signal)
	}
	return out
}

// notes is a set of parts of the state.
type notes uint32

// allNotes is the whole state.
const allNotes = ^notes(0)

// fold keeps one part of the state.
type fold struct {
	bit   notes
	order int
	note  func(*signals) // folds the input into the part
}

// folds are all of them, in the order in which they see an input.
var folds []fold

// The order of folds. The first ones decide what an origin's record holds.
const (
	orderClusters = iota
	orderCarriers
	orderPhrases
	orderPieces
	orderPushes
	orderDirectives
	orderKeys
	orderBeliefs
	orderRecalls
	orderTools
)

// keep adds a part of the state.
func keep(order int, note func(*signals)) notes {
	f := fold{bit: 1 << len(folds), order: order, note: note}
	i, _ := slices.BinarySearchFunc(folds, order, func(f fold, order int) int { return cmp.Compare(f.order, order) })
	folds = slices.Insert(folds, i, f)
	return f.bit
}

// fieldNeeds are the fields of inputs that folds fill in.
var fieldNeeds = make(map[string]notes)

// notesOf returns the state that a name reads.
func notesOf(name string) notes {
	for _, d := range registered {
		if d.Name == name {
			return d.needs
		}
	}
	return fieldNeeds[name]
}
