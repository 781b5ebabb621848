package arbiter

import (
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// These tests check that the fold obeys a policy's levels, deadlines, rules about silent groups, and limits of holds.

func TestDeadlinesAreThoseOfTheLevelAndSilenceIsWhatThePolicySays(t *testing.T) {
	pol := testPolicy(t, "on_silent: hold", "on_silent: deny", "hold_expiry: 24h", "hold_expiry: 2h", "  default: 2s",
		"  default: 2s\n  L1: 700ms\n  L3: 3s")
	d := newDesk(t, newArbiter(t), pol)
	for _, c := range []struct {
		id, tool string
		level    beliefs.Level
		wait     time.Duration
	}{{"a1", "read_file", beliefs.L1, 700 * time.Millisecond}, {"a2", "write_file", beliefs.L3, 3 * time.Second}} {
		seq := d.add(streams.StageIngest, streams.TypeAction, 0, action(c.id, c.tool, c.level))
		d.assess("a", seq, &streams.AssessmentEntry{})
		d.wait(c.wait - 100*time.Millisecond)
		if n := len(d.verdicts(seq)); n != 0 {
			t.Errorf("%s: a verdict before its deadline", c.tool)
		}
		d.wait(200 * time.Millisecond)
		if v := d.last(seq); v.Verdict != streams.Deny || len(v.Degraded) != 1 || v.Degraded[0] != "b" || v.Hold != nil {
			t.Errorf("%s: %s %v", c.tool, v.Verdict, v.Degraded)
		}
	}
	seq := d.add(streams.StageIngest, streams.TypeAction, 0, action("a3", "send_email", beliefs.L4))
	for _, g := range []string{"a", "b"} {
		d.assess(g, seq, &streams.AssessmentEntry{})
	}
	if v := d.last(seq); v.Verdict != streams.Hold || v.Hold.Expires.Sub(v.Time) != 2*time.Hour {
		t.Errorf("%+v", v.Hold)
	}
}

// TestLearnModeHoldsNothing: in learn mode each answer is allow. It says that it is not enforced, and which verdict
// enforce mode would give. This also holds for a proposal with a reused id.
func TestLearnModeHoldsNothing(t *testing.T) {
	pol := testPolicy(t, "mode: enforce", "mode: learn")
	d := newDesk(t, newArbiter(t), pol)
	said := func(v *streams.VerdictEntry, would streams.Verdict) {
		t.Helper()
		if v.Verdict != streams.Allow || !v.Learn || v.Would == nil || *v.Would != would || v.Hold != nil {
			t.Errorf("%+v, want would %s", v, would)
		}
	}
	for _, c := range []struct {
		id, tool string
		level    beliefs.Level
		finding  streams.Verdict
		would    streams.Verdict
	}{
		{"a1", "read_file", beliefs.L1, streams.Allow, streams.Allow},
		{"a2", "read_file", beliefs.L1, streams.Deny, streams.Deny},
		{"a3", "send_email", beliefs.L4, streams.Allow, streams.Hold},
		{"a4", "read_file", beliefs.L5, streams.Allow, streams.Deny},
	} {
		seq := d.add(streams.StageIngest, streams.TypeAction, 0, action(c.id, c.tool, c.level))
		d.assess("a", seq, &streams.AssessmentEntry{Verdict: c.finding})
		d.assess("b", seq, &streams.AssessmentEntry{})
		said(d.last(seq), c.would)
		// A late finding does not change an answer that was given.
		d.assess("b", seq, &streams.AssessmentEntry{Verdict: streams.Deny})
		if n := len(d.verdicts(seq)); n != 1 {
			t.Errorf("%s: %d verdicts", c.id, n)
		}
	}
	seq := d.add(streams.StageIngest, streams.TypeAction, 0, action("a5", "read_file", beliefs.L1))
	d.wait(time.Minute) // both groups are silent
	said(d.last(seq), streams.Hold)
	d.add(streams.StageIngest, streams.TypeRepeat, 0,
		&streams.RepeatEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "agent"}, Kind: streams.KindAct, First: 1,
			Differs: true})
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(d.ledger[len(d.ledger)-1].Body, v); err != nil {
		t.Fatal(err)
	}
	said(v, streams.Hold)
}
