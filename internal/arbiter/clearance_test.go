package arbiter

import (
	"fmt"
	"slices"
	"testing"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// clearing is an arbiter that held the memory b1 because of a finding. There is no finding on b2.
type clearing struct {
	*desk
	recalls int
}

func newClearing(t *testing.T) *clearing {
	d := &clearing{desk: newDesk(t, newArbiter(t), testPolicy(t, "groups: [a, b]", "groups: [a]"))}
	seq := d.add(streams.StageIngest, streams.TypeMemory, 0, &streams.MemoryEntry{
		EntryHead: streams.EntryHead{ID: "m1", Agent: "agent", Session: "s"}, Origin: beliefs.OriginUser,
		Content: "card", Belief: d.item("b1").BeliefRef})
	d.assess("a", seq, &streams.AssessmentEntry{Verdict: streams.Hold,
		Alerts: []streams.Alert{d.alert("x1", "memory", "m1")}})
	if v := d.last(seq); v.Hold == nil {
		t.Fatalf("%+v", v)
	}
	return d
}

func (d *clearing) item(id string) streams.RecallItem {
	return streams.RecallItem{BeliefRef: streams.BeliefRef{ID: id, Found: true, Kind: beliefs.Content,
		Origin: beliefs.OriginUser, Agent: "agent", Observation: "m" + id[1:], Quality: beliefs.HumanAssertion}}
}

func (d *clearing) alert(id, kind, subject string) streams.Alert {
	return streams.Alert{ID: id, Rule: "card", Effect: "hold", Mode: "enforce", Severity: "high", Message: "has a card",
		Subject: streams.AlertSubject{Kind: kind, ID: subject}, Events: []string{"m1"}, Agent: "agent"}
}

// approve clears the findings that are reasons of the hold.
func (d *clearing) approve() {
	d.t.Helper()
	h := new(hold)
	if ok, err := d.st.Load(stage.Key(keyHold, "demo", d.last(1).Hold.ID), h); err != nil || !ok {
		d.t.Fatal(ok, err)
	}
	if err := clearApproved(d.st, &resolution{signer: "alice", seq: d.tail()}, h); err != nil {
		d.t.Fatal(err)
	}
}

// listed returns the findings on b1 that nobody has cleared.
func (d *clearing) listed() []Finding {
	d.t.Helper()
	req, err := streams.Marshal(FindingsRequest{Project: "demo", Agent: "agent", Belief: d.item("b1").BeliefRef})
	if err != nil {
		d.t.Fatal(err)
	}
	all, err := listFindings(d.st, req)
	if err != nil {
		d.t.Fatal(err)
	}
	return all.([]Finding)
}

// findings returns the keys of the findings on b1 that nobody has cleared.
func (d *clearing) findings() (keys []string) {
	d.t.Helper()
	for _, x := range d.listed() {
		if x.More {
			d.t.Errorf("not all is stored: %+v", x)
		}
		keys = append(keys, x.Key)
	}
	return keys
}

// finds adds a later finding on b1.
func (d *clearing) finds(id, message string) {
	d.t.Helper()
	al := d.alert(id, "belief", "b1")
	al.Message = message
	d.add(streams.SentinelStage("a"), streams.TypeAlerts, 1, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
		Alerts: []streams.Alert{al}})
}

// recall returns the verdict on a recall that finds b1 and b2.
func (d *clearing) recall() *streams.VerdictEntry {
	d.t.Helper()
	d.recalls++
	seq := d.add(streams.StageIngest, streams.TypeRecall, 0, &streams.RecallEntry{EntryHead: streams.EntryHead{
		ID: fmt.Sprint("r", d.recalls), Agent: "agent", Session: fmt.Sprint("s", d.recalls)}, Limit: 10,
		Admitted: []streams.RecallItem{d.item("b1"), d.item("b2")}})
	d.assess("a", seq, &streams.AssessmentEntry{})
	return d.last(seq)
}

// withholds checks whether a recall withholds b1. The verdict on the recall must be allow in any case.
func (d *clearing) withholds(what string, want bool) {
	d.t.Helper()
	v := d.recall()
	if v.Verdict != streams.Allow || v.Alert != nil || (len(v.Withheld) == 1) != want || len(v.Withheld) > 1 {
		d.t.Errorf("%s: %s, withheld %+v, reasons %+v", what, v.Verdict, v.Withheld, v.Reasons)
		return
	}
	if got := len(uniqueFindings(v.Reasons)); got != len(v.Reasons) {
		d.t.Errorf("%s: %d of %d reasons differ: %+v", what, got, len(v.Reasons), v.Reasons)
	}
	if want && (v.Withheld[0].ID != "b1" || v.Withheld[0].Reason != beliefs.ReasonFinding) {
		d.t.Errorf("%s: %+v", what, v.Withheld)
	}
	got, err := recalledIn(d.st, &proposal{Project: "demo", Agent: "agent", Session: fmt.Sprint("s", d.recalls)})
	if n := map[bool]int{true: 1, false: 2}[want]; err != nil || len(got) != n {
		d.t.Errorf("%s: the session recalled %+v, %v", what, got, err)
	}
}

