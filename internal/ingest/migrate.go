package ingest

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"lazaret/internal/stage"
)

// migrations are ingest's own migrations, by the format from which they start.
var migrations = map[int]stage.Migration{
	10: {Do: reindex},      // since format 11, the indexes have the stems of words
	14: {Do: dateSessions}, // since format 15, sessions have a time of their last event
	// Since format 17, a belief has the findings that a person cleared (record.Cleared). The state also has the foreign
	// texts of events without a session, and the catalogues that are not accepted. Texts and catalogues from before the
	// migration are only in the ledger. A catalogue that was accepted before the migration counts as not accepted when
	// its server publishes it again.
	16: {},
}

// reindex rebuilds the word indexes of a partition from the texts in the state. The state has only the first keptText
// bytes of a text, so the result is not exact.
func reindex(st *stage.State) error {
	if err := st.DropPrefix([]byte{keyIndex}); err != nil {
		return err
	}
	*st.Memo() = nil
	type place struct {
		project, id string
		intake      uint64
	}
	var all []place
	err := st.Scan([]byte{keyBelief}, func(k, v []byte) (bool, error) {
		project, id, _ := strings.Cut(string(k[1:]), "\x00")
		r := new(record)
		if err := readRecord(id, v, r); err != nil {
			return false, err
		}
		if r.indexed() {
			all = append(all, place{project, id, r.Intake})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.intake, b.intake) })
	for _, p := range all {
		if err := reindexBelief(st, p.project, p.id); err != nil {
			return err
		}
	}
	return nil
}

func reindexBelief(st *stage.State, project, id string) error {
	v, ok, err := st.Get(stage.Key(keyBelief, project, id))
	if err != nil || !ok {
		return err
	}
	r := new(record)
	if err := readRecord(id, v, r); err != nil {
		return err
	}
	content := r.Content
	if !r.Memory {
		t, ok, err := st.Get(stage.Key(keyText, project, id))
		if err != nil {
			return err
		}
		if ok {
			content = string(t)
		}
	}
	var sum [32]byte
	if _, err := hex.Decode(sum[:], []byte(strings.TrimPrefix(r.Digest, "sha256:"))); err != nil {
		return err
	}
	if err := indexBelief(st, project, r, content, sum); err != nil {
		return err
	}
	return putRecord(st, project, r)
}
