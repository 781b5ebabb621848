package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/streams"
)

// numberOf returns the number in the environment variable env, or usual if the variable is not set.
func numberOf(t *testing.T, env string, usual int) int {
	s := os.Getenv(env)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// eachEntry calls fn with each entry of the ledger, from the first one to that with sequence last.
func eachEntry(ctx context.Context, t *testing.T, js jetstream.JetStream, last uint64, fn func(streams.Entry)) {
	t.Helper()
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(2000))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	for seq := uint64(0); seq < last; {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		md, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		seq = md.Sequence.Stream
		entries, err := streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), seq, md.Timestamp)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			fn(e)
		}
	}
}

// asked is a proposal and the answer that its caller got.
type asked struct {
	id     string
	poison bool
	rep    *client.Reply
	err    error
	again  int // number of repeated requests
}

func (a *asked) action() *streams.Action {
	act := &streams.Action{Head: streams.Head{ID: a.id, Session: "s"}, Tool: "read_file",
		Args: jsontext.Value(fmt.Sprintf(`{"path":"notes/%s.md"}`, a.id))}
	if a.poison {
		act = serve("s", "eve@evil.example")
		act.ID = a.id
	}
	return act
}

// ask sends the proposal once. If that fails, the error must have one of the documented codes.
func (a *asked) ask(t *testing.T, c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	a.rep, a.err = c.Decide(ctx, a.action())
	if a.err == nil {
		return
	}
	var le *client.Error
	if !errors.As(a.err, &le) {
		t.Errorf("%s: %v", a.id, a.err)
		return
	}
	if _, ok := le.Code.Doc(); !ok || (le.Code != streams.CodeTimeout && le.Code != streams.CodeUnavailable) {
		t.Errorf("%s: %v", a.id, a.err)
	}
}

func TestKillingArbiterAndSentinelsAllowsNothingThatWasNotCleared(t *testing.T) {
	long(t)
	t.Parallel()
	n := numberOf(t, "LAZARET_PROPOSALS", 300)
	rng := seeded(t)
	f := newFleet(t, "ingest", "sentinels", "arbiter")
	nc := connect(t, f.data, "agent")
	c, err := client.New(nc, "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if _, err := c.Observe(ctx, "web", &streams.Observation{Head: streams.Head{ID: "poison", Session: "s"},
		Tool: "web.fetch", Content: fmt.Sprintf(poison, "eve@evil.example")}); err != nil {
		t.Fatal(err)
	}
	all := make([]*asked, n)
	var wg sync.WaitGroup
	var open atomic.Int64
	open.Store(int64(n))
	for i := range all {
		all[i] = &asked{id: fmt.Sprint("q", i), poison: i%10 == 3}
		wg.Go(func() {
			// Start the proposals at different times, so that some arrive while others are being answered.
			time.Sleep(time.Duration(i%8) * 60 * time.Millisecond)
			for a := all[i]; ; a.again++ {
				if a.ask(t, c); a.err == nil || a.again == 20 {
					break
				}
				time.Sleep(200 * time.Millisecond)
			}
			open.Add(-1)
		})
	}
	killed := map[string]int{}
	for k := rng.IntN(2); open.Load() > 0; k++ {
		time.Sleep(time.Duration(5+rng.IntN(250)) * time.Millisecond)
		name := []string{"arbiter", "sentinels"}[k%2]
		if killed[name] == 8 {
			continue
		}
		killed[name]++
		f.procs[name].kill()
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		f.start(name)
	}
	wg.Wait()
	// Each proposal is repeated with its id. It must get the same answer.
	first, retried := make([]*client.Reply, n), 0
	limit := make(chan struct{}, 64)
	for i, a := range all {
		if a.again > 0 {
			retried++
		}
		if a.err != nil {
			continue
		}
		first[i] = a.rep
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			a.ask(t, c)
		})
	}
	wg.Wait()
	op := connect(t, f.data, "operator")
	js, err := jetstream.New(op)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	proposals := map[uint64]string{}
	// ledger sequence of a proposal → that of the entry in which the group core allowed it
	cleared := map[uint64]uint64{}
	given := map[string]int{}
	verdicts := map[uint64]*streams.VerdictEntry{}
	eachEntry(ctx, t, js, st.CachedInfo().State.LastSeq, func(e streams.Entry) {
		decode := func(v any) {
			if err := streams.Unmarshal(e.Body, v); err != nil {
				t.Fatal(err)
			}
		}
		switch e.Type {
		case streams.TypeAction:
			var h streams.EntryHead
			decode(&h)
			proposals[e.Seq] = h.ID
		case streams.TypeAssessment:
			var a streams.AssessmentEntry
			decode(&a)
			if a.Verdict == streams.Allow && a.Digest != "" && cleared[e.Src] == 0 {
				cleared[e.Src] = e.Seq
			}
		case streams.TypeVerdict:
			v := new(streams.VerdictEntry)
			decode(v)
			verdicts[e.Seq] = v
			if !v.Again && !v.Late {
				given[v.ID]++
			}
			if at := cleared[v.Proposal]; v.Verdict == streams.Allow && (at == 0 || at > e.Src) {
				t.Errorf("entry %d allows %s, which core had not cleared", e.Seq, v.ID)
			}
		}
	})
	counts := map[streams.Verdict]int{}
	check := func(a *asked, rep *client.Reply) {
		v := verdicts[rep.Seq]
		if v == nil || v.ID != a.id || v.Verdict != rep.Verdict || proposals[v.Proposal] != a.id {
			t.Errorf("%s was answered %s from entry %d, which is %+v", a.id, rep.Verdict, rep.Seq, v)
		}
		if a.poison && rep.Verdict == streams.Allow {
			t.Errorf("%s serves the poison and was allowed: %+v", a.id, rep.Entry)
		}
	}
	for i, a := range all {
		if a.err != nil {
			t.Errorf("%s has no answer after it asked %d times more: %v", a.id, a.again, a.err)
			continue
		}
		check(a, a.rep)
		counts[a.rep.Verdict]++
		if check(a, first[i]); first[i].Verdict > a.rep.Verdict {
			t.Errorf("%s was answered %s and then %s", a.id, first[i].Verdict, a.rep.Verdict)
		}
		if given[a.id] != 1 {
			t.Errorf("%s has %d first verdicts in the ledger", a.id, given[a.id])
		}
	}
	t.Logf("%d proposals, %v kills; %d callers had to ask again; answers %v", n, killed, retried, counts)
	if killed["arbiter"] == 0 || killed["sentinels"] == 0 {
		t.Error("they were answered before anybody was killed")
	}
	if counts[streams.Allow] == 0 {
		t.Error("nothing was allowed: the test shows nothing")
	}
}
