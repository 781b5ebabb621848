package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// intact reports whether a belief's content and origin are those of its entry. For a text that was read long ago, the
// state has only the beginning, so only the beginning is compared. Someone who can change the state can also change the
// seal in the state. Therefore the arbiter, which may run in another process, checks a second seal that it makes from
// the ledger.
func (f *Fold) intact(st *stage.State, project string, r *record) (bool, error) {
	if r.Seal == "" {
		return true, nil // the belief is from a version without seals
	}
	if r.Ref.Seal(r.Digest) != r.Seal {
		return false, nil
	}
	content := r.Content
	if !r.Memory && len(content) > previewLen {
		t, ok, err := st.Get(stage.Key(keyText, project, r.Ref.ID))
		if err != nil || !ok || len(t) >= keptText-4 {
			return err == nil, err
		}
		content = string(t)
	}
	return streams.IsDigest(r.Digest, content), nil
}

// keepIntact checks the beliefs in a list of served items. If a belief does not match its entry, keepIntact removes it
// from the list and adds it to e.Refused. A privileged recall still shows such a belief, with the reason
// beliefs.ReasonIntegrity. by has the match of each item by id.
func (f *Fold) keepIntact(st *stage.State, project string, e *streams.RecallEntry, list *[]streams.RecallItem,
	by map[string]*match) error {
	kept := (*list)[:0]
	for _, it := range *list {
		m := by[it.ID]
		ok := m.unknown
		if !ok {
			var err error
			if ok, err = f.intact(st, project, m.record); err != nil {
				return err
			}
		}
		if !ok {
			f.log.Error("a belief in the state does not match its ledger entry", "project", project, "belief", it.ID)
			if !e.Privileged {
				e.Refused = append(e.Refused, streams.Refusal{ID: it.ID, Reason: beliefs.ReasonIntegrity,
					Text: "it is not what the ledger says of it"})
				continue
			}
			it.Reason = beliefs.ReasonIntegrity
		}
		kept = append(kept, it)
	}
	if len(kept) == 0 {
		kept = nil
	}
	*list = kept
	return nil
}
