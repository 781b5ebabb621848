package replay

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"lazaret/client"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Options configure the playing of scripts.
type Options struct {
	// Parallel is the number of concurrent sessions; zero means 8.
	Parallel int
	// Progress, if set, is called from several goroutines after each step.
	Progress func(done, total int64)
}

// Play publishes scripts over a connection with the replay credential. The steps of a session are
// sequential, and each is acknowledged or answered before the next, because an agent cannot act on
// content that it has not read.
func Play(ctx context.Context, nc *nats.Conn, scripts []Script, o Options) error {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	total := int64(0)
	for _, s := range scripts {
		total += int64(len(s.Steps))
	}
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Parallel)
	for _, s := range scripts {
		g.Go(func() error {
			c, err := client.New(nc, s.Project, streams.ReplayAgent)
			if err != nil {
				return fmt.Errorf("session %s: %w", s.Name, err)
			}
			for i, st := range s.Steps {
				if _, err := Send(ctx, c, st); err != nil {
					return fmt.Errorf("session %s, step %d: %w", s.Name, i, err)
				}
				if n := done.Add(1); o.Progress != nil {
					o.Progress(n, total)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// Send publishes one step, and returns the reply to an action or a memory write. A refused event is not
// an error and has no reply.
func Send(ctx context.Context, c *client.Client, st Step) (rep *streams.Reply, err error) {
	switch e := st.Event.(type) {
	case *streams.Action:
		rep, err = c.Decide(ctx, e)
	case *streams.Memory:
		rep, err = c.Remember(ctx, st.Origin, e)
	default:
		_, err = c.Publish(ctx, st.Kind, st.Origin, st.Event)
	}
	// A refused event is part of the recording: the agent continues.
	var le *client.Error
	if errors.As(err, &le) && le.Code < streams.CodeTimeout {
		return nil, nil
	}
	return rep, err
}

// Totals counts the ledger entries of played scripts.
type Totals struct {
	Events     int            `json:"events"`
	Rejected   int            `json:"rejected"`
	Claims     int            `json:"claims"`
	Supported  int            `json:"supported"`
	Unverified int            `json:"unverified"`
	Alerts     map[string]int `json:"alerts"`   // by rule
	Verdicts   map[string]int `json:"verdicts"` // by kind and verdict
	Entries    int            `json:"ledger_entries"`
	Audited    int64          `json:"audited_entries"`
	// Wrong counts impossible states: content claims of external origin that are supported, and envelope claims (that a
	// tool was called and returned) that are not.
	Wrong int `json:"wrong"`
}

// Count counts the ledger entries of the projects with from < sequence <= to.
func Count(ctx context.Context, nc *nats.Conn, from, to uint64, projects map[string]bool) (*Totals, error) {
	t := &Totals{Alerts: map[string]int{}, Verdicts: map[string]int{}}
	seenBelief := map[string]bool{}
	err := Entries(ctx, nc, from, to, func(e *streams.Entry) error {
		if !projects[e.Project] {
			return nil
		}
		return t.add(e, seenBelief)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Entries calls f for each ledger entry with from < sequence <= to, in order. If subjects are given, it
// reads only those.
func Entries(ctx context.Context, nc *nats.Conn, from, to uint64, f func(*streams.Entry) error,
	subjects ...string) error {
	if from >= to {
		return nil
	}
	if len(subjects) == 0 {
		subjects = []string{streams.LedgerPrefix + ">"}
	}
	span := stage.Span{Stream: streams.LedgerStream, Filters: subjects, From: from + 1, To: to}
	return stage.Each(ctx, wire.JetStream(nc), span, func(m jetstream.Msg, _ uint64, _ time.Time) error {
		entries, err := wire.Entries(m)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := f(&entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *Totals) add(e *streams.Entry, seen map[string]bool) error {
	t.Entries++
	switch e.Type {
	case streams.TypeBelief, streams.TypeRevision, streams.TypeIncident: // no event causes these directly
	default:
		if e.Stage == streams.StageIngest {
			t.Events++
		}
	}
	switch e.Type {
	case streams.TypeRejected:
		t.Rejected++
	case streams.TypeObservation:
		var o streams.ObservationEntry
		if err := streams.Unmarshal(e.Body, &o); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		for _, c := range o.Claims {
			t.Claims++
			supported := c.Belief.Axes.Truth == beliefs.Supported
			if c.Kind == beliefs.Envelope && !supported || c.Kind == beliefs.Content && o.Origin.External() && supported {
				t.Wrong++
			}
			t.belief(e.Project, c.Belief, seen)
		}
	case streams.TypeAlerts, streams.TypeAssessment:
		var a struct {
			Alerts []streams.Alert `json:"alerts"`
		}
		if err := streams.Unmarshal(e.Body, &a); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		for _, al := range a.Alerts {
			t.Alerts[al.Rule]++
		}
	case streams.TypeVerdict:
		var v streams.VerdictEntry
		if err := streams.Unmarshal(e.Body, &v); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		if v.Again {
			return nil
		}
		t.Verdicts[string(v.Type)+" "+v.Verdict.String()]++
		if v.Belief != nil {
			t.Claims++
			t.belief(e.Project, *v.Belief, seen)
		}
	}
	return nil
}

func (t *Totals) belief(project string, b streams.BeliefRef, seen map[string]bool) {
	if key := project + "/" + b.ID; seen[key] {
		return
	} else {
		seen[key] = true
	}
	if b.Axes.Truth == beliefs.Supported {
		t.Supported++
	} else {
		t.Unverified++
	}
}

// Sorted returns the keys of a map, sorted.
func Sorted(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
