package ingest

import (
	"lazaret/internal/stage"
	"lazaret/streams"
)

// Replay folds recorded entries as ingest does, to reconstruct past beliefs from the log alone. Entries must be added
// in ledger order. The At of ingest's entry is the position up to which ingest had read the ledger. An entry of another
// stage is folded just before the first entry of ingest whose At includes it.
//
// Signed bundles are skipped. They only affect later decisions, and those are recorded too.
type Replay struct {
	fold    *Fold
	state   *stage.Offline
	waiting [streams.Partitions][]*streams.Entry
}

// NewReplay returns an empty replay.
func NewReplay() (*Replay, error) {
	s, err := stage.OpenOffline()
	if err != nil {
		return nil, err
	}
	return &Replay{fold: New(Config{}), state: s}, nil
}

// Close discards the state.
func (r *Replay) Close() error { return r.state.Close() }

// Add folds one entry.
func (r *Replay) Add(e *streams.Entry) error {
	p := streams.PartitionOf(e.Project)
	if e.Stage != streams.StageIngest {
		if r.fold.Relevant(e) {
			r.waiting[p] = append(r.waiting[p], e)
		}
		return nil
	}
	if e.Type == streams.TypeChunk || e.Type == streams.TypeActivation || newBody(e.Type) == nil {
		return nil
	}
	if err := r.flush(p, e.At); err != nil {
		return err
	}
	own := *e
	own.Seq = 0
	return r.fold.Apply(r.state.State(p), &own, nil)
}

func (r *Replay) flush(p int, at uint64) error {
	w := r.waiting[p]
	for len(w) > 0 && w[0].Seq <= at {
		if err := r.fold.Apply(r.state.State(p), w[0], nil); err != nil {
			return err
		}
		w = w[1:]
	}
	r.waiting[p] = w
	return nil
}

// Beliefs returns the beliefs of a project after all added entries.
func (r *Replay) Beliefs(project string) ([]Belief, error) {
	p := streams.PartitionOf(project)
	if err := r.flush(p, ^uint64(0)); err != nil {
		return nil, err
	}
	var out []Belief
	q := BeliefsRequest{Project: project}
	for {
		req, err := streams.Marshal(q)
		if err != nil {
			return nil, err
		}
		page, err := listBeliefs(r.state.State(p), req)
		if err != nil {
			return nil, err
		}
		ans := page.(*BeliefsAnswer)
		out = append(out, ans.Beliefs...)
		if ans.Next == "" {
			return out, nil
		}
		q.After = ans.Next
	}
}