// One finding can be stored under the belief and under the event that it comes from. Their texts say which is which.
func TestTheTextsOfFindingsOnABeliefAndOnItsEventDiffer(t *testing.T) {
	d := newClearing(t)
	d.finds("x2", "has a card")
	var texts []string
	for _, x := range d.listed() {
		texts = append(texts, x.Text)
	}
	slices.Sort(texts)
	want := []string{"card on belief b1: has a card", "card on event m1, which the belief comes from: has a card"}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

func TestARecallWithholdsOnlyABeliefWithAFindingThatNobodyCleared(t *testing.T) {
	t.Run("approved", func(t *testing.T) {
		d := newClearing(t)
		h := new(hold)
		if ok, err := d.st.Load(stage.Key(keyHold, "demo", d.last(1).Hold.ID), h); err != nil || !ok {
			t.Fatal(ok, err)
		}
		d.finds("x2", "has two cards") // not a reason of the hold
		if err := clearApproved(d.st, &resolution{signer: "alice", seq: d.tail()}, h); err != nil {
			t.Fatal(err)
		}
		d.withholds("the signer did not see the second finding", true)

		d = newClearing(t)
		if ok, err := d.st.Load(stage.Key(keyHold, "demo", d.last(1).Hold.ID), h); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := clearApproved(d.st, &resolution{signer: "alice", seq: d.tail()}, h); err != nil {
			t.Fatal(err)
		}
		d.withholds("it is approved", false)
		d.finds("x2", "has a card")
		d.withholds("the rule said the same again", false)
		al := d.alert("x4", "belief", "p0")
		al.Events = []string{"p0"}
		if err := keep(d.st, keyParents, "demo", "b1", false, maxParents, parents{"agent", "m1", []string{"p0"}}); err != nil {
			t.Fatal(err)
		}
		d.add(streams.SentinelStage("a"), streams.TypeAlerts, 1, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
			Alerts: []streams.Alert{al}})
		d.withholds("the rule said the same of a parent", true)
	})
	t.Run("another text of the same rule", func(t *testing.T) {
		d := newClearing(t)
		d.approve()
		d.finds("x3", "has two cards")
		d.withholds("the rule said something else", true)
		keys := d.findings()
		if len(keys) == 0 {
			t.Fatal("the withheld belief has no findings")
		}
		if err := addClearance(d.st, "demo", "b1", clearance{By: "alice", Entry: 1, Findings: keys}); err != nil {
			t.Fatal(err)
		}
		d.withholds("the person saw both texts", false)
		d.finds("x4", "has three cards")
		d.withholds("the rule said a third text", true)
	})
	t.Run("a stricter finding with the same text", func(t *testing.T) {
		d := newClearing(t)
		d.approve()
		al := d.alert("x2", "belief", "b1")
		al.Effect = streams.EffectQuarantine
		d.add(streams.SentinelStage("a"), streams.TypeAlerts, 1, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
			Alerts: []streams.Alert{al}})
		d.withholds("the rule now asks for a quarantine", true)
	})
	// A person clears as many findings as are stored for a subject. A further finding is not stored. It must make
	// recalls withhold the belief nevertheless.
	t.Run("more findings than are kept", func(t *testing.T) {
		d := newClearing(t)
		h := new(hold)
		if ok, err := d.st.Load(stage.Key(keyHold, "demo", d.last(1).Hold.ID), h); err != nil || !ok {
			t.Fatal(ok, err)
		}
		for i := range maxFindings - 1 {
			al := d.alert(fmt.Sprint("y", i), "belief", "b1")
			al.Rule = fmt.Sprint("card-", i)
			d.add(streams.SentinelStage("a"), streams.TypeAlerts, 1, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
				Alerts: []streams.Alert{al}})
			h.Entry.Reasons = append(h.Entry.Reasons, streams.Reason{Verdict: streams.Hold, Group: "a", Rule: al.Rule,
				Alert: al.ID})
		}
		if err := clearApproved(d.st, &resolution{signer: "alice", seq: d.tail()}, h); err != nil {
			t.Fatal(err)
		}
		d.withholds("all are cleared", false)
		al := d.alert("z", "belief", "b1")
		al.Rule = "zebra" // sorts after the others
		d.add(streams.SentinelStage("a"), streams.TypeAlerts, 1, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
			Alerts: []streams.Alert{al}})
		d.withholds("a further finding came", true)
	})
}
