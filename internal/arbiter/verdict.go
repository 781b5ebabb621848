package arbiter

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// summaryLen is the number of bytes of an action's arguments or a memory's content that a verdict repeats.
const summaryLen = 400

// classify returns how a policy classifies an action: by the policy's entries, the tool's annotations and the
// arguments. declared is the level that the agent declares, which can only raise the action's level.
func classify(pol *policy.Policy, k policy.Call, hints []byte, declared beliefs.Level) policy.Class {
	return pol.Guard(pol.Class(k).RaiseByAnnotations(hints).Raise(declared), k.Args)
}

// openAction sets the fields of p for an action, and adds those reasons that are known before a sentinel group assesses
// it. It returns the action's class.
func (f *Fold) openAction(st *stage.State, p *proposal, a *streams.ActionEntry,
	pol *policy.Policy) (class policy.Class, err error) {
	p.ID, p.Reuses, p.Agent, p.Session, p.Tool = a.ID, a.Reuses, a.Agent, a.Session, a.Tool
	p.Summary, p.Level, p.Body = streams.Clip(string(a.Args), summaryLen), a.Level.String(), string(a.Args)
	p.Hints, p.Of, p.Accepted = string(a.Annotations), a.Catalogue, a.Accepted
	if p.Digest, err = approval.ActionDigest(p.Project, a.Agent, a.Session, a.Sent(), a.Tool, a.Args); err != nil {
		return class, err
	}
	if pol != nil {
		// The policy in force here is the one with which ingest classified the action, because both decide at the same
		// place in the ledger. So a.Level is above this policy's level only if the agent declared it.
		call := p.call()
		class = classify(pol, call, a.Annotations, a.Level)
		p.Level = class.Level.String()
		p.Delegated = delegated(pol, call, class, a)
		p.Reasons = append(p.Reasons, foremost(class.Reasons)...)
		if err := p.follows(st, a, pol, class); err != nil {
			return class, err
		}
	}
	if a.Host != nil && *a.Host > streams.Allow {
		p.reason(streams.CodeHost, *a.Host, "the host asks for %s", *a.Host)
	}
	openSession(p, a.Unseen, a.UnseenBy, a.Restored)
	p.Weighty = max(a.Level, class.Level) > beliefs.L1
	p.Class, p.Confidence = class.Entry, a.Confidence
	if p.Catalogue, err = catalogueOf(st, p.Project, a); err != nil {
		return class, err
	}
	if err := overConfident(st, p); err != nil {
		return class, err
	}
	p.dependsOn(relDecision, streams.BeliefRef{}, a.Decision)
	for _, b := range a.Beliefs {
		p.dependsOn(relCited, b, "")
		r := streams.Reason{Code: streams.CodeBelief, Verdict: streams.Hold, Path: p.pathTo(ref(b))}
		switch {
		case !b.Found:
			r.Text = fmt.Sprintf("it cites belief %s, which nobody knows", b.ID)
		case b.Axes.Truth == beliefs.Contradicted || b.Axes.Truth == beliefs.Superseded:
			r.Text = fmt.Sprintf("it cites belief %s, which is %s", b.ID, b.Axes.Truth)
		case b.Axes.Security != beliefs.Clean:
			r.Text = fmt.Sprintf("it cites belief %s, which is %s", b.ID, b.Axes.Security)
		case b.Axes.Retrieval == beliefs.Blocked || b.Axes.Retrieval == beliefs.Hidden:
			r.Text = fmt.Sprintf("it cites belief %s, which is %s", b.ID, b.Axes.Retrieval)
		case b.Axes.Freshness == beliefs.Expired:
			r.Text = fmt.Sprintf("it cites belief %s, which has expired", b.ID)
		case b.Scope == beliefs.ContextOnly && a.Level > beliefs.L1:
			r.Code, r.Text = streams.CodeContextOnly, fmt.Sprintf(
				"it cites belief %s, which may inform but not steer a tool call", b.ID)
		default:
			continue
		}
		p.Reasons = append(p.Reasons, r)
	}
	return class, nil
}

// foremost returns the strictest of the reasons that come from an action's class, at most maxReasons.
func foremost(reasons []streams.Reason) []streams.Reason {
	out := slices.Clone(reasons)
	slices.SortStableFunc(out, func(a, b streams.Reason) int { return cmp.Compare(b.Verdict, a.Verdict) })
	out = out[:min(len(out), maxReasons)]
	for i := range out {
		out[i].Text = streams.Clip(out[i].Text, maxReasonText)
	}
	return out
}

