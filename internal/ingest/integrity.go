package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// intact reports whether the content and the origin of a belief match its entry. Of texts that were
// read long ago, the state has only the beginning, so only that is compared. Someone who can write
// to the state can also write the seal. Therefore the arbiter checks a second seal, which it makes
// from the ledger in another process.
func (f *Fold) intact(st *stage.State, project string, r *record) (bool, error) {
	if r.Seal == "" {
		return true, nil // a version without seals wrote this belief
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

// keepIntact moves the beliefs that do not match their entries from a list of served items to the
// refused ones. A privileged recall shows them and says that they do not match.
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
			f.log.Error("a belief in the state is not what its entry says", "project", project, "belief", it.ID)
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
