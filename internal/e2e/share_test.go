package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// bulk is a flood: one agent publishes many messages that are almost as large as allowed.
type bulk struct {
	mu      sync.Mutex
	acked   map[string]bool // guarded by mu
	refused int             // guarded by mu
	odd     error           // guarded by mu: the last publish error that is not a refusal
}

func (b *bulk) count() (acked, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acked), b.refused
}

// floodBulk publishes until ctx ends. At most ahead messages are unacknowledged at a time.
func floodBulk(ctx context.Context, t *testing.T, nc *nats.Conn, size, ahead int) (b *bulk, wait func()) {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2*ahead))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 16)
	for i := range texts {
		var text []byte
		for len(text) < size {
			text = fmt.Appendf(text, "visitor %d of house %d wrote to guest%d@mail%d.example about it. ", r.IntN(1000), r.IntN(1e6),
				r.IntN(1e6), r.IntN(1000))
		}
		texts[i] = string(text)
	}
	b = &bulk{acked: make(map[string]bool)}
	room := make(chan struct{}, ahead)
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprint("f", i)
			room <- struct{}{}
			ack, err := js.PublishAsync("lz.in.flood.agent.obs.web", []byte(fmt.Sprintf(
				`{"content":"%s","id":"%s","session":"s","tool":"web.fetch"}`, texts[i%len(texts)], id)),
				jetstream.WithRetryAttempts(0))
			if err != nil {
				b.note(id, err)
				<-room
				continue
			}
			all.Go(func() {
				defer func() { <-room }()
				select {
				case <-ack.Ok():
					b.note(id, nil)
				case err := <-ack.Err():
					b.note(id, err)
				}
			})
		}
	})
	return b, all.Wait
}

func (b *bulk) note(id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var api *jetstream.APIError
	switch {
	case err == nil:
		b.acked[id] = true
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum bytes"):
		b.refused++
	default:
		b.odd = err
	}
}

// accountBulk checks that each acknowledged message of a flood has an entry in the ledger up to last: an observation or
// a rejection. It returns the number of observations of other agents.
func accountBulk(ctx context.Context, t *testing.T, b *bulk, js jetstream.JetStream, last uint64) (others int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]int)
	observed, turned := 0, 0
	eachEntry(ctx, t, js, last, func(e streams.Entry) {
		switch {
		case e.Type == streams.TypeObservation && e.Project != "flood":
			others++
		case e.Type == streams.TypeRejected && e.Project != "flood":
			t.Errorf("a message of another is rejected: %s", e.Body)
		case e.Type == streams.TypeObservation:
			observed++
			h := new(streams.EntryHead)
			if err := streams.Unmarshal(e.Body, h); err != nil {
				t.Fatal(err)
			}
			seen[h.ID]++
		case e.Type == streams.TypeRejected:
			r, err := streams.Read[streams.RejectedEntry](&e)
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != streams.CodeAgentFull || !r.Unseen || r.Session != "s" || len(r.Raw) > 0 || r.Size == 0 ||
				len(e.Body) > 1500 {
				t.Fatalf("a rejection of %d bytes: %+v", len(e.Body), r)
			}
			turned++
			seen[r.ID]++
		}
	})
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d entries", id, n)
		}
	}
	for id := range b.acked {
		if seen[id] == 0 {
			t.Errorf("%s was acknowledged and has no entry", id)
		}
	}
	t.Logf("%d of the flood acknowledged, %d refused: %d observations and %d rejections", len(b.acked), b.refused, observed,
		turned)
	if turned == 0 {
		t.Error("none of the flood was turned down, which shows nothing")
	}
	return others
}

// One agent publishes messages near the size limit. They must not fill the intake: ingest rejects those that exceed the
// agent's share. Other agents publish pages of 200 KB. They must not be refused, and must get their verdicts. Each
// acknowledged message of the flood must have one entry.
func TestPromiseC21AFloodOfLargeMessagesFillsNobodysIntake(t *testing.T) {
	long(t)
	const (
		intake   = 256 << 20
		asked    = 12
		patience = 20 * time.Second // for a busy machine
	)
	p := newPipeline(t, embedded.Config{NoSync: true, Storage: wire.Storage{IntakeBytes: intake}})
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	b, wait := floodBulk(ctx, t, p.agentOf("flood"), 900_000, 16)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if n, refused := b.count(); n > intake/900_000 || refused > 0 {
			break // more has come than the intake can hold
		}
	}
	var most time.Duration
	projects := []string{neighbourOf("flood", true), neighbourOf("flood", false)}
	clients := make([]*client.Client, len(projects))
	for i, project := range projects {
		var err error
		clients[i], err = client.New(p.agentOf(project), project, "agent", client.WithRetry(client.Retry{Tries: 1}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range asked {
		c, project := clients[i%2], projects[i%2]
		if _, err := c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: fmt.Sprint("o", i), Session: "s"},
			Tool: "web.fetch", Content: strings.Repeat(fmt.Sprint("a page, ", i, ". "), 20_000)}); err != nil {
			t.Errorf("%s, observation %d: %v", project, i, err)
		}
		began := time.Now()
		rep, err := c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: fmt.Sprint("a", i), Session: "s"},
			Tool: "read_file"})
		if err != nil || rep.Verdict != streams.Allow {
			t.Errorf("%s, action %d: %+v, %v", project, i, rep, err)
		}
		most = max(most, time.Since(began))
	}
	stop()
	wait()
	acked, refused := b.count()
	t.Logf("the slowest verdict came after %v; %d messages of the flood were acknowledged, %d refused",
		most.Round(time.Millisecond), acked, refused)
	if most > patience {
		t.Errorf("a verdict took %v", most)
	}
	if b.odd != nil && !errors.Is(b.odd, context.Canceled) {
		t.Errorf("the flood: %v", b.odd)
	}
	if others := accountBulk(p.ctx, t, b, p.js, settle(p.ctx, t, p.op, p.js, 0)); others != asked {
		t.Errorf("%d observations of the others, want %d", others, asked)
	}
}

// Ingest is killed while a flood comes in. Each acknowledged message must still have exactly one entry. In the end the
// intake must be empty: ingest must also remove a message that it rejected and had not deleted when it was killed.
func TestPromiseC21AKilledIngestTurnsEachMessageDownOnce(t *testing.T) {
	long(t)
	t.Parallel()
	const killed = 5
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	f := &fleet{t: t, data: t.TempDir(), procs: make(map[string]*process), names: []string{"ingest"}}
	srv, err := embedded.Start(ctx, embedded.Config{Data: f.data, Listen: "127.0.0.1:0", ServerOnly: true, NoSync: true,
		Storage: wire.Storage{IntakeBytes: 128 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	f.start("ingest")
	js, err := jetstream.New(connect(t, f.data, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	b, wait := floodBulk(flooding, t, (&pipeline{t: t, data: f.data}).agentOf("flood"), 900_000, 8)
	for range killed {
		from, _ := b.count()
		natstest.Eventually(t, time.Minute, "more of the flood", func() bool { n, _ := b.count(); return n > from+40 })
		f.procs["ingest"].kill()
		f.start("ingest")
	}
	stop()
	wait()
	if b.odd != nil {
		t.Errorf("the flood: %v", b.odd)
	}
	info := func(stream string) jetstream.StreamState {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State
	}
	natstest.Eventually(t, time.Minute, "all is decided", func() bool { return info(streams.IntakeStream).Msgs == 0 })
	if others := accountBulk(ctx, t, b, js, info(streams.LedgerStream).LastSeq); others != 0 {
		t.Errorf("%d observations of nobody", others)
	}
}