func openMemory(p *proposal, m *streams.MemoryEntry, pol *policy.Policy) (err error) {
	p.ID, p.Reuses, p.Agent, p.Session = m.ID, m.Reuses, m.Agent, m.Session
	p.Summary = streams.Clip(m.Content, summaryLen)
	if m.Key != "" {
		p.Tool = "memory:" + m.Key
	}
	p.Belief, p.Body, p.From = &m.Belief, m.Content, m.DerivedFrom
	openSession(p, m.Unseen, m.UnseenBy, m.Restored)
	openMemoryReasons(p, m, pol)
	p.Digest, err = approval.MemoryDigest(p.Project, m.Agent, m.Session, m.Sent(), m.Key, m.Content)
	return err
}

func openRecall(p *proposal, r *streams.RecallEntry) {
	p.ID, p.Reuses, p.Agent, p.Session = r.ID, r.Reuses, r.Agent, r.Session
	p.Summary = streams.Clip(r.Query+r.Key, summaryLen)
	for it := range recalled(r) {
		p.Items = append(p.Items, it.ID)
		p.dependsOn(relFound, it.BeliefRef, "")
	}
	openSession(p, r.Unseen, r.UnseenBy, r.Restored)
}

func openSession(p *proposal, unseen bool, by *streams.Unseen, restored bool) {
	switch {
	case !unseen:
	case by != nil && by.Scope != "":
		p.unseen(by)
	// The next cases are for entries of earlier versions. Signed revisions cover the texts of the reasons, so the texts
	// must not change.
	case by == nil || by.Intake == 0:
		p.reason(streams.CodeUnseen, streams.Hold, "the session holds an observation that was rejected, so nobody has "+
			"judged what the agent saw: start a new session")
	default:
		again := "start a new session"
		if by.ID != "" {
			again = fmt.Sprintf("publish %s again in valid form, or start a new session", by.ID)
		}
		name := by.ID
		if name == "" {
			name = "without a legible id"
		}
		p.reason(streams.CodeUnseen, streams.Hold,
			"observation %s (intake message %d) was rejected (%s: %s), so nobody has judged what the agent saw: %s",
			name, by.Intake, by.Code, by.Reason, again)
	}
	if restored {
		p.reason(streams.CodeRestored, streams.Hold,
			"it names an acknowledged intake sequence that this intake never gave out")
	}
}

// unseen adds a reason because of a rejected observation. It tells the caller how to have later actions allowed again.
func (p *proposal) unseen(by *streams.Unseen) {
	if by.Scope == streams.UnseenExpired {
		start := "lazaret session start"
		if streams.ValidID(p.Session) {
			start += " " + p.Session
		}
		p.reason(streams.CodeUnseen, streams.Hold, "the session was silent for so long that its user's words have "+
			"expired, so nothing tells what the user asked for: start it anew: %s", start)
		return
	}
	what := "more observations were rejected than are kept"
	var publish string
	if by.Intake != 0 {
		what = fmt.Sprintf("intake message %d, an observation without a legible id, was rejected (%s: %s)", by.Intake,
			by.Code, by.Reason)
	}
	if by.ID != "" {
		what = fmt.Sprintf("observation %s (intake message %d) was rejected (%s: %s)", by.ID, by.Intake, by.Code, by.Reason)
		publish = fmt.Sprintf("publish it again in valid form under the id %s and origin %s, or ", by.ID, by.Origin)
	}
	start := "give the agent a context without it and start its session anew: lazaret session start"
	if by.Scope == streams.UnseenAgent {
		start = "give the agent a context without it and start a session: lazaret session start; it names no session, so " +
			"another session name alone does not help"
	} else if streams.ValidID(p.Session) {
		start += " " + p.Session
	}
	p.reason(streams.CodeUnseen, streams.Hold, "%s, so nobody has judged what the agent saw: %s%s", what, publish, start)
}

