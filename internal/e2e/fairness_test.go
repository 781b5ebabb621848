package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// agentOf returns a connection with the credential of an agent of any project.
func (p *pipeline) agentOf(project string) *nats.Conn {
	p.t.Helper()
	m, err := natsserver.OpenMinter(p.data)
	if err != nil {
		p.t.Fatal(err)
	}
	url, err := natsserver.ContextURL(p.data, "operator")
	if err != nil {
		p.t.Fatal(err)
	}
	name := project + ".agent"
	a := natsserver.Agent{Project: project, Name: "agent", Origins: beliefs.Origins()}
	if err := m.Install(natsserver.Grant{Name: name, Agent: &a, Lasts: natsserver.AgentExpires,
		Description: "a test's agent"}, url, false); err != nil {
		p.t.Fatal(err)
	}
	return connect(p.t, p.data, name)
}

// refusedForBeingFull reports whether a publish was refused because too many messages wait on its subject.
func refusedForBeingFull(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && strings.Contains(api.Description, "maximum messages per subject")
}

// One agent publishes as fast as it can during the whole test. Only this agent may be refused. A request of another
// agent may wait at most behind those messages of the first agent that the intake accepted.
func TestAFloodByOneAgentStarvesNobodyElse(t *testing.T) {
	long(t)
	const (
		mayWait = 500
		asked   = 25
		// Some thousand messages are decided per second. The limit is more than ten times the time for all messages
		// that may wait, because the machine may be busy.
		patience = 8 * time.Second
	)
	p := newPipeline(t, embedded.Config{NoSync: true, Storage: wire.Storage{IntakePerSubject: mayWait}})
	ctx, stop := context.WithCancel(p.ctx)
	flooded := make(chan error, 1)
	var acknowledged, refused atomic.Int64
	flooder := p.agentOf("flood")
	go func() { flooded <- flood(ctx, flooder, &acknowledged, &refused) }()
	defer func() {
		stop()
		if err := <-flooded; err != nil {
			t.Errorf("the flood: %v", err)
		}
	}()
	for refused.Load() == 0 { // until the limit of waiting messages is reached
		if ctx.Err() != nil {
			t.Fatalf("%d of the flood are acknowledged and none refused", acknowledged.Load())
		}
		time.Sleep(time.Millisecond)
	}
	// One project is in the same partition as the flooded one, and one in another partition.
	for _, project := range []string{neighbourOf("flood", true), neighbourOf("flood", false)} {
		c, err := client.New(p.agentOf(project), project, "agent", client.WithRetry(client.Retry{Tries: 1}))
		if err != nil {
			t.Fatal(err)
		}
		var most time.Duration
		before := refused.Load()
		for i := range asked {
			if _, err := c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: fmt.Sprint("o", i), Session: "s"},
				Tool: "web.fetch", Content: fmt.Sprint("a page, ", i)}); err != nil {
				t.Fatalf("%s, observation %d: %v", project, i, err)
			}
			began := time.Now()
			rep, err := c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: fmt.Sprint("a", i), Session: "s"},
				Tool: "read_file"})
			if err != nil || rep.Verdict != streams.Allow {
				t.Fatalf("%s, action %d: %+v, %v", project, i, rep, err)
			}
			most = max(most, time.Since(began))
		}
		t.Logf("%s (partition %d, the flood's is %d): %d observations and verdicts, the slowest after %v, while %d of the "+
			"flood were refused",
			project, streams.PartitionOf(project), streams.PartitionOf("flood"), asked, most.Round(time.Millisecond),
			refused.Load()-before)
		if most > patience {
			t.Errorf("%s waited for %v, more than %v", project, most, patience)
		}
		if refused.Load() == before {
			t.Error("the flood had dried up meanwhile: it shows nothing")
		}
	}
	got := make(map[string]int)
	for _, e := range p.entries(streams.TypeObservation) {
		if e.Project != "flood" {
			got[e.Project]++
		}
	}
	if len(got) != 2 || got[neighbourOf("flood", true)] != asked || got[neighbourOf("flood", false)] != asked {
		t.Errorf("the ledger holds %v of the others' observations, %d each were acknowledged", got, asked)
	}
}

