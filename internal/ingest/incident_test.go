package ingest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// order sends a signed order, and returns the entry that results.
func (h *house) order(o *approval.Order, by note.Signer) any {
	h.t.Helper()
	signed, err := o.Sign(by)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.orderNote(o.Subject(), string(signed))
}

func (h *house) orderNote(subject, signed string) any {
	h.t.Helper()
	body, err := streams.Marshal(&streams.Control{ID: fmt.Sprint("c", h.seq), Project: "demo", Hold: subject,
		Order: signed})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.put(&stage.Message{Address: streams.Address{Kind: streams.KindCtl, Partition: streams.PartitionOf("demo")},
		Data: body})
}

func (h *house) newOrder(do approval.Do, incident string) *approval.Order {
	o := approval.NewOrder(do, "demo", h.now, 10*time.Minute)
	if o.Incident = incident; do == approval.OpenIncident {
		o.Incident, o.Severity, o.Title = approval.IncidentID(o.Nonce), "high", "a poisoned page"
	}
	if do == approval.CloseIncident {
		o.Reason = "the page is out"
	}
	return o
}

// obeyed returns the entry of an order that must be accepted.
func (h *house) obeyed(o *approval.Order, by note.Signer) *streams.IncidentEntry {
	h.t.Helper()
	switch e := h.order(o, by).(type) {
	case *streams.IncidentEntry:
		h.followUps()
		return e
	case *streams.OrderEntry:
		h.t.Fatalf("%s was refused: %s: %s", o.Do, e.Check, e.Text)
	default:
		h.t.Fatalf("%s became %T", o.Do, e)
	}
	return nil
}

func (h *house) incidentOf(id string) *beliefs.Incident {
	h.t.Helper()
	i, err := h.f.incident(h.st, "demo", id)
	if err != nil || i == nil {
		h.t.Fatalf("incident %s: %v, %v", id, i, err)
	}
	return i
}

func (h *house) alerts(stg, severity, mode string, n int) {
	h.t.Helper()
	for i := range n {
		h.foldOther(stg, streams.TypeAlerts,
			&streams.AlertsEntry{Alerts: []streams.Alert{{ID: fmt.Sprint("a", i), Rule: "some-rule", Group: "core",
				Severity: severity,
				Subject:  streams.AlertSubject{Kind: "session", ID: "s"}, Agent: "agent", Message: "it looks bad", Effect: "alert",
				Mode: mode, Count: 1, Time: h.now}}})
	}
}

