package ingest

import (
	"bytes"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A person may be forgotten within a project, by the entries about them
// (internal/retain). So an entry about beliefs without an event never concerns two
// persons, nor a person and the project at large.

// of is the person that a belief is about.
func (r *record) of() streams.Person {
	p := streams.Person{DataSubject: r.DataSubject, User: r.About}
	if p.User == "" {
		p.User = r.Ref.Namespace.User
	}
	return p
}

// about notes the person named by the event that brought a belief in.
func (r *record) about(h *streams.EntryHead) {
	r.DataSubject = h.DataSubject
	if h.User != r.Ref.Namespace.User {
		r.About = h.User
	}
}

// named is an entry's head that names a person.
func named(h streams.EntryHead, p streams.Person) streams.EntryHead {
	h.DataSubject, h.User = p.DataSubject, p.User
	return h
}

func personKey(project string, p streams.Person, belief string) []byte {
	return stage.Key(keyPerson, project, p.DataSubject, p.User, belief)
}

// notePerson puts a new belief among those of the person that it is about.
func notePerson(st *stage.State, project string, r *record) error {
	if p := r.of(); p != (streams.Person{}) {
		return st.Set(personKey(project, p, r.Ref.ID), nil)
	}
	return nil
}

// walk is a place on the way through the beliefs of a partition or a project:
// first all of them, to look at those about nobody in particular, in the order of
// their ids; then those about persons, one person after the other. Those that were
// made before persons were told apart are met in the first round.
type walk struct {
	project, belief string
	named           bool
	of              streams.Person
}

// walkBeliefs goes on behind a place. A record that the other round meets is given
// as nil. project limits it; empty: all of the partition. With more false it ends
// before that record.
func walkBeliefs(st *stage.State, project string, from walk, fn func(at walk, r *record) (more bool, err error)) error {
	ended := false
	step := func(at walk, v []byte) (bool, error) {
		r := new(record)
		if err := readRecord(at.belief, v, r); err != nil {
			return false, err
		}
		if p := r.of(); !at.named && p != (streams.Person{}) {
			_, indexed, err := st.Get(personKey(at.project, p, at.belief))
			if err != nil {
				return false, err
			}
			if at.of = p; indexed {
				at.of, r = streams.Person{}, nil
			}
		}
		more, err := fn(at, r)
		ended = !more
		return more, err
	}
	if !from.named {
		prefix, low := []byte{keyBelief}, []byte{keyBelief}
		if project != "" {
			prefix = stage.Key(keyBelief, project, "")
			low = prefix
		}
		if from.belief != "" {
			low = append(stage.Key(keyBelief, from.project, from.belief), 0) // behind it
		}
		err := st.ScanFrom(prefix, low, func(k, v []byte) (bool, error) {
			p, id, _ := bytes.Cut(k[1:], []byte{0})
			return step(walk{project: string(p), belief: string(id)}, v)
		})
		if err != nil || ended {
			return err
		}
		from = walk{named: true}
	}
	prefix, low := []byte{keyPerson}, []byte{keyPerson}
	if project != "" {
		prefix = stage.Key(keyPerson, project, "")
		low = prefix
	}
	if from.belief != "" {
		low = append(personKey(from.project, from.of, from.belief), 0)
	}
	return st.ScanFrom(prefix, low, func(k, _ []byte) (bool, error) {
		parts := bytes.Split(k[1:], []byte{0})
		if len(parts) != 4 {
			return true, nil
		}
		at := walk{string(parts[0]), string(parts[3]), true, streams.Person{DataSubject: string(parts[1]),
			User: string(parts[2])}}
		v, ok, err := st.Get(stage.Key(keyBelief, at.project, at.belief))
		if err != nil || !ok {
			return err == nil, err
		}
		return step(at, v)
	})
}

// byPerson takes revisions apart by whom their beliefs are about, each part in its
// order, in the order in which persons come up.
func (f *Fold) byPerson(st *stage.State, project string, all []beliefs.Revision) (parts [][]beliefs.Revision,
	of []streams.Person, err error) {
	at := make(map[streams.Person]int)
	for _, rv := range all {
		var p streams.Person
		r, err := f.belief(st, project, rv.Belief)
		if err != nil {
			return nil, nil, err
		}
		if r != nil {
			p = r.of()
		}
		i, ok := at[p]
		if !ok {
			i = len(parts)
			at[p] = i
			parts, of = append(parts, nil), append(of, p)
		}
		parts[i] = append(parts[i], rv)
	}
	return parts, of, nil
}
