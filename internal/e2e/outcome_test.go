package e2e

import (
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

func TestAnOutcomeThatIsNotOfItsActionIsAnIncident(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	heard, err := p.op.SubscribeSync("lz.live.demo.incident")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	propose := func(id, tool string) *streams.VerdictEntry {
		return p.decide(&streams.Action{Head: streams.Head{ID: id, Session: "s"}, Tool: tool})
	}
	released, held := propose("a1", "read_file"), propose("a2", "send_email")
	if released.Verdict != streams.Allow || released.Digest == "" || held.Verdict != streams.Hold {
		t.Fatalf("%+v, %+v", released, held)
	}
	report := func(action, status, digest string) {
		t.Helper()
		if _, err := p.c.Publish(p.ctx, streams.KindOut, "", &streams.Outcome{Head: streams.Head{Session: "s"},
			Action: action, Status: status, Digest: digest}); err != nil {
			t.Fatal(err)
		}
	}
	report("a1", "ok", released.Digest)
	report("a1", "ok", "")      // the same outcome again, from an executor that sends no digests
	report("a2", "skipped", "") // not executed
	report("a1", "ok", held.Digest)
	report("a2", "ok", held.Digest)
	report("a3", "ok", held.Digest)
	rules := map[string]int{}
	natstest.Eventually(t, time.Minute, "four incidents", func() bool {
		clear(rules)
		n := 0
		for _, e := range p.entries(streams.TypeAlerts) {
			var a streams.AlertsEntry
			if e.Stage != streams.StageArbiter || streams.Unmarshal(e.Body, &a) != nil {
				continue
			}
			rules[a.Alerts[0].Rule+" "+a.Alerts[0].Subject.ID]++
			n++
		}
		return n == 4
	})
	if rules["outcome-repeated a1"] != 1 || rules["outcome-mismatch a1"] != 1 || rules["outcome-unreleased a2"] != 1 ||
		rules["outcome-unreleased a3"] != 1 {
		t.Errorf("%v", rules)
	}
	for range 4 {
		if _, err := heard.NextMsg(5 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	// The next proposal is judged as before.
	if v := propose("a4", "read_file"); v.Verdict != streams.Allow {
		t.Errorf("%+v", v)
	}
}
