package stage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// swollen is an echo that makes entries larger than the ledger's largest message: for some messages, and for one of its
// follow-ups.
type swollen struct {
	echo
	owes bool
}

const swell = "3" // the data of the message

func (s *swollen) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	out, err := s.echo.Admit(st, m)
	if string(m.Data) == swell {
		out.Body = fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", 9<<20))
	}
	return out, err
}

func (s *swollen) FollowUp(*stage.State) (*stage.Admission, error) {
	if !s.owes {
		return nil, nil
	}
	return &stage.Admission{Output: stage.Output{Type: streams.TypeRevision, Project: "alpha",
		Body: fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", 9<<20))}}, nil
}

// loud is a sentinel whose answer to every observation is too large to be published.
type loud struct{ watcher }

func (*loud) Step(_ *stage.State, e *streams.Entry) (*stage.Output, error) {
	if e.Stage != streams.StageIngest || e.Type != streams.TypeObservation {
		return nil, nil
	}
	return &stage.Output{Type: streams.TypeAlerts, Project: e.Project, Body: fmt.Appendf(nil, `{"pad":%q}`,
		strings.Repeat("x", 9<<20))}, nil
}

// The message whose entry would be too large is in the intake before ingest starts. The server would refuse the entry
// after every restart too, so the stage must publish a rejection instead and go on.
func TestPromiseC20NoEntryIsTooLargeToBePublished(t *testing.T) {
	srv := natstest.Start(t)
	const n = 10
	publish(t, srv.Connect(), "alpha", 0, n)
	run := func(ctx context.Context, cfg stage.Config) error {
		return stage.RunIntake(ctx, cfg, &swollen{owes: true}, nil)
	}
	p := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, run)
	p.awaitReady()
	q := start(t, stage.Config{Name: streams.SentinelStage("a"), Conn: srv.Connect(), Dir: t.TempDir()},
		func(ctx context.Context, cfg stage.Config) error {
			return stage.RunLedger(ctx, cfg, &loud{}, nil)
		})
	q.awaitReady()
	natstest.Eventually(t, time.Minute, "an entry of each message and of each answer", func() bool {
		return p.Stats.Published.Load() == n && q.Stats.Published.Load() == n-1
	})
	rejected := map[string]int{}
	for _, e := range srv.Ledger() {
		if e.Type != streams.TypeRejected {
			continue
		}
		rejected[e.Stage]++
		b, err := streams.Read[streams.RejectedEntry](&e)
		if err != nil || b.Code != streams.CodeEntrySize || b.Reason == "" {
			t.Errorf("entry %d is %+v, %v", e.Seq, b, err)
		}
		if e.Stage == streams.StageIngest && (string(b.Raw) != swell || b.Intake != e.Src) {
			t.Errorf("the rejected entry does not have the data of its message: %+v", b)
		}
	}
	if rejected[streams.StageIngest] != 1 || rejected[streams.SentinelStage("a")] != n-1 {
		t.Errorf("rejected %v", rejected)
	}
	if p.Stats.Oversized.Load() == 0 || q.Stats.Oversized.Load() != n-1 {
		t.Errorf("%d and %d entries are counted", p.Stats.Oversized.Load(), q.Stats.Oversized.Load())
	}
}
