package arbiter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// summaryLen is how much of an action's arguments or of a memory's content a
// verdict repeats for its readers, in bytes.
const summaryLen = 400

// classify is what a policy makes of an action: by its entries, by what the tool
// says of itself, and by where it reaches and what it touches.
// declared is the level that the agent itself says, which can only raise it.
func classify(pol *policy.Policy, tool string, args, hints []byte, project, agent string, declared beliefs.Level) policy.Class {
	return pol.Guard(pol.Classify(tool, args, project, agent).RaiseByAnnotations(hints).Raise(declared), args)
}

// openAction notes what speaks against an action before any sentinel was asked.
// It returns what the policy makes of the action.
func (f *Fold) openAction(st *stage.State, p *proposal, a *streams.ActionEntry, pol *policy.Policy) (class policy.Class, err error) {
	p.ID, p.Agent, p.Session, p.Tool = a.ID, a.Agent, a.Session, a.Tool
	p.Summary, p.Level, p.Body = streams.Clip(string(a.Args), summaryLen), a.Level.String(), string(a.Args)
	p.Hints = string(a.Annotations)
	if p.Digest, err = approval.ActionDigest(p.Project, a.Agent, a.Session, a.ID, a.Tool, a.Args); err != nil {
		return class, err
	}
	if pol != nil {
		// The policy in force here stands at the same place of the ledger as
		// the one that ingest classified by; the level can only have been
		// raised by the agent's own declaration.
		class = classify(pol, a.Tool, a.Args, a.Annotations, p.Project, a.Agent, a.Level)
		p.Level = class.Level.String()
		p.Reasons = append(p.Reasons, foremost(class.Reasons)...)
	}
	if a.Host != nil && *a.Host > streams.Allow {
		p.reason(streams.CodeHost, *a.Host, "the host asks for %s", *a.Host)
	}
	openSession(p, a.Unseen, a.Restored)
	for _, b := range a.Beliefs {
		p.Cited = append(p.Cited, b.ID)
		path := []string{"action:" + a.ID, "belief:" + b.ID}
		if b.Observation != "" {
			path = append(path, "observation:"+b.Observation)
		}
		if b.Source != "" {
			path = append(path, "source:"+b.Source)
		}
		r := streams.Reason{Code: streams.CodeBelief, Verdict: streams.Hold, Path: path}
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
			r.Code, r.Text = streams.CodeContextOnly, fmt.Sprintf("it cites belief %s, which may inform but not steer a tool call", b.ID)
		default:
			continue
		}
		p.Reasons = append(p.Reasons, r)
	}
	return class, nil
}

// foremost are those reasons of a class that a verdict repeats: not more than
// of an answer, the strictest first.
func foremost(reasons []streams.Reason) []streams.Reason {
	out := slices.Clone(reasons)
	slices.SortStableFunc(out, func(a, b streams.Reason) int { return cmp.Compare(b.Verdict, a.Verdict) })
	out = out[:min(len(out), maxReasons)]
	for i := range out {
		out[i].Text = streams.Clip(out[i].Text, maxReasonText)
	}
	return out
}

func openMemory(p *proposal, m *streams.MemoryEntry) (err error) {
	p.ID, p.Agent, p.Session = m.ID, m.Agent, m.Session
	p.Summary = streams.Clip(m.Content, summaryLen)
	if m.Key != "" {
		p.Tool = "memory:" + m.Key
	}
	p.Belief, p.Body = &m.Belief, m.Content
	openSession(p, m.Unseen, m.Restored)
	p.Digest, err = approval.MemoryDigest(p.Project, m.Agent, m.Session, m.ID, m.Key, m.Content)
	return err
}

func openRecall(p *proposal, r *streams.RecallEntry) {
	p.ID, p.Agent, p.Session = r.ID, r.Agent, r.Session
	p.Summary = streams.Clip(r.Query+r.Key, summaryLen)
	for it := range recalled(r) {
		p.Items = append(p.Items, it.ID)
	}
	openSession(p, r.Unseen, r.Restored)
}

func openSession(p *proposal, unseen, restored bool) {
	if unseen {
		p.reason(streams.CodeUnseen, streams.Hold, "the session holds an observation that was rejected, so nobody has judged what the agent saw")
	}
	if restored {
		p.reason(streams.CodeRestored, streams.Hold, "it names an acknowledged intake sequence that this intake never gave out")
	}
}

