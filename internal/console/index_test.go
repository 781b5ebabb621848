package console

import (
	"testing"
	"time"

	"lazaret/internal/arbiter"
	"lazaret/streams"
)

// A third-party sentinel group may write anything on its own subject. The index must not take an entry of a group for
// one of the arbiter, nor for one of another project.
func TestAGroupCannotSpeakForTheArbiterNorOfAnotherProject(t *testing.T) {
	x := newIndex()
	take := func(stage string, typ streams.Type, project string, src uint64, body any) {
		t.Helper()
		b, err := streams.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		x.take(&streams.Entry{Seq: 10, Stage: stage, Type: typ, Project: project, Src: src, Body: b, Time: time.Now()})
	}
	open := &holdRow{Hold: arbiter.Hold{ID: "h1", Project: "a", State: streams.HoldOpen,
		Verdict: streams.VerdictEntry{Proposal: 2}}}
	x.holds[[2]string{"a", "h1"}], x.held[2] = open, open
	x.events[2] = event{project: "a", session: "private", tool: "pay"}
	const group = "sentinel-theirs"
	if _, ok := streams.SentinelGroup(group); !ok {
		t.Fatalf("%s is no group", group)
	}
	take(group, streams.TypeHoldState, "a", 2, &streams.HoldStateEntry{Hold: "h1", Proposal: 2,
		State: streams.HoldRejected})
	take(group, streams.TypeVerdict, "a", 2, &streams.VerdictEntry{Proposal: 2, Verdict: streams.Deny})
	take(group, streams.TypeVerdict, "a", 2, &streams.VerdictEntry{Proposal: 3, Hold: &streams.HoldRef{ID: "h2"},
		Verdict: streams.Hold})
	if len(x.held) != 1 || open.State != streams.HoldOpen || x.verdicts != [3]uint64{} {
		t.Errorf("a group closed a hold, or opened one: %+v, %v", open.Hold, x.verdicts)
	}
	alert := streams.Alert{Rule: "r", Project: "b"}
	take(group, streams.TypeAlerts, "a", 2, &streams.AlertsEntry{Alerts: []streams.Alert{alert}})
	take(group, streams.TypeAlerts, "b", 2, &streams.AlertsEntry{Alerts: []streams.Alert{alert}})
	if len(x.alerts) != 2 || x.alerts[0].Project != "a" || x.alerts[0].Tool != "pay" {
		t.Errorf("an alert of project a is shown in another: %+v", x.alerts)
	}
	if a := x.alerts[1]; a.Tool != "" || a.Session != "" || x.sessions[[2]string{"b", "private"}] != nil {
		t.Errorf("an alert of project b tells of an event of a: %+v", a)
	}
	// The arbiter's entry is accepted.
	take(streams.StageArbiter, streams.TypeHoldState, "a", 2, &streams.HoldStateEntry{Hold: "h1", Proposal: 2,
		State: streams.HoldRejected})
	if len(x.held) != 0 || open.State != streams.HoldRejected {
		t.Errorf("%+v", open.Hold)
	}
}