// decide gives the verdict on a proposal, from all its reasons.
func (f *Fold) decide(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*stage.Output, error) {
	v, err := f.verdict(st, p, pol, now)
	if err != nil {
		return nil, err
	}
	decided := v.Verdict
	p.Decided, p.Revision = &decided, revision(v.Reasons)
	if err := f.dropTimer(st, p.Deadline, timerDeadline, seqKey(p.Seq)); err != nil {
		return nil, err
	}
	if err := dropWaiting(st, p); err != nil {
		return nil, err
	}
	if v.Hold != nil {
		if err := f.openHold(st, p, v, now); err != nil {
			return nil, err
		}
		if err := noteHold(st, p, pol, now); err != nil {
			return nil, err
		}
	}
	// Store the decided proposal, because a late assessment can make the verdict stricter. A timer removes it.
	if err := f.keepForLate(st, p, now); err != nil {
		return nil, err
	}
	until := now
	if v.Hold != nil {
		until = v.Hold.Expires
	}
	key := stage.Key(keyVerdict, p.Project, p.Agent, p.ID)
	if err := f.forgetAt(st, until.Add(KeepVerdict), key); err != nil {
		return nil, err
	}
	switch {
	case p.Type == streams.TypeRecall && v.Verdict == streams.Allow:
		err = storeRecalled(st, p)
	case p.Type == streams.TypeMemory:
		err = f.derive(st, p, now)
	}
	if err != nil {
		return nil, err
	}
	live := verdictLive(p.Project, v)
	if v.Alert != nil {
		live = append(live, alertLive(v.Alert)...)
	}
	if v.Hold != nil {
		live = append(live, holdLive(p.Project, v, "open")...)
	}
	out, err := f.output(p, v, live)
	if err != nil {
		return nil, err
	}
	return out, st.Give(key, out.Body)
}

// dropWaiting records that a proposal is no longer open. If another proposal is open under its id, it does nothing.
func dropWaiting(st *stage.State, p *proposal) error {
	seq, ok, err := st.Get(waitingKey(p))
	if err != nil || !ok || !bytes.Equal(seq, seqKey(p.Seq)) {
		return err
	}
	return st.Delete(waitingKey(p))
}

// output returns the output with the entry of a verdict.
func (f *Fold) output(p *proposal, v *streams.VerdictEntry, live []stage.Live) (*stage.Output, error) {
	out, err := stage.NewOutput(streams.TypeVerdict, p.Project, v, live...)
	if err == nil {
		out.Note = &metrics.Verdict{Entry: v, Proposed: p.Stamp}
	}
	return out, err
}

func (f *Fold) verdict(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*streams.VerdictEntry, error) {
	v := &streams.VerdictEntry{Proposal: p.Seq, Intake: p.Intake, Also: p.Also, Type: p.Type, ID: p.ID, Reuses: p.Reuses,
		Agent: p.Agent, Session: p.Session, Tool: p.Tool, Summary: p.Summary, Policy: p.Policy, Rules: p.Rules,
		Level: p.Level, Class: p.Class, Digest: p.Digest, Time: now, Confidence: p.Confidence}
	for _, g := range p.Groups {
		if p.answered(g) {
			continue
		}
		silent := streams.Hold
		if pol != nil {
			silent = silent.Join(pol.OnSilent)
		}
		v.Degraded = append(v.Degraded, g.Group)
		p.Reasons = append(p.Reasons, streams.Reason{Code: streams.CodeSilent, Verdict: silent, Group: g.Group,
			Text: p.silence(g)})
	}
	rests, err := f.earlierFindings(st, p)
	if err != nil {
		return nil, err
	}
	found, err := p.refuseFound(st, pol != nil && pol.Learn())
	if err != nil {
		return nil, err
	}
	p.Reasons = append(append(p.Reasons, rests...), found...)
	v.Verdict, v.Reasons = p.judge()
	applyStanding(p, pol, v, now)
	delegate(p, v)
	if err := f.cover(st, p, pol, v, now); err != nil {
		return nil, err
	}
	if v.Verdict == streams.Hold {
		offered, err := p.offered(st)
		if err != nil {
			return nil, err
		}
		p.Reasons = append(p.Reasons, offered...)
		v.Verdict, v.Reasons = p.judge()
	}
	if pol != nil && pol.Learn() {
		would := v.Verdict
		v.Would, v.Learn, v.Verdict = &would, true, streams.Allow
		v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeLearn, Verdict: streams.Allow,
			Text: "the policy is in learn mode; it would have answered " + would.String()})
	}
	if v.Verdict == streams.Hold && p.Type == streams.TypeAction && !p.Withdrawn && !v.Learn {
		over, err := overBudget(st, p, pol, now)
		if err != nil {
			return nil, err
		}
		if over != nil {
			p.Reasons = append(p.Reasons, *over)
			v.Verdict, v.Reasons = p.judge()
		}
	}
	if v.Verdict == streams.Hold && p.Type != streams.TypeRecall && !p.Withdrawn {
		expiry := policy.DefaultHoldExpiry
		if pol != nil {
			expiry = pol.HoldExpiry
		}
		v.Hold = &streams.HoldRef{ID: holdID(p), Revision: revision(v.Reasons), Expires: now.Add(expiry)}
	}
	v.Texts = textEffects(p.Texts)
	p.withhold(v, now)
	if v.Alert == nil && p.Reuses != "" {
		a := reuseAlert(p.Seq, p.Project, string(p.Type), &streams.EntryHead{ID: p.ID, Reuses: p.Reuses, Agent: p.Agent,
			Session: p.Session}, now)
		v.Alert = &a
	}
	if p.Type == streams.TypeMemory && p.Belief != nil {
		b := *p.Belief
		admitBelief(&b, v.Verdict)
		v.Belief = &b
	}
	return v, nil
}

