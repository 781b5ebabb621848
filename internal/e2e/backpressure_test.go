package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/internal/status"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// newSmallFleet runs a server in this process and the daemons as separate processes. The intake accepts at most
// perSubject waiting messages on one subject.
func newSmallFleet(t *testing.T, perSubject int64) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := &fleet{t: t, data: t.TempDir(), procs: make(map[string]*process), names: []string{"ingest", "sentinels",
		"arbiter", "auditor"}}
	p, err := embedded.Start(ctx, embedded.Config{Data: f.data, Listen: "127.0.0.1:0", ServerOnly: true, NoSync: true,
		Storage: wire.Storage{IntakePerSubject: perSubject}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range f.names {
		f.start(n)
	}
	if err := embedded.AwaitShipped(ctx, connect(t, f.data, "operator")); err != nil {
		t.Fatal(err)
	}
	return f
}

// One stage after the other is stopped for a time. Meanwhile acknowledged events must not be lost, and publishers that
// are refused must get an error. When the stage runs again, all events must be processed without help from a person.
func TestAStoppedStageLosesNothingAndRecoversByItself(t *testing.T) {
	long(t)
	t.Parallel()
	const perSubject = 300
	f := newSmallFleet(t, perSubject)
	c, err := client.New(connect(t, f.data, "agent"), "demo", "agent", client.WithRetry(client.Retry{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	acknowledged := make(map[string]bool)
	observe := func(i int) error {
		id := fmt.Sprint("o", i)
		_, err := c.Observe(ctx, "web", &streams.Observation{Head: streams.Head{ID: id, Session: "s"}, Tool: "web.fetch",
			Content: fmt.Sprint("a page, ", i)})
		if err == nil {
			acknowledged[id] = true
		}
		return err
	}
	decide := func(id string, patience time.Duration) (*client.Reply, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return c.Decide(ctx, &streams.Action{Head: streams.Head{ID: id, Session: "t"}, Tool: "read_file"})
	}
	caughtUp := func(stage string) {
		t.Helper()
		natstest.Eventually(t, time.Minute, stage+" goes on and nobody lags", func() bool {
			s := top(t, f.data, "0")
			return s.Intake.Messages == 0 && len(s.Processes) == 4 && len(s.Silent) == 0 && !slices.ContainsFunc(s.Processes,
				func(p *status.Process) bool { return p.Lag > 0 })
		})
	}
	if rep, err := decide("first", 20*time.Second); err != nil || rep.Verdict != streams.Allow {
		t.Fatalf("%+v, %v", rep, err)
	}

	// With ingest stopped, the intake fills up to its limit. The next publish must be refused.
	f.procs["ingest"].signal(syscall.SIGSTOP)
	n := 0
	var refusal error
	for ; refusal == nil && n <= perSubject; n++ {
		refusal = observe(n)
	}
	var e *client.Error
	if !errors.As(refusal, &e) || e.Code != streams.CodeIntakeFull || len(acknowledged) != perSubject {
		t.Fatalf("after %d acknowledged ones: %v", len(acknowledged), refusal)
	}
	natstest.Eventually(t, time.Minute, "doctor says so", func() bool {
		out, code := command(t, f.data, "doctor", "--timeout", "4s")
		return code == 3 && strings.Contains(out, "WRONG  ingest") && strings.Contains(out,
			fmt.Sprintf("%d of at most %d messages wait on lz.in.", perSubject, perSubject))
	})
	f.procs["ingest"].signal(syscall.SIGCONT)
	natstest.Eventually(t, time.Minute, "what was refused is taken", func() bool { return observe(n-1) == nil })
	caughtUp("ingest")

	// While one of the other stages is stopped, the intake still accepts events.
	for i, stage := range []string{"sentinels", "arbiter", "auditor"} {
		f.procs[stage].signal(syscall.SIGSTOP)
		for range 100 {
			if err := observe(n); err != nil {
				t.Fatalf("while %s stands still: %v", stage, err)
			}
			n++
		}
		id := fmt.Sprint("a", i)
		rep, err := decide(id, 4*time.Second)
		switch v := client.VerdictOf(rep, err); {
		case stage == "auditor" && v != streams.Allow:
			t.Errorf("the auditor stands still, and %+v, %v", rep, err)
		case stage != "auditor" && v != streams.Hold:
			t.Errorf("%s stands still, and %+v, %v", stage, rep, err)
		case stage == "arbiter" && err == nil:
			t.Errorf("the arbiter stands still, and nobody says so: %+v", rep)
		}
		f.procs[stage].signal(syscall.SIGCONT)
		caughtUp(stage)
		natstest.Eventually(t, time.Minute, "it is answered", func() bool {
			rep, err := decide(fmt.Sprint("after-", stage), 5*time.Second)
			return err == nil && rep.Verdict == streams.Allow
		})
	}
	op := connect(t, f.data, "operator")
	js, err := jetstream.New(op)
	if err != nil {
		t.Fatal(err)
	}
	last := settle(ctx, t, op, js, 0)
	seen := make(map[string]int)
	eachEntry(ctx, t, js, last, func(e streams.Entry) {
		if e.Type == streams.TypeObservation {
			var h streams.EntryHead
			if err := streams.Unmarshal(e.Body, &h); err != nil {
				t.Fatal(err)
			}
			seen[h.ID]++
		}
	})
	for id := range acknowledged {
		if seen[id] != 1 {
			t.Errorf("%s was acknowledged and is in the ledger %d times", id, seen[id])
		}
	}
	if len(seen) != len(acknowledged) {
		t.Errorf("the ledger has %d observations, %d were acknowledged", len(seen), len(acknowledged))
	}
	if out := must(t, f.data, "audit", "verify"); !strings.HasPrefix(out, "VERIFIED") {
		t.Errorf("the log: %s", out)
	}
}
