package arbiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	_ "lazaret/pkg/passkey" // verifies the signatures of passkeys
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// resolve handles a signed resolution of a hold. It accepts a resolution at most once. If it refuses one, the hold
// stays open, and an alert says why. The keys, the policy, the hold and the time that it uses all come from the ledger.
func (f *Fold) resolve(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	r := new(streams.ResolutionEntry)
	if err := streams.Unmarshal(e.Body, r); err != nil {
		f.log.Error("unreadable resolution", "seq", e.Seq, "err", err)
		return nil, nil
	}
	trust, trustDigest, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil {
		return nil, err
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	h := new(hold)
	known, err := st.Load(stage.Key(keyHold, e.Project, r.Hold), h)
	if err != nil {
		return nil, err
	}
	if !known {
		h = &hold{Project: e.Project}
	}
	in := &resolution{seq: e.Seq, id: r.ID, intake: r.Intake, named: r.Hold, project: e.Project, hold: h,
		trust: trustDigest}
	refuse := func(err error) (*stage.Output, error) { return f.refuse(st, in, err, now) }

	s, err := approval.Open([]byte(r.Note), trust)
	if err != nil {
		return refuse(err)
	}
	in.signer = s.Signer
	if s.Decision == approval.Approve && known {
		if err := f.upToDate(st, in, pol); err != nil {
			return nil, err
		}
	}
	c := approval.Case{Project: e.Project, Agent: h.Agent, Hold: h.ID, Revision: h.Revision, Action: h.Entry.Digest,
		Now:  now,
		Open: h.State == streams.HoldOpen && h.Entry.Verdict == streams.Hold, State: h.State, Roles: approvers(pol, h)}
	if c.Open && !now.Before(h.Expires) {
		c.Open, c.State = false, streams.HoldExpired // its due entry has not arrived yet
	}
	if s.Decision == approval.Withdraw {
		g, err := granted(st, h, s, now)
		if err != nil {
			return nil, err
		}
		c.Open, c.State = g != nil, "not one with which this source was approved, or the approval has ended"
	}
	if _, c.Used, err = st.Get(nonceKey(s)); err != nil {
		return nil, err
	}
	if c.Counter, err = counter(st, s); err != nil {
		return nil, err
	}
	if err := s.Judge(&c); err != nil {
		return refuse(err)
	}
	if s.Decision == approval.Withdraw {
		return f.withdrawSource(st, in, h, s, now)
	}
	if in.source, err = approvedSource(st, h, s, pol, now); err != nil {
		return refuse(err)
	}
	if in.accepted, err = acceptedTools(h, s); err != nil {
		return refuse(err)
	}
	if in.prompt, err = approvedPrompt(h, s); err != nil {
		return refuse(err)
	}
	if s.Decision == approval.Approve {
		if pol == nil {
			return refuse(&approval.Error{Check: approval.CheckPolicy,
				Text: "no policy is in force, so nobody may release anything"})
		}
		fresh, err := f.recheck(st, h, pol)
		if err != nil {
			return nil, err
		}
		switch v := strictest(fresh); {
		case v == streams.Deny:
			// A deny cannot be released. The hold becomes a deny.
			return f.denyHeld(st, in, h, fresh, now)
		case len(fresh) > 0:
			if err := f.revise(st, h, fresh); err != nil {
				return nil, err
			}
			in.revised = true
			return refuse(&approval.Error{Check: approval.CheckRevision, Text: "more speaks against it than the signer saw: " +
				fresh[0].Text})
		}
	}
	if err := f.useNonce(st, s); err != nil {
		return nil, err
	}
	return f.settle(st, in, h, s, now)
}

// resolution is a signed resolution that is being checked.
type resolution struct {
	seq     uint64 // ledger sequence of its entry
	id      string
	intake  uint64
	project string
	named   string // the hold that the resolution's subject names
	hold    *hold
	signer  string
	trust   string // digest of the trust file in force
	revised bool
	// accepted are the levels that the person signed for the tools of a catalogue, or nil.
	accepted *streams.AcceptedTools
	prompt   *streams.ApprovedPrompt // nil if the hold is not about a prompt
	source   *streams.ApprovedSource // nil if the statement approves no source
}

// call returns the held action in the form in which a policy classifies it.
func (h *hold) call() policy.Call {
	return policy.Call{Tool: h.Entry.Tool, Args: []byte(h.Body), Project: h.Project, Agent: h.Agent, Of: h.Of,
		Accepted: h.Accepted}
}

// approvers returns the roles that a signer needs to resolve a hold. The signer's key must have all of them.
func approvers(pol *policy.Policy, h *hold) []keys.Role {
	if pol == nil {
		return nil
	}
	if h.Entry.Type == streams.TypeAction {
		if c := classify(pol, h.call(), []byte(h.Hints), beliefs.L0); len(c.Approvers) > 0 {
			return c.Approvers
		}
	}
	return []keys.Role{pol.Approver()}
}

// upToDate adds new reasons to an open hold before a resolution is checked. "holds show" prints the revision with the
// new reasons, so a signature over this revision must be accepted.
func (f *Fold) upToDate(st *stage.State, in *resolution, pol *policy.Policy) error {
	h := in.hold
	if pol == nil || h.State != streams.HoldOpen {
		return nil
	}
	fresh, err := f.recheck(st, h, pol)
	if err != nil || len(fresh) == 0 || strictest(fresh) == streams.Deny {
		return err
	}
	in.revised = true
	return f.revise(st, h, fresh)
}

// recheck returns the reasons that speak against a hold now and that its verdict's entry does not have.
func (f *Fold) recheck(st *stage.State, h *hold, pol *policy.Policy) ([]streams.Reason, error) {
	var fresh []streams.Reason
	add := func(r streams.Reason) {
		if !slices.ContainsFunc(h.Entry.Reasons, func(o streams.Reason) bool {
			return o.Code == r.Code && o.Rule == r.Rule && o.Group == r.Group && o.Text == r.Text && o.Verdict >= r.Verdict
		}) {
			fresh = append(fresh, r)
		}
	}
	p := &proposal{Type: h.Entry.Type, Project: h.Project, ID: h.Entry.ID, Agent: h.Agent, Session: h.Entry.Session,
		Tool: h.Entry.Tool, Rests: h.Rests, Catalogue: h.Catalogue}
	p.Weighty = h.Entry.Level != beliefs.L0.String() && h.Entry.Level != beliefs.L1.String()
	rests, err := f.earlierFindings(st, p)
	if err != nil {
		return nil, err
	}
	offered, err := p.offered(st)
	if err != nil {
		return nil, err
	}
	from, err := p.fellSince(st, h)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Concat(rests, offered, from) {
		if r.Verdict > streams.Allow {
			add(r)
		}
	}
	if h.Entry.Type != streams.TypeAction {
		return fresh, nil
	}
	c := classify(pol, h.call(), []byte(h.Hints), beliefs.L0)
	var was beliefs.Level
	if err := was.UnmarshalText([]byte(h.Entry.Level)); err != nil {
		return nil, fmt.Errorf("level of hold %s: %w", h.ID, err)
	}
	switch {
	case c.Floor == streams.Deny:
		code := streams.CodeFloor
		if c.Unmatched() {
			code = streams.CodeUnmatched
		}
		add(streams.Reason{Code: code, Verdict: streams.Deny, Text: fmt.Sprintf("the policy in force by now denies it: %s",
			c.Level)})
	case c.Floor == streams.Hold && c.Level > was:
		add(streams.Reason{Code: streams.CodeFloor, Verdict: streams.Hold,
			Text: fmt.Sprintf("%s by policy entry %q of the policy in force by now", c.Level, c.Entry)})
	}
	return fresh, nil
}

func strictest(reasons []streams.Reason) (v streams.Verdict) {
	for _, r := range reasons {
		v = v.Join(r.Verdict)
	}
	return v
}

// revise adds reasons to an open hold, which changes its revision. So a signature over the earlier revision does not
// release it.
func (f *Fold) revise(st *stage.State, h *hold, fresh []streams.Reason) error {
	h.Entry.Reasons = append(slices.Clip(h.Entry.Reasons), fresh...)
	h.Revision = revision(h.Entry.Reasons)
	ref := *h.Entry.Hold
	ref.Revision = h.Revision
	h.Entry.Hold = &ref
	if err := st.Put(stage.Key(keyHold, h.Project, h.ID), h); err != nil {
		return err
	}
	return f.remember(st, h)
}

// remember stores a hold's verdict as the answer to repeats of its proposal.
func (f *Fold) remember(st *stage.State, h *hold) error {
	return st.Put(stage.Key(keyVerdict, h.Project, h.Agent, h.Entry.ID), &h.Entry)
}

// denyHeld denies a held proposal.
func (f *Fold) denyHeld(st *stage.State, in *resolution, h *hold, fresh []streams.Reason,
	now time.Time) (*stage.Output, error) {
	if err := f.closeHold(st, h.Project, h.ID, streams.HoldDenied, now); err != nil {
		return nil, err
	}
	v := &h.Entry
	live := holdLive(h.Project, v, streams.HoldDenied)
	v.Verdict, v.Time, v.Late, v.Denied, v.Hold = streams.Deny, now, true, h.ID, nil
	v.Reasons = append(slices.Clip(v.Reasons), fresh...)
	return f.conclude(st, in, h, live)
}

// settle applies an accepted resolution: it closes the hold, and the signer's decision becomes the verdict.
func (f *Fold) settle(st *stage.State, in *resolution, h *hold, s *approval.Signed, now time.Time) (*stage.Output,
	error) {
	state, code, verdict, did := streams.HoldApproved, streams.CodeApproved, streams.Allow, "approved"
	if s.Decision == approval.Reject {
		state, code, verdict, did = streams.HoldRejected, streams.CodeRejected, streams.Deny, "rejected"
	}
	if s.Decision == approval.Approve {
		if err := clearApproved(st, in, h); err != nil {
			return nil, err
		}
	}
	if err := f.closeHold(st, h.Project, h.ID, state, now); err != nil {
		return nil, err
	}
	why := streams.Reason{Code: code, Verdict: verdict, Text: did + " by " + s.Signer}
	if s.Reason != "" {
		why.Text += ": " + s.Reason
	}
	if x := in.source; x != nil {
		why.Text = streams.Clip(fmt.Sprintf(
			"%s; its source %s is approved for at most %d further actions of session %s until %s",
			why.Text, x.Source, x.Actions, x.Session, x.Expires.Format(time.RFC3339)), maxReasonText)
	}
	v := &h.Entry
	v.Verdict, v.Time, v.Late, v.Hold = verdict, now, false, nil
	v.Reasons = append(slices.Clip(v.Reasons), why)
	v.Resolved = &streams.Resolved{Hold: h.ID, Revision: h.Revision, State: state, By: s.Signer, Key: s.Pin.Key,
		Reason: s.Reason, Entry: in.seq, Time: now, Accepted: in.accepted, Prompt: in.prompt, Source: in.source}
	if err := f.putGrant(st, in, h, s); err != nil {
		return nil, err
	}
	said := &streams.HoldStateEntry{Hold: h.ID, Proposal: h.Proposal, Agent: h.Agent, ID: v.ID, State: state,
		Reason: why, Time: now, Resolved: v.Resolved}
	return f.conclude(st, in, h, stage.LiveCopy(said, h.Project, "hold", h.Agent, h.ID, state))
}

// conclude stores the final verdict of a hold and returns its output. in is nil if no resolution ended the hold.
func (f *Fold) conclude(st *stage.State, in *resolution, h *hold, live []stage.Live) (*stage.Output, error) {
	v := &h.Entry
	v.Again = false
	if v.Belief != nil {
		b := *v.Belief
		admitBelief(&b, v.Verdict)
		signProcedure(&b, v)
		v.Belief = &b
	}
	if err := f.remember(st, h); err != nil {
		return nil, err
	}
	// Store in the hold how it ended.
	kept := new(hold)
	key := stage.Key(keyHold, h.Project, h.ID)
	if ok, err := st.Load(key, kept); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("hold %s is gone", h.ID))
	}
	kept.Entry = *v
	if err := st.Put(key, kept); err != nil {
		return nil, err
	}
	// A late assessment must start from the final verdict.
	p := new(proposal)
	ok, err := st.Load(proposalKey(h.Proposal), p)
	if err != nil {
		return nil, err
	}
	if ok {
		decided := v.Verdict
		p.Decided = &decided
		if err := st.Put(proposalKey(h.Proposal), p); err != nil {
			return nil, err
		}
	}
	out := *v
	if in != nil {
		out.Answers, out.Intake, out.Also = in.id, in.intake, nil
	}
	return stage.NewOutput(streams.TypeVerdict, h.Project, &out, append(verdictLive(h.Project, &out), live...)...)
}