// judge joins all reasons on a proposal. The findings of a group count even if the group is not required, or answered
// under other rules.
func (p *proposal) judge() (streams.Verdict, []streams.Reason) {
	facts := make([][]streams.Reason, 0, len(p.Answers)+1)
	facts = append(facts, p.Reasons)
	for _, a := range p.Answers {
		facts = append(facts, a.Reasons)
	}
	return judge(facts...)
}

// silence says why a required group counts as silent.
func (p *proposal) silence(g required) string {
	for _, a := range p.Answers {
		switch {
		case a.Group != g.Group:
			continue
		case a.Other != "":
			return fmt.Sprintf("sentinel group %q answered under digest %q, wanted is %q", g.Group, streams.Clip(a.Other, 80),
				g.Digest)
		case a.Mute:
			return fmt.Sprintf("sentinel group %q answered without a verdict or without a digest", g.Group)
		}
	}
	return fmt.Sprintf("sentinel group %q had not answered by %s", g.Group, g.Until.Format(time.RFC3339Nano))
}

// holdID returns the id of a proposal's hold, a hash of the proposal, so that every process computes the same id.
func holdID(p *proposal) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "hold\x00%s\x00%s\x00%s\x00%d", p.Project, p.Agent, p.ID, p.Seq))
	return "h" + hex.EncodeToString(sum[:8])
}

// revision returns the digest of the reasons to hold or deny, as an approver sees them. If a step of a path names an
// observation of another agent, the agent is left out of the digest: earlier versions did not write the agent, and an
// approval signed under such a version must still match when the ledger is folded again.
func revision(reasons []streams.Reason) string {
	reasons = slices.DeleteFunc(slices.Clone(reasons), func(r streams.Reason) bool { return r.Verdict == streams.Allow })
	cut := false
	for i := range reasons {
		r := &reasons[i]
		for n, step := range r.Path {
			agent, id, ok := strings.Cut(strings.TrimPrefix(step, "observation:"), "/")
			if !ok || !strings.HasPrefix(step, "observation:") || !streams.ValidID(agent) || !streams.ValidID(id) {
				continue
			}
			cut, r.Path = true, slices.Clone(r.Path)
			r.Path[n] = "observation:" + id
		}
	}
	if cut {
		_, reasons = judge(reasons)
	}
	b, err := streams.Marshal(reasons)
	if err != nil {
		b = fmt.Append(nil, reasons)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// newAlert returns an alert of the arbiter itself on a subject. seq is the ledger sequence of the entry from which the
// arbiter made it.
func newAlert(rule, severity, project string, seq uint64, on streams.AlertSubject, now time.Time) streams.Alert {
	return streams.Alert{ID: fmt.Sprintf("%s-%d", rule, seq), Rule: rule, Group: streams.StageArbiter, Severity: severity,
		Subject: on, Project: project, Effect: "alert", Mode: "enforce", Count: 1, Time: now}
}

// alertLive returns the live copy of an alert. Of an alert that is repeated, only the repeats whose count is a power of
// two have one.
func alertLive(a *streams.Alert) []stage.Live {
	if bits.OnesCount64(a.Count) != 1 {
		return nil
	}
	return stage.LiveCopy(a, a.Project, "alert", a.Severity, a.Rule)
}

func verdictLive(project string, v *streams.VerdictEntry) []stage.Live {
	return stage.OwnCopy(project, "verdict", v.Verdict.String())
}

func holdLive(project string, v *streams.VerdictEntry, state string) []stage.Live {
	return stage.LiveCopy(v, project, "hold", v.Agent, v.Hold.ID, state)
}
