package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeDisclosure, func(f *Fold, st *stage.State, project string, b *streams.DisclosureEntry) error {
		return f.useNonce(st, project, b.Signed.Nonce, b.Signed.Until, b.Time)
	})
}

// disclose decides on a privileged recall. It returns every matching belief, of every user and session and in any
// state, to the holder of a key that may make privileged recalls. The entry records the beliefs shown.
func (f *Fold) disclose(st *stage.State, project string, head streams.EntryHead, s *approval.SignedOrder,
	signed *streams.Signature) (*stage.Admission, error) {
	e := &streams.DisclosureEntry{Text: s.Reason, Signed: signed,
		RecallEntry: streams.RecallEntry{EntryHead: head, Query: s.Recall.Query, Key: s.Recall.Key, Purpose: "audit",
			Privileged: true, Limit: s.Recall.Limit}}
	if e.Limit == 0 {
		e.Limit = max(defaultLimit, len(s.Recall.Beliefs))
	}
	var found []match
	have := map[string]bool{}
	add := func(m match) {
		if !have[m.Ref.ID] {
			have[m.Ref.ID] = true
			found = append(found, m)
		}
	}
	for _, id := range s.Recall.Beliefs {
		r, err := f.belief(st, project, id)
		if err != nil {
			return nil, err
		}
		m := match{record: r, score: -1}
		if r == nil {
			m.record, m.missing = &record{Ref: streams.BeliefRef{ID: id}}, true
		}
		add(m)
	}
	if e.Query != "" || e.Key != "" {
		places, err := placesOf(st, project)
		if err != nil {
			return nil, err
		}
		fits, read, err := f.search(st, project, places, &streams.Recall{Query: e.Query, Key: e.Key}, e.Limit)
		if err != nil {
			return nil, err
		}
		for _, m := range fits {
			add(m)
		}
		for _, r := range read {
			if m, err := f.look(st, project, r, e.Key, &e.Filter); err != nil {
				return nil, err
			} else if m != nil {
				add(*m)
			}
		}
	}
	if err := f.serve(st, project, &e.RecallEntry, beliefs.ContextPolicy{Purpose: e.Purpose, Privileged: true}, found,
		nil); err != nil {
		return nil, err
	}
	for i := range e.Admitted {
		e.Admitted[i].Scope = beliefs.ContextOnly // the caller may look at it, but no agent may use it
	}
	return admission(streams.TypeDisclosure, project, e)
}

// admitLook records that a person was shown sensitive texts of a project, see streams.Look. It changes no state.
func (f *Fold) admitLook(st *stage.State, m *stage.Message, c *streams.Control,
	head streams.EntryHead) (*stage.Admission, error) {
	err := addressed(m, c, "look")
	if err == nil {
		err = c.Look.Check()
	}
	if err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	return admission(streams.TypeDisclosure, c.Project, &streams.DisclosureEntry{Look: c.Look,
		RecallEntry: streams.RecallEntry{EntryHead: head, Purpose: "audit", Privileged: true}})
}
