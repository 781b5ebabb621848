package ingest

import (
	"crypto/sha256"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// remember records a memory write as a candidate: hidden, until the sentinels
// have seen it and the arbiter has answered. It is at most as trusted as the
// weakest of what it was derived from.
func (f *Fold) remember(st *stage.State, a streams.Address, head streams.EntryHead, m *streams.Memory) (*stage.Admission, error) {
	e := &streams.MemoryEntry{EntryHead: head, Origin: a.Origin, Key: m.Key, Content: m.Content, Category: m.Category, Channel: m.Channel,
		DerivedFrom: m.DerivedFrom, Source: m.Source, ValidFrom: m.ValidFrom, ValidTo: m.ValidTo}
	var err error
	if e.Unseen, e.Restored, err = f.sessionState(st, a, head, m.After); err != nil {
		return nil, err
	}
	e.Features = text.Analyze(m.Content)
	weakest := a.Origin
	for _, id := range m.DerivedFrom {
		from, err := f.originOf(st, a, id)
		if err != nil {
			return nil, err
		}
		if w := beliefs.Weakest(weakest, from); w != weakest {
			weakest, e.Via = w, id
		}
	}
	if weakest != a.Origin {
		e.Inherited = weakest
	}
	source := m.Source
	if source == "" {
		source = string(a.Origin) + ":" + a.Agent
	}
	quality := beliefs.QualityOf(weakest)
	ad := beliefs.EvidenceSet{{Observation: head.ID, Quality: quality, Source: source, At: head.Time}}.Adopt()
	e.Belief = streams.BeliefRef{ID: beliefID("memory", a.Project, a.Agent, head.ID), Found: true, Kind: beliefs.MemoryClaim, Key: m.Key,
		Axes: beliefs.Axes{}, Sensitivity: m.Sensitivity, Scope: ad.Scope, Quality: quality, Origin: weakest, Confidence: ad.Confidence, Source: source, Observation: head.ID, Namespace: m.Namespace()}
	seen, err := f.content(st, a.Project, sha256.Sum256([]byte(m.Content)))
	if err != nil {
		return nil, err
	}
	e.Repeats, e.FirstSeen = seen.count, seen.first
	if m.Key != "" {
		if e.KeyHolder, err = f.keyHolder(st, a.Project, m.Key); err != nil {
			return nil, err
		}
	}
	return admission(streams.TypeMemory, a.Project, e)
}

// originOf is the origin of an observation or belief that a write names as its
// parent. What nobody knows is as untrusted as can be.
func (f *Fold) originOf(st *stage.State, a streams.Address, id string) (beliefs.Origin, error) {
	r, err := f.belief(st, a.Project, id)
	if err != nil {
		return "", err
	}
	if r != nil {
		return r.Ref.Origin, nil
	}
	v, ok, err := st.Get(stage.Key(keyOrigin, a.Project, a.Agent, id))
	if err != nil {
		return "", err
	}
	if ok {
		return beliefs.Origin(v), nil
	}
	return beliefs.OriginWeb, nil
}

// keyHolder is the origin of the value that a memory key holds now.
func (f *Fold) keyHolder(st *stage.State, project, key string) (beliefs.Origin, error) {
	id, ok, err := st.Get(stage.Key(keyName, project, key))
	if err != nil || !ok {
		return "", err
	}
	r, err := f.belief(st, project, string(id))
	if err != nil || r == nil {
		return "", err
	}
	return r.Ref.Origin, nil
}

func (f *Fold) applyMemory(st *stage.State, project string, e *streams.MemoryEntry) error {
	if err := f.noteContent(st, project, sha256.Sum256([]byte(e.Content)), e.Time); err != nil {
		return err
	}
	ev := beliefs.EvidenceSet{{Observation: e.ID, Quality: e.Belief.Quality, Source: e.Belief.Source, At: e.Time}}
	ad := ev.Adopt()
	r := &record{Ref: e.Belief, Content: e.Content, Agent: e.Agent, Session: e.Session, Adopted: ad, At: e.Time,
		From: e.ValidFrom, To: e.ValidTo, Intake: e.Intake, Count: 1, Memory: true,
		Writer: e.Origin, Inherited: e.Inherited, Category: e.Category, Channel: e.Channel,
		Evidence: ev, Parents: e.Parents, Triples: e.Triples, Stale: e.Stale, Expires: e.Expires, StagedFor: e.StagedFor}
	if err := st.Put(stage.Key(keyBelief, project, e.Belief.ID), r); err != nil {
		return err
	}
	return st.Set(stage.Key(keyMemory, project, e.Belief.ID), nil)
}
