package notify

import (
	"testing"
	"time"

	"lazaret/streams"
)

func TestASilenceCoversTheAlertsThatAreRaisedWhileItIsInForce(t *testing.T) {
	var s silences
	now := time.Now()
	add := func(seq uint64, stage, id string, x streams.Silence) {
		t.Helper()
		b, err := streams.Marshal(&streams.SilenceEntry{EntryHead: streams.EntryHead{ID: id}, Silence: x})
		if err != nil {
			t.Fatal(err)
		}
		s.add(&streams.Entry{Seq: seq, Stage: stage, Type: streams.TypeSilence, Project: "p", Body: b})
	}
	add(10, streams.StageIngest, "s1", streams.Silence{Rule: "r", Expires: now.Add(time.Hour)})
	add(11, streams.StageIngest, "s2", streams.Silence{Rule: "q", Agent: "bot", Expires: now.Add(time.Hour)})
	add(12, streams.SentinelStage("theirs"), "s3", streams.Silence{Rule: "x", Expires: now.Add(time.Hour)})
	add(20, streams.StageIngest, "s4", streams.Silence{Ends: "s1"})
	for _, x := range []struct {
		name, project, rule, agent string
		seq                        uint64
		at                         time.Time
		want                       bool
	}{
		{"while it is in force", "p", "r", "a", 15, now, true},
		{"before it", "p", "r", "a", 9, now, false},
		{"after somebody ended it", "p", "r", "a", 21, now, false},
		{"after it expired", "p", "r", "a", 15, now.Add(2 * time.Hour), false},
		{"of another project", "o", "r", "a", 15, now, false},
		{"of another rule", "p", "s", "a", 15, now, false},
		{"of its agent", "p", "q", "bot", 15, now, true},
		{"of another agent", "p", "q", "a", 15, now, false},
		{"that a group claims", "p", "x", "a", 15, now, false},
	} {
		if got := s.covers(x.project, x.rule, x.agent, x.seq, x.at); got != x.want {
			t.Errorf("an alert %s: %v", x.name, got)
		}
	}
}
