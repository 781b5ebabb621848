package ingest

import (
	"bytes"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A person may be forgotten within a project, by deleting the entries that concern the person (internal/retain). So an
// entry that ingest makes without an event, such as one with revisions, never concerns two persons. It also never
// concerns a person together with beliefs that concern nobody in particular.

// of returns the person whom a belief concerns; zero if none in particular.
func (r *record) of() streams.Person {
	p := streams.Person{DataSubject: r.DataSubject, User: r.About}
	if p.User == "" {
		p.User = r.Ref.Namespace.User
	}
	return p
}

// about sets the person whom a belief concerns, from the head of the event that introduced the belief.
func (r *record) about(h *streams.EntryHead) {
	r.DataSubject = h.DataSubject
	if h.User != r.Ref.Namespace.User {
		r.About = h.User
	}
}

// named returns an entry's head that names a person.
func named(h streams.EntryHead, p streams.Person) streams.EntryHead {
	h.DataSubject, h.User = p.DataSubject, p.User
	return h
}

func personKey(project string, p streams.Person, belief string) []byte {
	return stage.Key(keyPerson, project, p.DataSubject, p.User, belief)
}

// notePerson adds a new belief to the index of beliefs by person.
func notePerson(st *stage.State, project string, r *record) error {
	if p := r.of(); p != (streams.Person{}) {
		return st.Set(personKey(project, p, r.Ref.ID), nil)
	}
	return nil
}

// walk is a position in an iteration over the beliefs of a partition or a project. The first pass goes through all
// beliefs in the order of their ids, for those that concern nobody in particular. The second pass goes through the
// beliefs of one person after another. Beliefs that are older than the index of notePerson are handled in the first
// pass.
type walk struct {
	project, belief string
	named           bool
	of              streams.Person
}

// walkBeliefs continues an iteration after a position. If project is not empty, it is limited to that project. For a
// record that the other pass handles, fn is called with r nil. If fn returns false, the iteration ends before that
// record.
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
			low = append(stage.Key(keyBelief, from.project, from.belief), 0) // after it
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

// byPerson groups revisions by the person whom their beliefs concern. The groups are in the order of their first
// revision.
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
