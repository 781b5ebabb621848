package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// reopen makes new connections after the pipeline was started again on the same data.
func (p *pipeline) reopen() {
	p.t.Helper()
	var err error
	p.agent, p.op = connect(p.t, p.data, "agent"), connect(p.t, p.data, "operator")
	if p.c, err = client.New(p.agent, "demo", "agent"); err != nil {
		p.t.Fatal(err)
	}
	if p.js, err = jetstream.New(p.op); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipeline) ledger() jetstream.Stream {
	p.t.Helper()
	st, err := p.js.Stream(p.ctx, streams.LedgerStream)
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

func (p *pipeline) activate(do string, bundle []byte) {
	p.t.Helper()
	signer, err := keys.LoadSigner(datafolder.OperatorKey(p.data))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := embedded.Activate(p.ctx, p.op, signer, do, bundle); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipeline) belief(id string) ingest.Belief {
	p.t.Helper()
	var ans ingest.BeliefsAnswer
	if err := query.Ask(p.ctx, p.op, ingest.AskBeliefs, streams.PartitionOf("demo"),
		ingest.BeliefsRequest{Project: "demo", ID: id}, &ans); err != nil || len(ans.Beliefs) != 1 {
		p.t.Fatalf("%+v, %v", ans, err)
	}
	return ans.Beliefs[0]
}

// runs returns the entries of each re-audit in the partition of the project demo, in the order of the ledger. A
// re-audit writes several entries, called chunks.
func (p *pipeline) runs() (names []string, chunks map[string][]streams.BeliefsEntry) {
	p.t.Helper()
	chunks = make(map[string][]streams.BeliefsEntry)
	for _, e := range p.entries(streams.TypeBelief) {
		if e.Partition != streams.PartitionOf("demo") {
			continue
		}
		var b streams.BeliefsEntry
		if err := streams.Unmarshal(e.Body, &b); err != nil {
			p.t.Fatal(err)
		}
		if len(chunks[b.Run]) == 0 {
			names = append(names, b.Run)
		}
		chunks[b.Run] = append(chunks[b.Run], b)
	}
	return names, chunks
}

// whole checks that each chunk of a re-audit exists once, and that the chunks together have each belief in want once.
func whole(t *testing.T, chunks []streams.BeliefsEntry, want []string) {
	t.Helper()
	var got []string
	for i, c := range chunks {
		if c.Index != i || c.Last != (i == len(chunks)-1) || len(c.Beliefs) > streams.MaxAudited {
			t.Errorf("chunk %d of %d is %d, last %v, with %d beliefs", i, len(chunks), c.Index, c.Last, len(c.Beliefs))
		}
		for _, b := range c.Beliefs {
			got = append(got, b.ID)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%d beliefs are judged again, want %d", len(got), len(want))
	}
}

const harmless = `rules:
  - {id: nothing, title: T, severity: low, on: [memory], when: content.text.contains('no such text'), effect: alert, subject: memory, message: "'m'"}
`

const walrus = `rules:
  - {id: walrus, title: T, severity: high, on: [memory], when: content.text.contains('walrus'), effect: quarantine, on_error: hold, subject: memory, message: "'a walrus in %s'.format([event.kind])"}
  - {id: otter, title: T, severity: medium, on: [belief], when: "content.text.contains('otter') && memory.belief.kind == 'content'", effect: restrict, on_error: hold, subject: belief, message: "'an otter: %s'.format([event.kind])"}
  - {id: burst, title: T, severity: low, on: [memory], when: "event.size > 0", effect: deny, on_error: deny, subject: memory, message: "'every write'"}
`

func TestWhatIsBelievedIsJudgedAgainByNewRules(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{Rules: bundle(t, harmless)})
	bad := p.remember("user", "m1", "The walrus says: feed it on Friday.")
	good := p.remember("user", "m2", "The fair opens on Monday.")
	page := p.remember("web", "m3", "An otter and a walrus live in the zoo.")
	if _, err := p.c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: "o1", Session: "s"},
		Tool:    "web.fetch",
		Content: strings.Repeat("Much is said of animals. ", 40) + "And of the otter and the walrus."}); err != nil {
		t.Fatal(err)
	}
	if v := p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "update_calendar",
		Beliefs: []string{bad}}); v.Verdict != streams.Allow {
		t.Fatalf("before: %+v", v)
	}
	live, err := p.op.SubscribeSync("lz.live.demo.alert.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	rules := bundle(t, walrus)
	p.activate(streams.DoActivateRules, rules)
	heard := make(map[string]string)
	for range 3 {
		m, err := live.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("heard %v: %v", heard, err)
		}
		var a streams.Alert
		if err := streams.Unmarshal(m.Data, &a); err != nil {
			t.Fatal(err)
		}
		if a.Subject.Kind != "belief" || !strings.HasSuffix(a.Message, "belief") {
			t.Errorf("%+v", a)
		}
		heard[a.Subject.ID] = a.Rule
	}
	if heard[bad] != "walrus" || heard[page] != "walrus" || len(heard) != 3 {
		t.Errorf("heard %v", heard)
	}
	natstest.Eventually(t, 2*time.Minute, "the belief quarantined", func() bool {
		return p.belief(bad).Axes.Security == beliefs.Quarantined
	})
	for id, rule := range heard {
		if b := p.belief(id); rule == "otter" && (b.Axes.Security != beliefs.Suspicious || b.Kind != beliefs.Content ||
			b.Observation != "o1") {
			t.Errorf("what was read is %+v", b)
		}
	}
	if b := p.belief(good); b.Axes.Security != beliefs.Clean || b.Axes.Retrieval != beliefs.Normal {
		t.Errorf("the good one: %+v", b)
	}
	if v := p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "update_calendar",
		Beliefs: []string{bad}}); v.Verdict == streams.Allow {
		t.Errorf("an action on it: %+v", v)
	}
	if _, items := p.recall("r1", "walrus friday"); items[bad].ID != "" || items[page].ID != "" {
		t.Errorf("it is still recalled: %+v", items)
	}
	names, chunks := p.runs()
	if len(names) != 1 || names[0] != "rules "+streams.Digest(rules) {
		t.Fatalf("runs %v", names)
	}
	n := 0
	for _, c := range chunks[names[0]] {
		n += len(c.Beliefs)
		for _, b := range c.Beliefs {
			if b.Partial || b.Kind == beliefs.Envelope {
				t.Errorf("%+v", b)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d beliefs were judged again", n)
	}
	// Quarantined beliefs must not be judged again, and no alert may be raised a second time.
	p.activate(streams.DoActivateRules, bundle(t, walrus+"# again\n"))
	natstest.Eventually(t, 2*time.Minute, "another run", func() bool {
		names, chunks = p.runs()
		return len(names) == 2 && chunks[names[1]][0].Last
	})
	for _, b := range chunks[names[1]][0].Beliefs {
		if b.ID == bad || b.ID == page {
			t.Errorf("%s is judged again", b.ID)
		}
	}
	if n := len(p.entries(streams.TypeVerdict)); n != 6 {
		t.Errorf("%d verdicts: a re-audit is not a proposal", n)
	}
}

func TestAReauditIsDueByLedgerTime(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{Rules: bundle(t, harmless),
		Policy: []byte(strings.Replace(string(policy.Default), "reaudit: 24h", "reaudit: 1s", 1))})
	id := p.remember("user", "m1", "The fair opens on Monday.")
	var names []string
	var chunks map[string][]streams.BeliefsEntry
	natstest.Eventually(t, 2*time.Minute, "two runs in an idle partition", func() bool {
		names, chunks = p.runs()
		return len(names) >= 2
	})
	for _, n := range names[:2] {
		if !strings.HasPrefix(n, "schedule ") {
			t.Errorf("the run is %q", n)
		}
		whole(t, chunks[n], []string{id})
	}
	dues := 0
	for _, e := range p.entries(streams.TypeDue) {
		var d streams.DueEntry
		if err := streams.Unmarshal(e.Body, &d); err != nil || !d.Reaudit || e.Time.Before(d.Until) {
			t.Errorf("%+v, %v", d, err)
		}
		if e.Partition == streams.PartitionOf("demo") {
			dues++
		}
	}
	if dues < len(names) {
		t.Errorf("%d runs, %d due entries", len(names), dues)
	}
	// A policy without re-audits ends it.
	p.activate(streams.DoActivatePolicy, []byte(strings.Replace(string(policy.Default), "reaudit: 24h", "# never", 1)))
	natstest.Eventually(t, 2*time.Minute, "rest", func() bool {
		was := len(p.entries(streams.TypeDue))
		time.Sleep(2500 * time.Millisecond)
		return len(p.entries(streams.TypeDue)) == was
	})
}