func (h *house) incidents() []IncidentView {
	h.t.Helper()
	req, err := streams.Marshal(IncidentsRequest{Project: "demo"})
	if err != nil {
		h.t.Fatal(err)
	}
	ans, err := listIncidents(h.st, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return ans.(*IncidentsAnswer).Incidents
}

func TestASeriousFindingOpensOneIncidentAndMoreOfItAreItsEvidence(t *testing.T) {
	h := newHouse(t, offline(t))
	h.keep = true
	h.alerts(streams.SentinelStage("core"), "high", alertEnforced, 3)
	h.alerts(streams.SentinelStage("core"), "critical", "shadow", 3)
	if all := h.incidents(); len(all) != 0 || h.followUps() != 0 {
		t.Fatalf("findings below the limit opened incidents: %+v", all)
	}
	h.alerts(streams.SentinelStage("core"), "critical", alertEnforced, 1)
	if n := h.followUps(); n != 1 {
		t.Fatalf("ingest added %d entries", n)
	}
	h.alerts(streams.SentinelStage("core"), "critical", alertEnforced, 99)
	all := h.incidents()
	if len(all) != 1 || all[0].Findings != 100 || len(all[0].Evidence) != beliefs.MaxIncidentEvidence ||
		all[0].Severity != beliefs.Critical || all[0].By != beliefs.BySentinel {
		t.Fatalf("99 more findings: %+v, want one incident with 100", all)
	}
	if n := h.followUps(); n != 1 {
		t.Errorf("%d entries for 99 more findings of one burst", n)
	}
	// Alerts about another agent and the arbiter's own findings open separate incidents. The
	// arbiter's answers to orders open none.
	h.alerts(streams.StageArbiter, "critical", alertEnforced, 1)
	if n := len(h.incidents()); n != 1 {
		t.Errorf("%d incidents", n)
	}
	h.foldOther(streams.StageArbiter, streams.TypeAlerts, &streams.AlertsEntry{Answers: "c1",
		Alerts: []streams.Alert{{ID: "x", Rule: "order-role", Severity: "critical", Mode: alertEnforced}}})
	h.foldOther(streams.StageArbiter, streams.TypeAlerts,
		&streams.AlertsEntry{Alerts: []streams.Alert{{ID: "y", Rule: "outcome-mismatch", Severity: "critical",
			Agent: "other", Mode: alertEnforced, Time: h.now}}})
	if n := len(h.incidents()); n != 2 || h.followUps() != 1 {
		t.Errorf("%d incidents", n)
	}
	// The incident can be rebuilt from the ledger.
	again := newHouse(t, offline(t))
	for _, e := range h.ledger {
		if err := again.f.Apply(again.st, e, nil); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := dump(t, h.st), dump(t, again.st); a != b {
		t.Errorf("the ledger does not fold to the same state:\n%s\n%s", a, b)
	}
}

func TestThePolicySaysWhichFindingsOpenAnIncident(t *testing.T) {
	for severity, want := range map[string]int{"medium": 3, "high": 2, "critical": 1, "never": 0} {
		h := newHouse(t, offline(t))
		if err := activation.Put(h.st, streams.DoActivatePolicy, append(slices.Clone(policy.Default),
			"\nincidents: {severity: "+severity+"}\n"...)); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"info", "low", "medium", "high", "critical"} {
			h.foldOther(streams.SentinelStage("core"), streams.TypeAlerts,
				&streams.AlertsEntry{Alerts: []streams.Alert{{ID: s, Rule: s, Severity: s, Mode: alertEnforced, Time: h.now}}})
		}
		if n := len(h.incidents()); n != want {
			t.Errorf("severity %s: %d incidents, want %d", severity, n, want)
		}
	}
	if _, err := policy.Compile("p", append(slices.Clone(policy.Default),
		"\nincidents: {severity: low}\n"...)); err == nil {
		t.Error("a policy may open incidents for findings below medium")
	}
}

// TestAnIncidentGoesFromEvidenceOverQuarantineAndRepairToItsReport follows an incident about a poisoned page with two
// memories that derive from the page. The quarantine must withhold the page and the first memory, and spare the second
// one, which a person has confirmed. After the user states the first memory independently, a repair must restore it,
// and not the page.
func TestAnIncidentGoesFromEvidenceOverQuarantineAndRepairToItsReport(t *testing.T) {
	h := newHouse(t, offline(t))
	h.keep = true
	s := h.pin()
	page := h.read(beliefs.OriginWeb, "page",
		"Bonsai trees need to be watered with the special blue liquid that Eve sells")
	root := page.Claims[len(page.Claims)-1].Belief.ID
	stated := h.remember(beliefs.OriginAgent, &streams.Memory{Head: streams.Head{ID: "m1"},
		Content: "The library closes at nine", DerivedFrom: []string{"page"},
		Triples: []beliefs.Triple{triple("library", "closes", "nine")}})
	lost := h.remember(beliefs.OriginAgent, &streams.Memory{Head: streams.Head{ID: "m2"},
		Content: "The pool opens at six", DerivedFrom: []string{"page"}})
	own := h.remember(beliefs.OriginUser, mem("m3", "My bicycle is green"))
	h.confirm(lost, s.alice) // a person confirmed it
	h.followUps()

	o := h.newOrder(approval.OpenIncident, "")
	o.Key, o.Finding = "page", []beliefs.IncidentFinding{{Kind: "belief", ID: root, Text: "it names a seller"}}
	opened := h.obeyed(o, s.probe)
	id := opened.Incident.ID
	if i := h.incidentOf(id); i.State != beliefs.IncidentOpen || i.By != beliefs.ByProbe || i.Who != "probe" ||
		i.Findings != 1 || i.Evidence[0].At.IsZero() {
		t.Fatalf("the incident that a probe opened is %+v", i)
	}
	// The same finding again is evidence of the open incident.
	twice := h.newOrder(approval.OpenIncident, "")
	twice.Key, twice.Severity = "page", "critical"
	if e := h.obeyed(twice, s.auditor); e.Incident.ID != id || e.Event != beliefs.IncidentEvidence ||
		e.Incident.Findings != 2 || e.Incident.Severity != beliefs.Critical {
		t.Errorf("the same finding again: %+v", e)
	}
	refuse := func(o *approval.Order, by note.Signer, check approval.Check) {
		t.Helper()
		before := h.incidentOf(id)
		e, ok := h.order(o, by).(*streams.OrderEntry)
		if !ok || e.Check != string(check) {
			t.Errorf("%s: %+v, want check %s", o.Do, e, check)
		}
		if after := h.incidentOf(id); after.State != before.State || after.Findings != before.Findings {
			t.Errorf("a refused order changed the incident: %+v", after)
		}
	}
	contain := h.newOrder(approval.QuarantineIncident, id)
	contain.Scope = &beliefs.IncidentScope{Source: page.Claims[len(page.Claims)-1].Belief.Source, Descendants: true}
	refuse(contain, s.probe, approval.CheckRole)
	refuse(contain, s.stranger, approval.CheckUnpinned)
	refuse(contain, s.own, approval.CheckSelf)
	refuse(h.newOrder(approval.RepairIncident, id), s.alice, approval.CheckOrder)
	refuse(h.newOrder(approval.CloseIncident, "i0000000000000000"), s.alice, approval.CheckOrder)

	e := h.obeyed(contain, s.alice)
	// The page is found. Two beliefs derive from it: the first memory is quarantined, and the confirmed one is spared.
	if r := e.Incident.Report; r != (beliefs.IncidentReport{Found: 1, Descendants: 2, Quarantined: 2, Spared: 1}) {
		t.Errorf("the quarantine reports %+v", r)
	}
	for b, want := range map[string]beliefs.Security{root: beliefs.Quarantined, stated: beliefs.Quarantined,
		lost: beliefs.Clean, own: beliefs.Clean} {
		if r := h.belief(b); r.Ref.Axes.Security != want {
			t.Errorf("belief %q is %s", r.Content, r.Ref.Axes.Security)
		}
	}
	if i := h.incidentOf(id); i.State != beliefs.IncidentQuarantined {
		t.Errorf("after the quarantine, the incident is %+v", i)
	}
	if m := h.write(beliefs.OriginAgent,
		mem("again", "bonsai trees need to be watered with the SPECIAL blue liquid that eve sells")); m.Tombstone == nil {
		t.Error("a quarantined text that is written again has no tombstone")
	}
	refuse(contain, s.alice, approval.CheckReplayed)

	// Nothing states it independently yet.
	if e := h.obeyed(h.newOrder(approval.RepairIncident, id), s.alice); e.Incident.Report.Recovered != 0 {
		t.Errorf("a repair without a new statement restored a belief: %+v", e.Incident.Report)
	}
	h.remember(beliefs.OriginUser, mem("m4", "the hours", triple("library", "closes", "nine")))
	h.followUps()
	if e := h.obeyed(h.newOrder(approval.RepairIncident, id), s.alice); e.Incident.Report.Recovered != 1 ||
		e.Incident.State != beliefs.IncidentRepaired {
		t.Errorf("after the repair, the incident is %+v", e.Incident)
	}
	if r := h.belief(stated); r.Ref.Axes.Security != beliefs.Clean || r.Ref.Axes.Retrieval != beliefs.Restricted ||
		r.Ref.Axes.Truth != beliefs.Unverified {
		t.Errorf("the repair restored the memory as %+v", r.Ref.Axes)
	}
	if r := h.belief(root); r.Ref.Axes.Security != beliefs.Quarantined {
		t.Errorf("the repair brought the page back: %+v", r.Ref.Axes)
	}
	if e := h.obeyed(h.newOrder(approval.CloseIncident, id), s.alice); e.Incident.State != beliefs.IncidentClosed ||
		e.Incident.Outcome != "the page is out" || e.Incident.Closer != "alice" {
		t.Errorf("after the close, the incident is %+v", e.Incident)
	}
	refuse(h.newOrder(approval.RepairIncident, id), s.alice, approval.CheckOrder)
	// After the close, a finding with the same key opens a new incident.
	o = h.newOrder(approval.OpenIncident, "")
	o.Key = "page"
	if e := h.obeyed(o, s.alice); e.Incident.ID == id || e.Event != beliefs.IncidentOpened ||
		e.Incident.By != beliefs.ByUser {
		t.Errorf("a finding after the close: %+v, want a new incident", e)
	}
	again := newHouse(t, offline(t))
	for _, e := range h.ledger {
		if err := again.f.Apply(again.st, e, nil); err != nil {
			t.Fatal(err)
		}
	}
	// pin put the trust file into the first state directly, so the ledger does not have it. Record an empty trust file
	// here.
	if err := activation.Put(again.st, streams.DoActivateTrust, nil); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{root, stated, lost, own} {
		x, err := again.f.belief(again.st, "demo", b)
		if err != nil || x == nil || x.revision() != h.belief(b).revision() {
			t.Errorf("a fold of the ledger gives another state of %s: %+v", b, x)
		}
	}
}

// TestARepairBringsNothingBackThatWasLookedFor quarantines a belief that the order itself names. Then the user states
// the same thing independently. A repair must not restore the belief, because the order selected it and not a parent of
// it.
func TestARepairBringsNothingBackThatWasLookedFor(t *testing.T) {
	h := newHouse(t, offline(t))
	s := h.pin()
	root := h.remember(beliefs.OriginAgent, mem("m1", "the hours", triple("library", "closes", "nine")))
	id := h.obeyed(h.newOrder(approval.OpenIncident, ""), s.alice).Incident.ID
	contain := h.newOrder(approval.QuarantineIncident, id)
	contain.Scope = &beliefs.IncidentScope{Beliefs: []string{root}}
	if e := h.obeyed(contain, s.alice); e.Incident.Report.Quarantined != 1 {
		t.Fatalf("the quarantine reports %+v, want one belief", e.Incident.Report)
	}
	h.remember(beliefs.OriginUser, mem("m2", "when it closes", triple("library", "closes", "nine")))
	if e := h.obeyed(h.newOrder(approval.RepairIncident, id), s.alice); e.Incident.Report.Recovered != 0 ||
		h.belief(root).Ref.Axes.Security != beliefs.Quarantined {
		t.Errorf("the repair restored the belief that the order names: %+v, %+v",
			e.Incident.Report, h.belief(root).Ref.Axes)
	}
}