// neighbourOf returns a project in the same partition as another one, or in a different one.
func neighbourOf(project string, same bool) string {
	for i := 0; ; i++ {
		if n := fmt.Sprint("calm", i); (streams.PartitionOf(n) == streams.PartitionOf(project)) == same {
			return n
		}
	}
}

// flood publishes on one subject until ctx ends. It always has as many unacknowledged messages as the client allows.
func flood(ctx context.Context, nc *nats.Conn, acknowledged, refused *atomic.Int64) error {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		return err
	}
	acks := make(chan jetstream.PubAckFuture, 900)
	heard := make(chan error, 1)
	go func() {
		var odd error
		for a := range acks {
			select {
			case <-a.Ok():
				acknowledged.Add(1)
			case err := <-a.Err():
				if refusedForBeingFull(err) {
					refused.Add(1)
				} else if ctx.Err() == nil && odd == nil {
					odd = err
				}
			case <-ctx.Done():
			}
		}
		heard <- odd
	}()
	for i := 0; ctx.Err() == nil; i++ {
		a, err := js.PublishAsync("lz.in.flood.agent.obs.web",
			fmt.Appendf(nil, `{"id":"f%d","session":"s%d","tool":"web.fetch","content":"page %d of many, and nothing on any of them"}`, i, i%50, i), jetstream.WithRetryAttempts(0))
		if err != nil {
			break
		}
		acks <- a
	}
	close(acks)
	return <-heard
}

// Many large messages of one agent wait in a partition. Another project of the partition must get verdicts meanwhile:
// each of its proposals must be in the ledger after a few of the large messages, not after all of them.
func TestPromiseC21VerdictsGoOnBesideAnotherProjectsFloodInTheSamePartition(t *testing.T) {
	long(t)
	const (
		large, size = 80, 900_000
		asked       = 8
		// large messages that may come first: those in flight, those decided meanwhile, and some for a busy machine
		behind = 8
	)
	p := newPipeline(t, embedded.Config{NoSync: true})
	neighbour := neighbourOf("flood", true)
	c, err := client.New(p.agentOf(neighbour), neighbour, "agent", client.WithRetry(client.Retry{Tries: 1}))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(p.agentOf("flood"), jetstream.WithPublishAsyncMaxPending(large))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		var text []byte
		for len(text) < size {
			text = fmt.Appendf(text, "visitor %d of house %d wrote to guest%d@mail%d.example about it. ", r.IntN(1000), r.IntN(1e6),
				r.IntN(1e6), r.IntN(1000))
		}
		if _, err := js.PublishAsync("lz.in.flood.agent.obs.web", fmt.Appendf(nil,
			`{"id":"f%d","session":"s","tool":"web.fetch","content":%q}`, i, text)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	var began []time.Time
	var verdicts []*streams.VerdictEntry
	for i := range asked {
		began = append(began, time.Now())
		rep, err := c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: fmt.Sprint("a", i), Session: "s"},
			Tool: "read_file"})
		if err != nil || rep.Verdict != streams.Allow {
			t.Fatalf("action %d: %+v, %v", i, rep, err)
		}
		t.Logf("action %d: a verdict after %v", i, time.Since(began[i]).Round(time.Millisecond))
		verdicts = append(verdicts, rep.Entry)
	}
	waited, decided := make([]int, asked), 0
	for _, e := range p.entries(streams.TypeObservation) {
		if e.Project != "flood" {
			continue
		}
		if e.Position() < verdicts[asked-1].Proposal {
			decided++
		}
		for i, v := range verdicts {
			if e.Time.After(began[i]) && e.Position() < v.Proposal {
				waited[i]++
			}
		}
	}
	t.Logf("large messages decided before each proposal while it waited: %d; before the last: %d of %d", waited, decided, large)
	if slices.Max(waited) > behind {
		t.Errorf("a proposal waited for %d large messages of another project, want at most %d", slices.Max(waited), behind)
	}
	if decided == large {
		t.Error("nothing of the flood waited behind the last proposal, which shows nothing")
	}
}