// approvalRule begins the names of the rules of alerts about refused resolutions. The failed check follows.
const approvalRule = "approval-"

// refuse leaves the hold open, and returns an alert that names the failed check. The alert counts the refusals of this
// hold by this check. The ledger gets each such alert, and the live feed only those whose count is a power of two.
func (f *Fold) refuse(st *stage.State, in *resolution, cause error, now time.Time) (*stage.Output, error) {
	var r *approval.Error
	if !errors.As(cause, &r) {
		return nil, cause
	}
	h := in.hold
	bucket := h.ID
	if bucket == "" {
		bucket = "-" // count refusals for all unknown holds together: an attacker may invent any number of ids
	}
	counter := stage.Key(keyRefused, in.project, bucket, string(r.Check))
	n, err := count(st, counter)
	if err == nil && n == 1 && h.ID != "" {
		err = f.forgetAt(st, h.Expires.Add(KeepHold), counter)
	}
	if err != nil {
		return nil, err
	}
	effect := "which changes nothing"
	if in.revised {
		effect = "but the hold has further reasons now, and the revision " + h.Revision
	}
	a := newAlert(approvalRule+string(r.Check), "high", in.project, in.seq,
		streams.AlertSubject{Kind: "approval", ID: in.named}, now)
	a.RuleDigest, a.Agent, a.Session, a.Count = in.trust, h.Agent, h.Entry.Session, n
	a.Message = streams.Clip(fmt.Sprintf("a decision on hold %s was refused, %s: %s", in.named, effect, r.Text),
		maxReasonText)
	a.Detail = map[string]any{"check": string(r.Check), "entry": fmt.Sprint(in.seq)}
	if h.Entry.ID != "" {
		a.Events = []string{h.Entry.ID}
	}
	if in.signer != "" {
		a.Detail["signer"] = in.signer // the signature is verified with a pinned key
	}
	live := alertLive(&a)
	if in.revised {
		v := h.Entry
		live = append(live, holdLive(h.Project, &v, streams.HoldOpen)...)
	}
	return stage.NewOutput(streams.TypeAlerts, in.project, &streams.AlertsEntry{Group: streams.StageArbiter,
		Digest: in.trust, Alerts: []streams.Alert{a}, Answers: in.id, Intake: in.intake}, live...)
}