// While a re-audit runs, the pipeline is stopped several times, with its state kept or deleted. Another activation then
// begins the re-audit again. Each belief must still be judged once.
func TestAReauditSurvivesRestarts(t *testing.T) {
	long(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED in short mode: 900 memories of 30 kB, judged again over restarts")
	}
	const memories = 900 // of 30 kB, about nine per chunk
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	data := t.TempDir()
	p := &pipeline{t: t, data: data, ctx: ctx}
	cfg := embedded.Config{Data: data, Listen: "127.0.0.1:0", Rules: bundle(t, harmless), NoSync: true}
	up := func() *embedded.Pipeline {
		pl, err := embedded.Start(p.ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.reopen()
		return pl
	}
	pl := up()
	js, err := jetstream.New(p.agent)
	if err != nil {
		t.Fatal(err)
	}
	for i := range memories {
		text := fmt.Sprintf("Note %d of the test.", i) + strings.Repeat(" Nothing is said here that anybody has to know.",
			640)
		if i%25 == 7 {
			text += " It names a walrus."
		}
		if _, err := js.PublishAsync("lz.in.demo.agent.mem.user",
			fmt.Appendf(nil, `{"id":"m%d","session":"s","content":%q}`, i, text),
			jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, 2*time.Minute, "all are remembered", func() bool {
		li, err := p.ledger().Info(p.ctx, jetstream.WithSubjectFilter(streams.LedgerFilter(streams.PartitionOf("demo"))))
		if err != nil {
			return false
		}
		verdicts := uint64(0)
		for _, subject := range streams.StageSubjects(streams.PartitionOf("demo"), streams.StageArbiter) {
			verdicts += li.State.Subjects[subject]
		}
		return verdicts >= memories
	})
	var ids []string
	after := ""
	for {
		var ans ingest.BeliefsAnswer
		if err := query.Ask(p.ctx, p.op, ingest.AskBeliefs, streams.PartitionOf("demo"),
			ingest.BeliefsRequest{Project: "demo", After: after, Limit: 50}, &ans); err != nil {
			t.Fatal(err)
		}
		for _, b := range ans.Beliefs {
			ids = append(ids, b.ID)
		}
		if after = ans.Next; after == "" {
			break
		}
	}
	if len(ids) != memories {
		t.Fatalf("%d beliefs", len(ids))
	}
	p.activate(streams.DoActivateRules, bundle(t, harmless+"# begun and begun anew\n"))
	last := bundle(t, walrus)
	p.activate(streams.DoActivateRules, last)
	run := "rules " + streams.Digest(last)
	natstest.Eventually(t, 2*time.Minute, "the last activation", func() bool {
		var a ingest.ActiveAnswer
		return query.Ask(p.ctx, p.op, ingest.AskActive, streams.PartitionOf("demo"), struct{}{}, &a) == nil &&
			a.Rules == streams.Digest(last)
	})
	stops, middle := 0, 0
	for range 12 {
		m, err := p.ledger().GetLastMsgForSubject(p.ctx, streams.LedgerSubject(streams.PartitionOf("demo"),
			streams.StageIngest))
		if err != nil {
			t.Fatal(err)
		}
		if head := string(m.Data[:min(len(m.Data), 400)]); strings.Contains(head, run) {
			if strings.Contains(head, `"last":true`) {
				break
			}
			middle++
		}
		if err := pl.Close(); err != nil {
			t.Fatal(err)
		}
		if stops++; stops%2 == 0 {
			if err := os.RemoveAll(datafolder.StateDir(data, "ingest")); err != nil {
				t.Fatal(err)
			}
		}
		pl = up()
	}
	var chunks map[string][]streams.BeliefsEntry
	natstest.Eventually(t, 2*time.Minute, "the run's end", func() bool {
		_, chunks = p.runs()
		c := chunks[run]
		return len(c) > 0 && c[len(c)-1].Last
	})
	t.Logf("%d stops, %d of them in the middle of the last run, which has %d chunks", stops, middle, len(chunks[run]))
	if middle == 0 {
		t.Error("no stop came in the middle")
	}
	whole(t, chunks[run], ids)
	// The second activation cut the first re-audit short. In both, no chunk may be missing or be there twice.
	for name, cs := range chunks {
		for i, c := range cs {
			if c.Index != i {
				t.Errorf("%s: chunk %d stands at %d", name, c.Index, i)
			}
		}
	}
	seen := make(map[string]int)
	natstest.Eventually(t, 2*time.Minute, "the alerts", func() bool {
		clear(seen)
		for _, e := range p.entries(streams.TypeAlerts) {
			var a streams.AlertsEntry
			if err := streams.Unmarshal(e.Body, &a); err != nil {
				t.Fatal(err)
			}
			for _, al := range a.Alerts {
				seen[al.Subject.ID]++
			}
		}
		return len(seen) >= memories/25
	})
	for id, n := range seen {
		if n != 1 || p.belief(id).Axes.Security != beliefs.Quarantined {
			t.Errorf("%s: %d alerts, %+v", id, n, p.belief(id).Axes)
		}
	}
	if len(seen) != memories/25 {
		t.Errorf("%d are flagged", len(seen))
	}
	if err := pl.Close(); err != nil {
		t.Fatal(err)
	}
}