// decide joins all that was said of a proposal into its verdict.
func (f *Fold) decide(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*stage.Output, error) {
	v, err := f.verdict(st, p, pol, now)
	if err != nil {
		return nil, err
	}
	decided := v.Verdict
	p.Decided = &decided
	if err := f.dropTimer(st, p.Deadline, timerDeadline, seqKey(p.Seq)); err != nil {
		return nil, err
	}
	if err := st.Delete(waitingKey(p)); err != nil {
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
	// Kept while a late assessment can still tighten it; timers drop it.
	if err := f.keepForLate(st, p, now); err != nil {
		return nil, err
	}
	if err := st.Put(stage.Key(keyVerdict, p.Project, p.Agent, p.ID), v); err != nil {
		return nil, err
	}
	live := verdictLive(p.Project, v)
	if v.Hold != nil {
		live = append(live, holdLive(p.Project, v, "open")...)
	}
	return f.output(p, v, live)
}

// output is a verdict's entry.
func (f *Fold) output(p *proposal, v *streams.VerdictEntry, live []stage.Live) (*stage.Output, error) {
	out, err := stage.NewOutput(streams.TypeVerdict, p.Project, v, live...)
	if err == nil && f.Metrics != nil {
		out.Note = &metrics.Verdict{Entry: v, Proposed: p.Stamp}
	}
	return out, err
}

func (f *Fold) verdict(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*streams.VerdictEntry, error) {
	v := &streams.VerdictEntry{Proposal: p.Seq, Type: p.Type, ID: p.ID, Agent: p.Agent, Session: p.Session, Tool: p.Tool,
		Summary: p.Summary, Policy: p.Policy, Rules: p.Rules, Level: p.Level, Digest: p.Digest, Time: now}
	add := func(r streams.Reason) {
		v.Verdict = v.Verdict.Join(r.Verdict)
		v.Reasons = append(v.Reasons, r)
	}
	for _, r := range p.Reasons {
		add(r)
	}
	for _, id := range p.Cited {
		var r streams.Reason
		ok, err := st.Load(stage.Key(keyBelief, p.Project, id), &r)
		if err != nil {
			return nil, err
		}
		if ok {
			add(r)
		}
	}
	// Whoever says something against the proposal is heard, required or not.
	// An answer under other rules proves nothing, but what it found still
	// counts.
	for _, a := range p.Answers {
		for _, r := range a.Reasons {
			add(r)
		}
	}
	for _, g := range p.Groups {
		if p.answered(g) {
			continue
		}
		silent := streams.Hold
		if pol != nil {
			silent = silent.Join(pol.OnSilent)
		}
		v.Degraded = append(v.Degraded, g.Group)
		add(streams.Reason{Code: streams.CodeSilent, Verdict: silent, Group: g.Group, Text: p.silence(g)})
	}
	stands(p, pol, v, now)
	if pol != nil && pol.Learn() {
		would := v.Verdict
		v.Would, v.Learn, v.Verdict = &would, true, streams.Allow
		v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeLearn, Verdict: streams.Allow,
			Text: "the policy is in learn mode; it would have answered " + would.String()})
	}
	if v.Verdict == streams.Hold && p.Type == streams.TypeAction && !p.Withdrawn {
		over, err := overBudget(st, p, pol, now)
		if err != nil {
			return nil, err
		}
		if over != nil {
			add(*over)
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
	if p.Type == streams.TypeMemory && p.Belief != nil {
		b := *p.Belief
		admitBelief(&b, v.Verdict)
		v.Belief = &b
	}
	return v, nil
}

// silence says why a group counts as silent, to whoever has to mend it.
func (p *proposal) silence(g required) string {
	for _, a := range p.Answers {
		switch {
		case a.Group != g.Group:
			continue
		case a.Digest == "":
			return fmt.Sprintf("sentinel group %q answered without a verdict or without a digest", g.Group)
		}
		return fmt.Sprintf("sentinel group %q answered under digest %q, wanted is %q", g.Group, streams.Clip(a.Digest, 80), g.Digest)
	}
	return fmt.Sprintf("sentinel group %q had not answered by %s", g.Group, g.Until.Format(time.RFC3339Nano))
}

// tighten lets a late assessment make a given verdict stricter, or add to what
// is done to recalled texts. It never makes anything milder, and says nothing
// when it changes nothing.
func (f *Fold) tighten(st *stage.State, p *proposal, pol *policy.Policy, late answer, texts bool, now time.Time) (*stage.Output, error) {
	if err := st.Put(proposalKey(p.Seq), p); err != nil {
		return nil, err
	}
	if pol != nil && pol.Learn() {
		return nil, nil
	}
	if !texts && late.Verdict == streams.Hold && *p.Decided == streams.Hold {
		return f.amend(st, p, late, now)
	}
	if late.Verdict <= *p.Decided && !texts {
		return nil, nil
	}
	v := new(streams.VerdictEntry)
	key := stage.Key(keyVerdict, p.Project, p.Agent, p.ID)
	ok, err := st.Load(key, v)
	if err != nil || !ok {
		return nil, err
	}
	if v.Time, v.Late, v.Texts = now, true, textEffects(p.Texts); late.Verdict > v.Verdict {
		v.Verdict, v.Resolved = late.Verdict, nil
		v.Reasons = append(v.Reasons, late.Reasons...)
	}
	live := verdictLive(p.Project, v)
	if v.Hold != nil && v.Verdict == streams.Deny {
		if err := f.closeHold(st, p.Project, v.Hold.ID, "denied"); err != nil {
			return nil, err
		}
		live = append(live, holdLive(p.Project, v, "denied")...)
		v.Hold = nil
	} else if v.Verdict == streams.Hold && v.Hold == nil && p.Type != streams.TypeRecall && !p.Withdrawn {
		expiry := policy.DefaultHoldExpiry
		if pol != nil {
			expiry = pol.HoldExpiry
		}
		v.Hold = &streams.HoldRef{ID: holdID(p), Revision: revision(v.Reasons), Expires: now.Add(expiry)}
		if err := f.openHold(st, p, v, now); err != nil {
			return nil, err
		}
		if err := noteHold(st, p, pol, now); err != nil {
			return nil, err
		}
		live = append(live, holdLive(p.Project, v, "open")...)
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
	return f.output(p, v, live)
}

// holdID is derived from what is held, so that every process gives it the
// same name.
func holdID(p *proposal) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "hold\x00%s\x00%s\x00%s\x00%d", p.Project, p.Agent, p.ID, p.Seq))
	return "h" + hex.EncodeToString(sum[:8])
}

// revision is the digest of the reasons that an approver gets to see.
func revision(reasons []streams.Reason) string {
	b, err := streams.Marshal(reasons)
	if err != nil {
		b = fmt.Append(nil, reasons)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func verdictLive(project string, v *streams.VerdictEntry) []stage.Live {
	return stage.LiveCopy(v, project, "verdict", v.Verdict.String())
}

func holdLive(project string, v *streams.VerdictEntry, state string) []stage.Live {
	return stage.LiveCopy(v, project, "hold", v.Agent, v.Hold.ID, state)
}
