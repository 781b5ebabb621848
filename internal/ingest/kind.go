package ingest

import (
	"lazaret/internal/stage"
	"lazaret/streams"
)

// admitters maps each kind of event to the function that decides events of this kind.
var admitters = make(map[streams.Kind]func(*Fold, *stage.State, *stage.Message, streams.EntryHead,
	streams.Event) (*stage.Admission, error))

// admits registers the function that decides a kind's events. The file with the function calls it.
func admits[E streams.Event](k streams.Kind, admit func(*Fold, *stage.State, *stage.Message, streams.EntryHead,
	E) (*stage.Admission, error)) {
	admitters[k] = func(f *Fold, st *stage.State, m *stage.Message, head streams.EntryHead,
		ev streams.Event) (*stage.Admission, error) {
		return admit(f, st, m, head, ev.(E))
	}
}

// own are the types of entries that ingest writes.
var own = make(map[streams.Type]ownType)

type ownType struct {
	fresh func() any
	apply func(*Fold, *stage.State, *streams.Entry, any) error // nil: only the entry's head is used
}

// writes registers a type of entries with bodies of type B, and the function that applies an entry
// to the state.
func writes[B any](t streams.Type, apply func(*Fold, *stage.State, *streams.Entry, *B) error) {
	o := ownType{fresh: func() any { return new(B) }}
	if apply != nil {
		o.apply = func(f *Fold, st *stage.State, e *streams.Entry, body any) error { return apply(f, st, e, body.(*B)) }
	}
	own[t] = o
}

// writesIn is writes for functions that need only the project and the body.
func writesIn[B any](t streams.Type, apply func(*Fold, *stage.State, string, *B) error) {
	writes(t, func(f *Fold, st *stage.State, e *streams.Entry, b *B) error { return apply(f, st, e.Project, b) })
}

// newBody returns an empty body of an entry type, or nil if ingest writes no such entries.
func newBody(t streams.Type) any {
	if o, ok := own[t]; ok {
		return o.fresh()
	}
	return nil
}
