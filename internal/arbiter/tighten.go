package arbiter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// lateRule is the rule of the arbiter's alert about a late finding.
const lateRule = "late-finding"

// tighten applies a late assessment: it can make a verdict stricter or add effects on recalled texts. It never makes a
// verdict milder, and returns no output if nothing changes.
//
// An allow becomes a hold or a deny, and a hold becomes a deny. If an open hold gets a new reason, it gets a new
// revision, so that nobody approves reasons that they have not seen. An action that was carried out, or a recall that
// was served, cannot be undone. An alert reports it.
func (f *Fold) tighten(st *stage.State, p *proposal, pol *policy.Policy, more, texts bool,
	now time.Time) (*stage.Output, error) {
	if more {
		// The assessment may add dependencies, to which earlier findings apply.
		rests, err := f.earlierFindings(st, p)
		if err != nil {
			return nil, err
		}
		p.Reasons = joinReasons(len(p.Reasons)+maxBearing, p.Reasons, rests)
	}
	verdict, reasons := p.judge()
	rev, was := revision(reasons), p.Revision
	p.Revision = rev
	if err := st.Put(proposalKey(p.Seq), p); err != nil {
		return nil, err
	}
	if rev == was && !texts || pol != nil && pol.Learn() {
		return nil, nil
	}
	v := new(streams.VerdictEntry)
	key := stage.Key(keyVerdict, p.Project, p.Agent, p.ID)
	ok, err := st.Load(key, v)
	if err != nil || !ok || v.Learn || v.Proposal != p.Seq {
		return nil, err
	}
	open := false
	if v.Hold != nil {
		h := new(hold)
		if open, err = st.Load(stage.Key(keyHold, p.Project, v.Hold.ID), h); err != nil {
			return nil, err
		}
		open = open && h.State == streams.HoldOpen
	}
	if verdict <= *p.Decided && !texts && (!open || rev == was) {
		return nil, nil
	}
	allowed := *p.Decided == streams.Allow
	if rev == was {
		verdict = *p.Decided // only text effects are new: the verdict stays, also if a person released the action
	}
	// Keep the reasons that a person or a timer has added to the verdict.
	_, reasons = judge(v.Reasons, reasons)
	v.Verdict, v.Reasons, v.Time, v.Late, v.Alert, v.Texts = p.Decided.Join(
		verdict), reasons, now, true, nil, textEffects(p.Texts)
	v.Denied = ""
	if v.Verdict > *p.Decided {
		v.Resolved = nil
	}
	var live []stage.Live
	switch {
	case allowed && v.Verdict > streams.Allow && (p.Used || p.Type == streams.TypeRecall):
		v.Alert = lateAlert(p, v, now)
		live = append(live, alertLive(v.Alert)...)
	case open && v.Verdict == streams.Deny:
		if err := f.closeHold(st, p.Project, v.Hold.ID, streams.HoldDenied, now); err != nil {
			return nil, err
		}
		live = append(live, holdLive(p.Project, v, streams.HoldDenied)...)
		v.Denied, v.Hold = v.Hold.ID, nil
	case open:
		v.Hold.Revision = revision(reasons)
		if err := f.reviseHold(st, p.Project, v); err != nil {
			return nil, err
		}
		live = append(live, holdLive(p.Project, v, streams.HoldOpen)...)
	case v.Verdict == streams.Hold && v.Hold == nil && p.Type != streams.TypeRecall && !p.Withdrawn:
		expiry := policy.DefaultHoldExpiry
		if pol != nil {
			expiry = pol.HoldExpiry
		}
		v.Hold = &streams.HoldRef{ID: holdID(p), Revision: revision(reasons), Expires: now.Add(expiry)}
		if err := f.openHold(st, p, v, now); err != nil {
			return nil, err
		}
		if err := noteHold(st, p, pol, now); err != nil {
			return nil, err
		}
		live = append(live, holdLive(p.Project, v, streams.HoldOpen)...)
	}
	if v.Belief != nil {
		admitBelief(v.Belief, v.Verdict)
	}
	decided := v.Verdict
	p.Decided = &decided
	if err := st.Put(proposalKey(p.Seq), p); err != nil {
		return nil, err
	}
	if err := st.Put(key, v); err != nil {
		return nil, err
	}
	return f.output(p, v, append(verdictLive(p.Project, v), live...))
}

// reviseHold stores a new revision and verdict entry in an open hold.
func (f *Fold) reviseHold(st *stage.State, project string, v *streams.VerdictEntry) error {
	h := new(hold)
	key := stage.Key(keyHold, project, v.Hold.ID)
	if ok, err := st.Load(key, h); err != nil || !ok {
		return err
	}
	h.Revision, h.Entry = v.Hold.Revision, *v
	return st.Put(key, h)
}

// lateAlert returns an alert about a finding that came after the action was carried out or the recall was served.
func lateAlert(p *proposal, v *streams.VerdictEntry, now time.Time) *streams.Alert {
	sum := sha256.Sum256(fmt.Appendf(nil, "late\x00%s\x00%d\x00%s", p.Project, p.Seq, p.Revision))
	done := "was carried out"
	if p.Type == streams.TypeRecall {
		done = "had entered the context"
	}
	a := newAlert(lateRule, "critical", p.Project, p.Seq, streams.AlertSubject{Kind: string(p.Type), ID: p.ID}, now)
	a.ID, a.RuleDigest, a.Agent, a.Session = "a"+hex.EncodeToString(sum[:8]), v.Policy, p.Agent, p.Session
	a.Message = fmt.Sprintf("%s %s %s before a finding came that asks for %s: %s", p.Type, p.ID, done, v.Verdict,
		v.Reasons[0].Text)
	a.Events = []string{p.ID}
	return &a
}

// used records that an action was carried out, when its outcome is reported.
func (f *Fold) used(st *stage.State, e *streams.Entry) error {
	var o struct {
		Agent  string `json:"agent"`
		Action string `json:"action"`
		Status string `json:"status"`
	}
	if err := streams.Unmarshal(e.Body, &o); err != nil {
		f.log.Error("unreadable outcome", "seq", e.Seq, "err", err)
		return nil
	}
	if !streams.ValidID(o.Action) || o.Status == streams.HoldCancelled {
		return nil
	}
	var v struct {
		Proposal uint64 `json:"proposal"`
	}
	if ok, err := st.Load(stage.Key(keyVerdict, e.Project, o.Agent, o.Action), &v); err != nil || !ok {
		return err
	}
	p := new(proposal)
	if ok, err := st.Load(proposalKey(v.Proposal), p); err != nil || !ok || p.Used {
		return err
	}
	p.Used = true
	return st.Put(proposalKey(p.Seq), p)
}
