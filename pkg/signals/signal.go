package signals

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

// Definition is a signal with everything that the engine asks of it.
type Definition struct {
	Signal
	Type reflect.Type
	// Read returns a value of the type, or an error. The input has been noted.
	Read func(*State) any
	// Evaluates reports whether reading it evaluates an expression.
	Evaluates bool
	parts     Parts // the state that it reads
}

// Registered are the signals that need more than counting, by name. A pack
// declares the others itself.
var Registered []*Definition

// register adds a signal. Each signal has a file that registers it with the state
// that it reads; nothing else needs to know of it.
func register[T any](needs Parts, s Signal, read func(*State) T) {
	d := &Definition{Signal: s, Type: reflect.TypeFor[T](), Read: func(s *State) any { return read(s) }, parts: needs}
	i, _ := slices.BinarySearchFunc(
		Registered,
		s.Name,
		func(d *Definition, name string) int { return cmp.Compare(d.Name, name) },
	)
	Registered = slices.Insert(Registered, i, d)
}

// Signals lists the signals that every rule set knows.
func Signals() []Signal {
	var out []Signal
	for _, d := range Registered {
		out = append(out, d.Signal)
	}
	return out
}

// Parts is a set of parts of the state.
type Parts uint32

// AllParts is the whole state.
const AllParts = ^Parts(0)

// fold keeps one part of the state.
type fold struct {
	bit   Parts
	order int
	note  func(*State) // folds the input into the part
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
func keep(order int, note func(*State)) Parts {
	f := fold{bit: 1 << len(folds), order: order, note: note}
	i, _ := slices.BinarySearchFunc(folds, order, func(f fold, order int) int { return cmp.Compare(f.order, order) })
	folds = slices.Insert(folds, i, f)
	return f.bit
}

// fieldParts are the fields of inputs that folds fill in.
var fieldParts = make(map[string]Parts)

// PartsOf returns the state that a name reads.
func PartsOf(name string) Parts {
	for _, d := range Registered {
		if d.Name == name {
			return d.parts
		}
	}
	return fieldParts[name]
}
