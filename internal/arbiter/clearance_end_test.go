package arbiter

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// pinned puts a trust file in force with the approver alice and the probe canary.
func (d *clearing) pinned() map[string]note.Signer {
	d.t.Helper()
	trust, out := new(keys.Trust), make(map[string]note.Signer)
	for name, role := range map[string]keys.Role{"alice": keys.RoleApprover, "canary": keys.RoleProbe} {
		private, public, err := keys.Generate(name)
		if err != nil {
			d.t.Fatal(err)
		}
		if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{role}}); err != nil {
			d.t.Fatal(err)
		}
		if out[name], err = note.NewSigner(private); err != nil {
			d.t.Fatal(err)
		}
	}
	text, err := trust.Marshal()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := activation.Put(d.st, streams.DoActivateTrust, text); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// statement returns a confirmation of b1 that clears the findings.
func (d *clearing) statement(findings []string) *approval.BeliefStatement {
	return &approval.BeliefStatement{Version: approval.BeliefVersion, Project: "demo", Belief: "b1",
		Content: streams.Digest([]byte("card")), Revision: "1", Decision: approval.Confirm, Findings: findings,
		Expires: d.now.Add(time.Hour).Truncate(time.Second), Nonce: approval.NewNonce()}
}

// confirms adds ingest's entry of a signed confirmation of b1. check is the check that it failed, or "". recorded are
// the findings that ingest wrote into the entry as cleared.
func (d *clearing) confirms(s *approval.BeliefStatement, by note.Signer, check string, recorded []string) {
	d.t.Helper()
	msg, err := s.Sign(by)
	if err != nil {
		d.t.Fatal(err)
	}
	d.add(streams.StageIngest, streams.TypeConfirmation, 0, &streams.ConfirmationEntry{Belief: "b1", Check: check,
		Decision: string(approval.Confirm), Note: string(msg), Findings: recorded})
}

func TestAConfirmationClearsOnlyWhatAPersonSigned(t *testing.T) {
	for _, c := range []struct {
		name     string
		by       string
		check    string
		change   func(*approval.BeliefStatement)
		withheld bool
	}{
		{name: "signed by a person", by: "alice"},
		{name: "signed by a probe", by: "canary", withheld: true},
		{name: "refused by ingest", by: "alice", check: string(approval.CheckRevision), withheld: true},
		{name: "of another belief", by: "alice", withheld: true,
			change: func(s *approval.BeliefStatement) { s.Belief = "b2" }},
		{name: "of another project", by: "alice", withheld: true,
			change: func(s *approval.BeliefStatement) { s.Project = "other" }},
		{name: "without findings", by: "alice", withheld: true,
			change: func(s *approval.BeliefStatement) { s.Findings = nil }},
	} {
		d := newClearing(t)
		signers := d.pinned()
		keys := slices.Sorted(slices.Values(d.findings()))
		d.withholds(c.name+": before", true)
		s := d.statement(keys)
		if c.change != nil {
			c.change(s)
		}
		d.confirms(s, signers[c.by], c.check, keys)
		d.withholds(c.name, c.withheld)
	}
}

func TestAnApprovalClearsOnlyTheAlertsOfTheHold(t *testing.T) {
	d := newClearing(t)
	h := new(hold)
	if ok, err := d.st.Load(stage.Key(keyHold, "demo", d.last(1).Hold.ID), h); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i := range h.Entry.Reasons {
		h.Entry.Reasons[i].Alert += "-other"
	}
	if err := clearApproved(d.st, &resolution{signer: "alice", seq: d.tail()}, h); err != nil {
		t.Fatal(err)
	}
	d.withholds("the hold shows another alert of the rule", true)
}

// A person has cleared the findings on b1, so recalls serve it. After a decision against b1, a rollback of b1 or an
// incident's quarantine of b1, recalls must withhold it again. Other changes must not end the clearance.
func TestDecisionsRollbacksAndQuarantinesEndClearances(t *testing.T) {
	decision := func(dec approval.Decision) func(*clearing) {
		return func(d *clearing) {
			d.add(streams.StageIngest, streams.TypeConfirmation, 0, &streams.ConfirmationEntry{Belief: "b1",
				Decision: string(dec)})
		}
	}
	revision := func(because, belief string, run *streams.Rollback, m beliefs.Move) func(*clearing) {
		return func(d *clearing) {
			d.add(streams.StageIngest, streams.TypeRevision, 0, &streams.RevisionsEntry{Because: because, Rollback: run,
				Revisions: []beliefs.Revision{{Belief: belief, By: beliefs.ByUser, Who: "op", Why: because,
					Moves: []beliefs.Move{m}}}})
		}
	}
	run := &streams.Rollback{Point: "p", Last: true}
	truth := beliefs.Move{Axis: beliefs.AxisTruth, From: "supported", To: "unverified"}
	quarantine := beliefs.Move{Axis: beliefs.AxisSecurity, From: "clean", To: "quarantined"}
	stale := beliefs.Move{Axis: beliefs.AxisFreshness, From: "fresh", To: "stale"}
	for _, c := range []struct {
		name     string
		do       func(*clearing)
		withheld bool
	}{
		{"contradict", decision(approval.Contradict), true},
		{"quarantine", decision(approval.Quarantine), true},
		{"reject", decision(approval.RejectBelief), true},
		{"malicious", decision(approval.Malicious), true},
		{"restrict", decision(approval.Restrict), false},
		{"rollback", revision("restore", "b1", run, truth), true},
		{"rollback of another belief", revision("restore", "b2", run, truth), false},
		{"incident", revision("incident", "b1", nil, quarantine), true},
		{"incident flags a dependant", revision("incident", "b1", nil, stale), false},
		{"time", revision("time", "b1", nil, stale), false},
	} {
		d := newClearing(t)
		signers := d.pinned()
		keys := slices.Sorted(slices.Values(d.findings()))
		d.confirms(d.statement(keys), signers["alice"], "", keys)
		d.withholds(c.name+": before", false)
		c.do(d)
		if all, err := clearances(d.st, "demo", "b1"); err != nil || (len(all) == 0) != c.withheld {
			t.Errorf("%s: clearances %+v, %v", c.name, all, err)
		}
		d.withholds(c.name, c.withheld)
	}
}