// count adds 1 to the counter under a key, and returns the new value.
func count(st *stage.State, key []byte) (uint64, error) {
	v, ok, err := st.Get(key)
	if err != nil {
		return 0, err
	}
	n := uint64(1)
	if ok && len(v) == 8 {
		n += binary.BigEndian.Uint64(v)
	}
	return n, st.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

func nonceKey(s *approval.Signed) []byte { return stage.Key(keyNonce, s.Project, s.Nonce) }

// useNonce records that a statement was accepted, so that the same statement is refused later. The record is removed
// when the statement expires, because an expired statement is refused anyway.
func (f *Fold) useNonce(st *stage.State, s *approval.Signed) error {
	key := nonceKey(s)
	if err := f.forgetAt(st, s.Expires, key); err != nil {
		return err
	}
	if s.Counter > 0 {
		if err := st.Set(counterKey(s), binary.BigEndian.AppendUint32(nil, s.Counter)); err != nil {
			return err
		}
	}
	return st.Set(key, nil)
}

func counterKey(s *approval.Signed) []byte {
	return stage.Key(keyCounter, s.Project, streams.Digest([]byte(s.Pin.Key)))
}

// counter returns the highest counter of the signer's passkey in accepted signatures of the project. An authenticator
// has one counter for all its signatures. The state has one per project, because a fold sees only the projects of its
// partition.
func counter(st *stage.State, s *approval.Signed) (uint32, error) {
	v, ok, err := st.Get(counterKey(s))
	if err != nil || !ok || len(v) != 4 {
		return 0, err
	}
	return binary.BigEndian.Uint32(v), nil
}
