package arbiter

import (
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// fromSentinel folds an entry of a sentinel group.
func (f *Fold) fromSentinel(st *stage.State, e *streams.Entry, group string, now time.Time) (*stage.Output, error) {
	switch e.Type {
	case streams.TypeAlerts:
		a := new(streams.AlertsEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil {
			f.log.Error("unreadable alerts", "seq", e.Seq, "err", err)
			return nil, nil
		}
		if err := f.noteOfferAlerts(st, e, group, a.Alerts, now); err != nil {
			return nil, err
		}
		return nil, f.note(st, e, group, a.Alerts, "", true, now)
	case streams.TypeAssessment:
	default:
		return nil, nil
	}
	a := new(assessment)
	if err := streams.Unmarshal(e.Body, a); err != nil {
		f.log.Error("unreadable assessment counts as silence", "seq", e.Seq, "group", group, "err", err)
		return nil, nil
	}
	p := new(proposal)
	ok, err := st.Load(proposalKey(e.Src), p)
	if err != nil {
		return nil, err
	}
	belief, memory := "", p.Type == streams.TypeMemory
	if memory {
		belief = p.Belief.ID
	}
	if err := f.note(st, e, group, a.Alerts, belief, memory, now); err != nil || !ok {
		return nil, err
	}
	if a.Verdict == nil {
		f.log.Error("assessment without a verdict counts as silence", "seq", e.Seq, "group", group)
	}
	said, more := joinAnswer(p.Answers, a.answer(group, p.wants(group), p.Type))
	texts := p.takeTexts(a.Alerts)
	if !more && !texts {
		return nil, nil
	}
	p.Answers = said
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if p.Decided != nil {
		return f.tighten(st, p, pol, more, texts, now)
	}
	until := p.waits()
	if !until.After(now) {
		return f.decide(st, p, pol, now)
	}
	if !until.Equal(p.Deadline) {
		if err := f.dropTimer(st, p.Deadline, timerDeadline, seqKey(p.Seq)); err != nil {
			return nil, err
		}
		p.Deadline = until
		if err := f.addTimer(st, until, timerDeadline, seqKey(p.Seq)); err != nil {
			return nil, err
		}
	}
	return nil, st.Put(proposalKey(p.Seq), p)
}

// assessment is an assessment entry in which a nil Verdict is a missing one. In streams.AssessmentEntry, a missing
// verdict would read as allow, its zero value.
type assessment struct {
	streams.AssessmentEntry
	Verdict *streams.Verdict `json:"verdict"`
}

// answer converts an assessment to the group's answer: it joins the assessment's verdict with those that its alerts ask
// for. At least one reason of the answer is as strict as the answer's verdict. wanted is the digest of the rules under
// which the group must assess (proposal.wants). An assessment under another digest does not count as the group's
// judgement, but its reasons count.
func (a *assessment) answer(group, wanted string, on streams.Type) answer {
	ans := answer{Group: group, Rests: joinRests(maxRests, nil, a.Rests)}
	digest := streams.Clip(a.Digest, maxReasonText)
	switch {
	case a.Verdict == nil || digest == "":
		ans.Mute = true
	case digest == wanted:
		ans.Judged = true
	default:
		ans.Other = digest
	}
	if a.Verdict != nil {
		ans.Verdict = *a.Verdict
	}
	said := streams.Allow
	for _, al := range a.Alerts {
		v, named := alertVerdict(&al, on)
		if !named {
			continue
		}
		said = said.Join(v)
		ans.Failed = ans.Failed || al.Error != ""
		ans.Reasons = append(ans.Reasons, alertReason(streams.CodeRule, v, group, al))
	}
	if ans.Verdict > said {
		ans.Reasons = append(ans.Reasons, streams.Reason{Code: streams.CodeRule, Verdict: ans.Verdict, Group: group,
			Digest: digest, Text: "the group asks for " + ans.Verdict.String()})
	}
	ans.Verdict = ans.Verdict.Join(said)
	return ans
}

func alertReason(code streams.Code, v streams.Verdict, group string, al streams.Alert) streams.Reason {
	clip := func(s string) string { return streams.Clip(s, maxReasonText) }
	r := streams.Reason{Code: code, Verdict: v, Text: clip(al.Message), Rule: clip(al.Rule), Digest: clip(al.RuleDigest),
		Group: group, Alert: clip(al.ID)}
	if al.Exception != "" {
		r.Text = clip("exception " + al.Exception + " applies: " + r.Text)
	}
	for _, step := range al.Path[:min(len(al.Path), maxPath)] {
		r.Path = append(r.Path, streams.Clip(step, maxStep))
	}
	return r
}

// wants returns the digest of the rule set or version with which the group must assess the proposal, or "" if the
// policy does not require the group.
func (p *proposal) wants(group string) string {
	for _, g := range p.Groups {
		if g.Group == group {
			return g.Digest
		}
	}
	return ""
}

// answered reports whether group g has assessed the proposal under the required digest: that of the rules in force when
// the proposal came, or the version to which the policy pins the group.
func (p *proposal) answered(g required) bool {
	for _, a := range p.Answers {
		if a.Group == g.Group && a.Judged {
			return true
		}
	}
	return false
}

// waits returns the latest deadline of the groups that have not answered, or the zero time if all have.
func (p *proposal) waits() (until time.Time) {
	for _, g := range p.Groups {
		if g.Until.After(until) && !p.answered(g) {
			until = g.Until
		}
	}
	return until
}

// alertVerdict returns the verdict that an alert asks for on an entry of type on. named reports whether the alert
// becomes a reason. An alert of a shadow rule (a rule on trial) does not become a reason, and neither does an alert
// that asks to mask, annotate or spotlight a text. Alerts that ask for nothing, and alerts to which an exception of the
// rule applies, become reasons for allow.
func alertVerdict(a *streams.Alert, on streams.Type) (v streams.Verdict, named bool) {
	v, binding := a.Asks(on)
	switch {
	case binding:
		return v, true
	case a.Mode == "shadow", streams.IsTextEffect(a.Effect):
		return streams.Allow, false
	}
	return streams.Allow, true
}

// admitBelief sets the state (beliefs.Axes) of a memory write's belief according to the verdict.
func admitBelief(b *streams.BeliefRef, v streams.Verdict) {
	ad := beliefs.EvidenceSet{{Observation: b.Observation, Quality: b.Quality, Source: b.Source}}.Adopt()
	ad.Staged, ad.Procedure = b.Staged, b.Procedure
	b.Axes = ad.Admit(v.String())
}
