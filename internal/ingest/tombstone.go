package ingest

import (
	"encoding/binary"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// If a value was denied, quarantined or rejected, a tombstone of it is stored. With it, a later write of the value is
// recognized: under another key, in another session, by another agent, in almost the same words, or encoded. The
// arbiter decides what to do about it.

// tomb is the stored form of a tombstone.
type tomb struct {
	Of     streams.Tombstone  `json:"of"`
	Prints []text.Fingerprint `json:"prints"`
}

// Values of Tombstone.Why: why the value was refused.
const (
	buriedDenied      = "denied"      // by the verdict on the write
	buriedQuarantined = "quarantined" // by a sentinel's finding
	buriedRejected    = "rejected"    // by a person's signed attestation
)

const (
	// maxGraves is the maximum number of tombstones that are stored for one band, a hash that similar texts share (see
	// text.Features.Bands): the latest ones. These suffice to recognize another similar value.
	maxGraves = 16
	// shortPrint is the number of words below which two texts count as the same value only if they are equal after
	// normalization. In a short text, one different word makes another value.
	shortPrint = 6
)

func graveKey(project string, band uint64) []byte {
	return binary.BigEndian.AppendUint64(stage.Key(keyGrave, project, "b"), band)
}

func exactKey(project string, d text.Digest) []byte {
	return append(stage.Key(keyGrave, project, "x"), d[:]...)
}

func tombKey(project, belief string) []byte { return stage.Key(keyTomb, project, belief) }

// bury stores a tombstone of a belief's content. why is the reason.
func (f *Fold) bury(st *stage.State, project string, r *record, why string, at time.Time) error {
	if _, ok, err := st.Get(tombKey(project, r.Ref.ID)); err != nil || ok {
		return err
	}
	content := r.Content
	if !r.Memory {
		var err error
		if content, _, err = f.beliefText(st, project, r); err != nil {
			return err
		}
	}
	ft := text.Analyze(content)
	t := &tomb{Of: streams.Tombstone{Belief: r.Ref.ID, Event: r.Ref.Observation, Agent: r.Agent, Key: r.Ref.Key,
		Why: why, At: at}, Prints: ft.Prints}
	for _, p := range ft.Prints {
		if err := st.Set(exactKey(project, p.Exact), []byte(r.Ref.ID)); err != nil {
			return err
		}
	}
	if ft.Words >= shortPrint {
		for _, band := range ft.Bands() {
			if err := f.addGrave(st, project, band, r.Ref.ID); err != nil {
				return err
			}
		}
	}
	return st.Put(tombKey(project, r.Ref.ID), t)
}

func (f *Fold) addGrave(st *stage.State, project string, band uint64, id string) error {
	key := graveKey(project, band)
	v, _, err := st.Get(key)
	if err != nil {
		return err
	}
	ids := strings.Fields(string(v))
	ids = append(ids, id)
	return st.Set(key, []byte(strings.Join(ids[max(0, len(ids)-maxGraves):], " ")))
}

// exhume removes the tombstone of a value that was approved. Entries of the index that still refer to it have no
// effect.
func (f *Fold) exhume(st *stage.State, project, belief string) error {
	t := new(tomb)
	ok, err := st.Load(tombKey(project, belief), t)
	if err != nil || !ok {
		return err
	}
	for _, p := range t.Prints {
		v, ok, err := st.Get(exactKey(project, p.Exact))
		if err != nil {
			return err
		}
		if ok && string(v) == belief {
			if err := st.Delete(exactKey(project, p.Exact)); err != nil {
				return err
			}
		}
	}
	return st.Delete(tombKey(project, belief))
}

// recognise returns the tombstone of the refused value that a text repeats, the most similar one, or nil.
func (f *Fold) recognise(st *stage.State, project string, ft *text.Features) (*streams.Tombstone, error) {
	load := func(id string) (*tomb, error) {
		t := new(tomb)
		ok, err := st.Load(tombKey(project, id), t)
		if err != nil || !ok {
			return nil, err
		}
		return t, nil
	}
	for _, p := range ft.Prints {
		id, ok, err := st.Get(exactKey(project, p.Exact))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if t, err := load(string(id)); err != nil {
			return nil, err
		} else if t != nil {
			t.Of.Exact = true
			return &t.Of, nil
		}
	}
	var best *streams.Tombstone
	looked := make(map[string]bool)
	for _, band := range ft.Bands() {
		v, ok, err := st.Get(graveKey(project, band))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for id := range strings.FieldsSeq(string(v)) {
			if looked[id] {
				continue
			}
			looked[id] = true
			t, err := load(id)
			if err != nil {
				return nil, err
			}
			if t == nil {
				continue
			}
			for _, p := range ft.Prints {
				for _, q := range t.Prints {
					if s := p.Similarity(q); p.Near(q) && (best == nil || s > best.Similarity) {
						t.Of.Similarity = s
						best = &t.Of
					}
				}
			}
		}
	}
	return best, nil
}
