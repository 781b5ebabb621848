package arbiter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/metrics"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// AskHolds is the question that the arbiter answers.
const AskHolds = "holds"

// HoldsRequest asks for the holds of a partition.
type HoldsRequest struct {
	Project string `json:"project,omitzero"`
	State   string `json:"state,omitzero"` // open, expired, denied; empty: all
}

// Hold is a hold as people see it.
type Hold struct {
	ID       string               `json:"id"`
	Revision string               `json:"revision"`
	Project  string               `json:"project"`
	Agent    string               `json:"agent"`
	State    string               `json:"state"`
	Opened   time.Time            `json:"opened"`
	Expires  time.Time            `json:"expires"`
	Verdict  streams.VerdictEntry `json:"verdict"`
}

// maxHolds bounds an answer.
const maxHolds = 1000

// Run runs the arbiter's fold until ctx ends, and, if front has connections,
// the request services. m may be nil.
func Run(ctx context.Context, cfg stage.Config, pinned note.Verifiers, front FrontConfig, m *metrics.Process) error {
	cfg.Name = streams.StageArbiter
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	queries := make(chan stage.Query)
	if front.Service != nil {
		stop, err := query.Serve(front.Service, "lazaret-arbiter", "What is held", stage.PartitionList(cfg.Partitions), map[string]query.Handler{
			AskHolds: func(ctx context.Context, p int, req []byte) (any, error) {
				// Only read once Ask has seen them written.
				var v any
				var failed error
				if err := stage.Ask(ctx, queries, p, func(st *stage.State) { v, failed = listHolds(st, req) }); err != nil {
					return nil, fmt.Errorf("the arbiter is busy: %w", err)
				}
				return v, failed
			}}, cfg.Log)
		if err != nil {
			return err
		}
		defer stop()
		front.Log = cfg.Log
		f, err := StartFront(ctx, front)
		if err != nil {
			return err
		}
		defer f.Close()
	}
	f := NewFold(pinned, cfg.Log)
	f.Metrics = m.Arbiter()
	if f.Metrics != nil {
		cfg.Published = f.Metrics.Published
	}
	return stage.RunLedger(ctx, cfg, f, queries)
}

func listHolds(st *stage.State, req []byte) (any, error) {
	var q HoldsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	out := []Hold{}
	prefix := []byte{keyHold}
	if q.Project != "" {
		prefix = stage.Key(keyHold, q.Project, "")
	}
	err := st.Scan(prefix, func(_, v []byte) (bool, error) {
		h := new(hold)
		if err := streams.Unmarshal(v, h); err != nil {
			return false, err
		}
		if q.State == "" || q.State == h.State {
			out = append(out, Hold{h.ID, h.Revision, h.Project, h.Agent, h.State, h.Opened, h.Expires, h.Entry})
		}
		return len(out) < maxHolds, nil
	})
	return out, err
}
