package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

func TestConfidenceIsHeldAgainstOutcomes(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	heard, err := p.op.SubscribeSync("lz.live.demo.alert.medium.over-confident")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	said := 0.9
	propose := func(id string) *streams.VerdictEntry {
		return p.decide(&streams.Action{Head: streams.Head{ID: id, Session: "s"}, Tool: "write_file", Confidence: &said})
	}
	for i := range 20 {
		id := fmt.Sprint("a", i)
		v := propose(id)
		if v.Verdict != streams.Allow || v.Class == "" || v.Confidence == nil {
			t.Fatalf("%s: %+v", id, v)
		}
		status := "error"
		if i%2 == 0 {
			status = "ok"
		}
		if _, err := p.c.Publish(p.ctx, streams.KindOut, "", &streams.Outcome{Head: streams.Head{Session: "s"}, Action: id,
			Status: status, Digest: v.Digest}); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, time.Minute, "a calibration entry", func() bool {
		return len(p.entries(streams.TypeCalibration)) == 1
	})
	if _, err := heard.NextMsg(5 * time.Second); err != nil {
		t.Errorf("nobody heard of it: %v", err)
	}
	v := propose("b")
	if v.Verdict != streams.Hold || !has(v, streams.CodeOver) {
		t.Fatalf("%s %+v", v.Verdict, v.Reasons)
	}
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Errorf("another class: %s %+v", v.Verdict, v.Reasons)
	}
	out := must(t, p.data, "calibration", "ls", "--where", "over_confident")
	if !strings.Contains(out, v.Class) || !strings.Contains(out, "+0.40") {
		t.Errorf("lazaret calibration ls:\n%s", out)
	}
	if out, code := command(t, p.data, "calibration", "show", "demo", "agent", v.Class); code != 2 ||
		!strings.Contains(out, "confidence 0.90  success 0.50") {
		t.Errorf("lazaret calibration show: exit %d\n%s", code, out)
	}
}
