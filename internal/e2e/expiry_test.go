package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// publishTexts publishes many different texts in batches, and waits until all of them are beliefs.
func publishTexts(t *testing.T, data string, nc *nats.Conn, project string, many int) {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(8))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < many; {
		var events []string
		for ; i < many && len(events) < streams.MaxBatch; i++ {
			events = append(events, batched(i, fmt.Sprintf("The heron number%d stood in the reeds of lake%d and caught fish%d.", i,
				i%977, i%1009)))
		}
		if _, err := js.PublishMsgAsync(batchOf("lz.in."+project+".agent.obs.web", events),
			jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	op := connect(t, data, "operator")
	admin, err := jetstream.New(op)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	settle(ctx, t, op, admin, 0)
}

// batched returns an observation in the form of one event of a batch.
func batched(i int, content string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":"o%d","source":"s","type":"t","data":{"session":"s%d","tool":"web.fetch","content":%q}}`,
		i, i%50, content)
}

// batchOf returns a message with a batch of events.
func batchOf(subject string, events []string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{"Content-Type": {streams.BatchContentType}},
		Data: []byte("[" + strings.Join(events, ",") + "]")}
}

// While many beliefs of one project expire, another project in the same partition must get its verdicts in time.
func TestVerdictsGoOnWhileManyBeliefsOfThePartitionExpire(t *testing.T) {
	if raced {
		t.Skip("it measures times")
	}
	long(t)
	const (
		many = 40_000
		// With steps without a limit, the slowest verdict came after 6.6 s with half of these texts.
		patience = 5 * time.Second
	)
	data := t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--no-sync")
	p := &pipeline{t: t, data: data}
	neighbour := neighbourOf("flood", true)
	texts := p.agentOf("flood")
	publishTexts(t, data, texts, "flood", many)
	flood, err := client.New(texts, "flood", "agent")
	if err != nil {
		t.Fatal(err)
	}
	recalled := func() (n int) {
		t.Helper()
		rep, err := flood.Recall(t.Context(), &streams.Recall{Head: streams.Head{ID: client.NewID(), Session: "r"},
			Query: "number7"})
		if err != nil {
			t.Fatal(err)
		}
		return len(rep.Recall.ContextOnly)
	}
	if n := recalled(); n != 1 {
		t.Fatalf("a recall finds %d texts before the expiry, want 1", n)
	}
	must(t, data, "audit", "trim", "--older", "0s")

	most, steps := askWhile(t, p, neighbour, start(t, "", "lazaret", "audit", "expire", "--older", "0s", "--data", data))
	t.Logf("%d texts expired in %d steps: the slowest verdict came after %v", many, steps, most.Round(time.Millisecond))
	if most > patience {
		t.Errorf("a verdict came after %v, more than %v", most, patience)
	}
	natstest.Eventually(t, time.Minute, "the texts are gone", func() bool { return recalled() == 0 })
}

// askWhile asks for verdicts until the command c has ended and ingest has dropped the data that the command names. It
// returns the time of the slowest verdict, and the number of entries about dropped data.
func askWhile(t *testing.T, p *pipeline, project string, c *process) (most time.Duration, steps int64) {
	t.Helper()
	js, err := jetstream.New(connect(t, p.data, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := js.OrderedConsumer(t.Context(), streams.LedgerStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy:  jetstream.DeliverNewPolicy,
		FilterSubjects: []string{streams.LedgerSubject(streams.PartitionOf(project), streams.StageIngest)}})
	if err != nil {
		t.Fatal(err)
	}
	var dropped atomic.Int64
	reading, err := ledger.Consume(func(m jetstream.Msg) {
		entries, err := streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), 1, time.Now())
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if e.Type == streams.TypeDropped {
				dropped.Add(1)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Stop()
	calm, err := client.New(p.agentOf(project), project, "agent", client.WithRetry(client.Retry{Tries: 1}))
	if err != nil {
		t.Fatal(err)
	}
	ended := func() bool {
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	}
	asked := 0
	for idle := 0; idle < 20; asked++ {
		began := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			rep, err := calm.Decide(ctx, &streams.Action{Head: streams.Head{ID: fmt.Sprint("a", asked), Session: "s"},
				Tool: "read_file"})
			cancel()
			if err == nil && rep.Verdict == streams.Allow {
				break
			}
			// The server restarts when it overwrites its files. A request or an answer on the way at this moment is
			// lost, so a host asks again with the same id.
			var e *client.Error
			if !errors.As(err, &e) || e.Code != streams.CodeTimeout && e.Code != streams.CodeUnavailable ||
				time.Since(began) > time.Minute {
				t.Fatalf("action %d: %+v, %v", asked, rep, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		most = max(most, time.Since(began))
		before := steps
		if steps = dropped.Load(); steps == 0 || steps > before || !ended() {
			idle = 0
		} else {
			idle++
		}
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the command ended with %d:\n%s", code, c.output())
	}
	t.Logf("%d verdicts meanwhile", asked)
	return most, steps
}

// While a project with many beliefs is erased, another project in the same partition must get its verdicts in time.
func TestVerdictsGoOnWhileALargeProjectIsForgotten(t *testing.T) {
	if raced {
		t.Skip("it measures times")
	}
	long(t)
	const (
		many     = 100_000
		patience = 5 * time.Second // the stages rewrite their files meanwhile, one stage after the other
	)
	data := t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--no-sync")
	p := &pipeline{t: t, data: data}
	publishTexts(t, data, p.agentOf("flood"), "flood", many)
	most, _ := askWhile(t, p, neighbourOf("flood", true), start(t, "", "lazaret", "audit", "forget", "--subject", "flood",
		"--reason", "r", "--data", data))
	t.Logf("a project with %d texts was forgotten: the slowest verdict came after %v", many, most.Round(time.Millisecond))
	if most > patience {
		t.Errorf("a verdict came after %v, more than %v", most, patience)
	}
}
