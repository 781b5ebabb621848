package stage_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// written fills a ledger as ingest does. It adds n entries to partition p, numbered beginning at from, and returns the
// ledger's stream.
func written(t *testing.T, srv *natstest.Server, p, from, n int) jetstream.Stream {
	t.Helper()
	js := must(jetstream.New(srv.Connect()))
	for i := range n {
		e := streams.Entry{Partition: p, Stage: streams.StageIngest, Type: streams.TypeObservation, Project: "acme",
			Src: uint64(from + i), Salt: streams.NewSalt(), Body: fmt.Appendf(nil, `{"n":%d}`, i)}
		must(js.PublishMsg(t.Context(), wire.Msg(&e)))
	}
	return must(js.Stream(t.Context(), streams.LedgerStream))
}

// stated writes a statement as ingest does.
func stated(t *testing.T, srv *natstest.Server, p int, typ streams.Type, c streams.Custody) {
	t.Helper()
	c.Do, c.Project, c.ID, c.Issued = streams.DoForget, "acme", "s", time.Now()
	body := must(streams.Marshal(&streams.CustodyEntry{Do: c.Do, Note: c.Text() + "\n— nobody AAAA\n"}))
	e := streams.Entry{Partition: p, Stage: streams.StageIngest, Type: typ, Project: "acme", Src: 59,
		Salt: streams.NewSalt(), Body: body}
	must(must(jetstream.New(srv.Connect())).PublishMsg(t.Context(), wire.Msg(&e)))
}

// refused waits until a process ends because the entries in [from, to] are missing. It fails the test if the process
// was ready before.
func refused(t *testing.T, p *process, from, to uint64) {
	t.Helper()
	var h *stage.HoleError
	select {
	case err := <-p.done:
		p.done = nil
		if !errors.As(err, &h) || h.From != from || h.To != to {
			t.Errorf("the stage ended with %v, want an error that entries %d to %d are missing", err, from, to)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the stage goes on although entries %d to %d are missing; ready: %v", from, to, p.Stats.Ready.Load())
		p.stop()
	}
	if p.Stats.Ready.Load() {
		t.Error("the stage says that it is ready although entries are missing")
	}
}

func TestPromiseB18AStageDoesNotFoldOverAHoleThatNothingExplains(t *testing.T) {
	p := streams.PartitionOf("acme")
	ledgerStage := func(ctx context.Context, c stage.Config) error { return stage.RunLedger(ctx, c, &critic{}, nil) }
	intakeStage := func(ctx context.Context, c stage.Config) error { return stage.RunIntake(ctx, c, &scribe{}, nil) }
	for _, test := range []struct {
		name       string
		stage      string
		partitions []int
		run        func(context.Context, stage.Config) error
	}{
		{"sentinel", "sentinel-critic", nil, ledgerStage},
		{"sentinel of one partition", "sentinel-critic", []int{p}, ledgerStage},
		{"ingest", streams.StageIngest, nil, intakeStage},
		{"ingest of one partition", streams.StageIngest, []int{p}, intakeStage},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := natstest.Start(t)
			config := func(name string) stage.Config {
				return stage.Config{Name: test.stage, Conn: srv.Connect(), Dir: filepath.Join(t.TempDir(), name),
					Partitions: test.partitions, Standby: true, Takeover: time.Hour}
			}
			publish(t, srv.Connect(), "acme", 0, 60) // ingest's inputs
			st := written(t, srv, p, 1, 20)
			begun := config("begun")
			b := start(t, begun, test.run)
			b.awaitReady()
			b.stop()

			// Sequence 7 is deleted. A stage that has read it must continue. A stage that starts from the beginning of
			// the ledger must stop.
			if err := st.DeleteMsg(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			b = start(t, begun, test.run)
			b.awaitReady()
			refused(t, start(t, config("anew"), test.run), 7, 7)

			// Sequences 22 and 23 are deleted before the stage has read them. It must stop when it gets there.
			b.stop()
			written(t, srv, p, 21, 5)
			for _, seq := range []uint64{22, 23} {
				if err := st.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
			refused(t, start(t, begun, test.run), 22, 23)

			// Statements at the end of the ledger explain the holes. A stage that starts from the beginning must
			// continue, although it reaches the holes before the statements. A deletion that no statement lists must
			// still stop a stage.
			stated(t, srv, p, streams.TypeErased, streams.Custody{DataSubject: "p", Entries: []uint64{7, 22, 23}})
			written(t, srv, p, 30, 3)
			b = start(t, config("explained"), test.run)
			b.awaitReady()
			b.stop()
			if err := st.DeleteMsg(t.Context(), 9); err != nil {
				t.Fatal(err)
			}
			refused(t, start(t, config("another"), test.run), 9, 9)

			stated(t, srv, p, streams.TypeErased, streams.Custody{DataSubject: "p", Entries: []uint64{9}})

			// A stage must also stop if the last entries of the ledger are missing.
			written(t, srv, p, 40, 2)
			end := must(st.Info(t.Context())).State.LastSeq
			if err := st.DeleteMsg(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			refused(t, start(t, config("end"), test.run), end, end)

			// An order to forget a project that does not name the missing sequences must not explain them. An order
			// that names them must.
			stated(t, srv, p, streams.TypeForgotten,
				streams.Custody{UpTo: end, Ranges: []streams.SeqRange{{From: end - 1, To: end - 1}}})
			refused(t, start(t, config("unnamed"), test.run), end, end)
			stated(t, srv, p, streams.TypeForgotten,
				streams.Custody{UpTo: end, Ranges: []streams.SeqRange{{From: end, To: end}}})
			b = start(t, config("named"), test.run)
			b.awaitReady()
			b.stop()

			// An order of an earlier version lists no sequences. It must explain every missing entry before it.
			if err := st.DeleteMsg(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			stated(t, srv, p, streams.TypeForgotten, streams.Custody{})
			b = start(t, config("forgotten"), test.run)
			b.awaitReady()
			b.stop()
		})
	}
}

func TestTheTimeBeforeAHoleIsThatOfTheLastEntryThatIsLeft(t *testing.T) {
	srv := natstest.Start(t)
	st := written(t, srv, streams.PartitionOf("acme"), 1, 12)
	js := must(jetstream.New(srv.Connect()))
	for _, seq := range []uint64{1, 5, 6, 7, 8, 10} {
		if err := st.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ seq, last uint64 }{{4, 3}, {6, 4}, {9, 4}, {11, 9}, {2, 0}, {1, 0}} {
		var want time.Time
		if test.last > 0 {
			want = must(st.GetMsg(t.Context(), test.last)).Time
		}
		if got := must(stage.TimeBefore(t.Context(), js, test.seq, streams.SeqRange{From: 6, To: 8})); !got.Equal(want) {
			t.Errorf("before %d: %v, want that of %d, %v", test.seq, got, test.last, want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
