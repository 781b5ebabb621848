package arbiter

import (
	"log/slog"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestPromiseA9AReusedIDIsAnAlertAndInheritsNoVerdict(t *testing.T) {
	d := newDesk(t, NewFold(nil, slog.New(slog.DiscardHandler)), testPolicy(t))
	first := d.add(streams.StageIngest, streams.TypeAction, 0, action("a1", "read_file", beliefs.L1))
	d.assess("a", first, &streams.AssessmentEntry{})
	d.assess("b", first, &streams.AssessmentEntry{})
	if v := d.last(first); v.Verdict != streams.Allow {
		t.Fatalf("the first is %s: %+v", v.Verdict, v.Reasons)
	}
	other := action("a1-r9", "send_email", beliefs.L4)
	other.Reuses = "a1"
	second := d.add(streams.StageIngest, streams.TypeAction, 0, other)
	d.assess("a", second, &streams.AssessmentEntry{})
	d.assess("b", second, &streams.AssessmentEntry{})
	v := d.last(second)
	if v.Verdict == streams.Allow || v.ID != "a1-r9" || v.Reuses != "a1" || v.Again {
		t.Errorf("the second is %+v", v)
	}
	if v.Alert == nil || v.Alert.Rule != ruleReuse || v.Alert.Subject.ID != "a1-r9" {
		t.Errorf("its alert is %+v", v.Alert)
	}
	// The digest is computed over a1, the id that the client sent, and not over the new id.
	other.ID, other.Reuses = "a1", ""
	plain := d.add(streams.StageIngest, streams.TypeAction, 0, other)
	d.assess("a", plain, &streams.AssessmentEntry{})
	d.assess("b", plain, &streams.AssessmentEntry{})
	if w := d.last(plain); w.Digest != v.Digest {
		t.Errorf("the digest is %s, want %s", v.Digest, w.Digest)
	}

	d.add(streams.StageIngest, streams.TypeObservation, 0,
		&streams.ObservationEntry{EntryHead: streams.EntryHead{ID: "D-r7", Reuses: "D", Agent: "agent", Session: "s"}})
	last := d.ledger[len(d.ledger)-1]
	b, err := streams.Read[streams.AlertsEntry](last)
	if err != nil || last.Type != streams.TypeAlerts || len(b.Alerts) != 1 || b.Alerts[0].Rule != ruleReuse ||
		b.Alerts[0].Severity != "high" {
		t.Errorf("of an observation: %s entry %+v, %v", last.Type, b, err)
	}
}
