package signals

import (
	"cmp"
	"reflect"
	"slices"
)

// Signal describes a signal for people. A signal is a value that rules can read and that is computed from earlier
// entries.
type Signal struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	Key    string `json:"key"`    // what the state is keyed by
	Window string `json:"window"` // how far back it reaches
	Bound  string `json:"bound"`  // maximum size for each project
	Cost   string `json:"cost"`   // lookups to read it
}

// Definition is a signal with its implementation.
type Definition struct {
	Signal
	Type reflect.Type
	// Read returns a value of the type, or an error. It is called after Note has recorded the input.
	Read func(*State) any
	// Evaluates reports whether reading the signal evaluates an expression.
	Evaluates bool
	parts     Parts // the state that it reads
}

// Registered has the built-in signals, ordered by name. Packs can declare further counts and sequences as signals.
var Registered []*Definition

// register adds a signal. needs says which parts of the state the signal reads. Each signal registers itself in its own
// file, and no other file refers to it.
func register[T any](needs Parts, s Signal, read func(*State) T) {
	d := &Definition{Signal: s, Type: reflect.TypeFor[T](), Read: func(s *State) any { return read(s) }, parts: needs}
	i, _ := slices.BinarySearchFunc(Registered, s.Name,
		func(d *Definition, name string) int { return cmp.Compare(d.Name, name) })
	Registered = slices.Insert(Registered, i, d)
}

// Signals returns the built-in signals, which every rule set may use.
func Signals() []Signal {
	var out []Signal
	for _, d := range Registered {
		out = append(out, d.Signal)
	}
	return out
}

// Parts is a set of parts of the state. Each bit is one part.
type Parts uint32

// AllParts is the whole state.
const AllParts = ^Parts(0)

// fold updates one part of the state.
type fold struct {
	bit   Parts
	order int
	note  func(*State) // updates the part with the input
}

// folds has all folds, in the order in which they are called for an input.
var folds []fold

// The order of folds. The first folds set fields of the input's origin, so they must run before the origin is stored.
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

// keep registers a function that updates a part of the state, and returns this part. order says when the function is
// called.
func keep(order int, note func(*State)) Parts {
	f := fold{bit: 1 << len(folds), order: order, note: note}
	i, _ := slices.BinarySearchFunc(folds, order, func(f fold, order int) int { return cmp.Compare(f.order, order) })
	folds = slices.Insert(folds, i, f)
	return f.bit
}

// fieldParts has, for each field of inputs that a fold sets, the parts of the state that the field depends on.
var fieldParts = make(map[string]Parts)

// PartsOf returns the parts of the state on which a name depends: a signal, or a field of inputs.
func PartsOf(name string) Parts {
	for _, d := range Registered {
		if d.Name == name {
			return d.parts
		}
	}
	return fieldParts[name]
}
