package ingest

import (
	"lazaret/internal/stage"
	"lazaret/streams"
)

// admitters maps each kind of event to the function that decides events of this kind.
var admitters = make(map[streams.Kind]func(*Fold, *stage.State, *stage.Message, streams.EntryHead,
	streams.Event) (*stage.Admission, error))

// admits registers the function that decides on events of a kind. The file with that function calls it.
func admits[E streams.Event](k streams.Kind, admit func(*Fold, *stage.State, *stage.Message, streams.EntryHead,
	E) (*stage.Admission, error)) {
	admitters[k] = func(f *Fold, st *stage.State, m *stage.Message, head streams.EntryHead,
		ev streams.Event) (*stage.Admission, error) {
		return admit(f, st, m, head, ev.(E))
	}
}

// own are the types of entries that ingest writes, with their bodies.
var own = make(map[streams.Type]ownType)

type ownType struct {
	fresh func() any
	apply func(*Fold, *stage.State, *streams.Entry, any) error // nil: only the head of the entry is folded
}

// writes registers a type of entry with bodies of type B, and the function that folds such an entry. apply may be nil.
func writes[B any](t streams.Type, apply func(*Fold, *stage.State, *streams.Entry, *B) error) {
	o := ownType{fresh: func() any { return new(B) }}
	if apply != nil {
		o.apply = func(f *Fold, st *stage.State, e *streams.Entry, body any) error { return apply(f, st, e, body.(*B)) }
	}
	own[t] = o
}

// writesIn is like writes, for functions that need only the entry's project and body.
func writesIn[B any](t streams.Type, apply func(*Fold, *stage.State, string, *B) error) {
	writes(t, func(f *Fold, st *stage.State, e *streams.Entry, b *B) error { return apply(f, st, e.Project, b) })
}

// newBody returns an empty body for entries of a type, or nil if ingest does not write this type.
func newBody(t streams.Type) any {
	if o, ok := own[t]; ok {
		return o.fresh()
	}
	return nil
}
