package arbiter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/gowebpki/jcs"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// summaryLen is how much of an action's arguments or of a memory's content a
// verdict repeats for its readers, in bytes.
const summaryLen = 400

// openAction notes what speaks against an action before any sentinel was
// asked.
func (f *Fold) openAction(st *stage.State, p *proposal, a *streams.ActionEntry, pol *policy.Policy) error {
	p.ID, p.Agent, p.Session, p.Tool = a.ID, a.Agent, a.Session, a.Tool
	p.Summary, p.Level = streams.Clip(string(a.Args), summaryLen), a.Level.String()
	level := a.Level
	var err error
	if p.Digest, err = actionDigest(p.Project, a); err != nil {
		return err
	}
	if pol != nil {
		// The policy in force here stands at the same place of the ledger as
		// the one that ingest classified by; the level can only have been
		// raised by the agent's own declaration.
		c := pol.Classify(a.Tool, a.Args, p.Project, a.Agent)
		c = c.Raise(a.Level)
		level, p.Level = c.Level, c.Level.String()
		switch {
		case c.Entry == "":
			p.reason(streams.CodeUnmatched, streams.Deny, "the policy has no entry for tool %q", streams.Clip(a.Tool, 80))
		case c.Floor > streams.Allow:
			p.reason(streams.CodeFloor, c.Floor, "%s by policy entry %q", c.Level, c.Entry)
		}
	}
	if a.Host != nil && *a.Host > streams.Allow {
		p.reason(streams.CodeHost, *a.Host, "the host asks for %s", *a.Host)
	}
	openSession(p, a.Unseen, a.Restored)
	p.Weighty = max(a.Level, level) > beliefs.L1
	p.rest(relDecision, streams.BeliefRef{}, a.Decision)
	for _, b := range a.Beliefs {
		p.rest(relCited, b, "")
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
			r.Code, r.Text = streams.CodeContextOnly, fmt.Sprintf("it cites belief %s, which may inform but not steer a tool call", b.ID)
		default:
			continue
		}
		p.Reasons = append(p.Reasons, r)
	}
	return nil
}

func openMemory(p *proposal, m *streams.MemoryEntry) {
	p.ID, p.Agent, p.Session = m.ID, m.Agent, m.Session
	p.Summary = streams.Clip(m.Content, summaryLen)
	if m.Key != "" {
		p.Tool = "memory:" + m.Key
	}
	p.Belief, p.From = &m.Belief, m.DerivedFrom
	openSession(p, m.Unseen, m.Restored)
}

func openRecall(p *proposal, r *streams.RecallEntry) {
	p.ID, p.Agent, p.Session = r.ID, r.Agent, r.Session
	p.Summary = streams.Clip(r.Query+r.Key, summaryLen)
	for _, items := range [][]streams.RecallItem{r.Admitted, r.ContextOnly, r.Contradictions} {
		for _, it := range items {
			p.rest(relFound, it.BeliefRef, "")
		}
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

// actionDigest binds an approval to the action: SHA-256 over the JCS form
// (RFC 8785) of who does what.
func actionDigest(project string, a *streams.ActionEntry) (string, error) {
	raw, err := streams.Marshal(struct {
		Project string `json:"project"`
		Agent   string `json:"agent"`
		Session string `json:"session"`
		ID      string `json:"id"`
		Tool    string `json:"tool"`
		Args    any    `json:"args"`
	}{project, a.Agent, a.Session, a.ID, a.Tool, a.Args})
	if err != nil {
		return "", fmt.Errorf("action %s: %w", a.ID, err)
	}
	canon, err := jcs.Transform(raw)
	if err != nil {
		// Arguments that RFC 8785 cannot express (a number beyond a double)
		// are bound by their bytes instead.
		canon = raw
	}
	sum := sha256.Sum256(canon)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// decide joins all that was said of a proposal into its verdict.
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
	if err := st.Delete(waitingKey(p)); err != nil {
		return nil, err
	}
	if v.Hold != nil {
		if err := f.openHold(st, p, v, now); err != nil {
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
	switch {
	case p.Type == streams.TypeRecall && v.Verdict == streams.Allow:
		err = served(st, p)
	case p.Type == streams.TypeMemory:
		err = derive(st, p)
	}
	if err != nil {
		return nil, err
	}
	live := verdictLive(p.Project, v)
	if v.Hold != nil {
		live = append(live, holdLive(p.Project, v, "open")...)
	}
	return stage.NewOutput(streams.TypeVerdict, p.Project, v, live...)
}

func (f *Fold) verdict(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*streams.VerdictEntry, error) {
	v := &streams.VerdictEntry{Proposal: p.Seq, Type: p.Type, ID: p.ID, Agent: p.Agent, Session: p.Session, Tool: p.Tool,
		Summary: p.Summary, Policy: p.Policy, Rules: p.Rules, Level: p.Level, Digest: p.Digest, Time: now}
	for _, g := range p.Groups {
		if p.answered(g) {
			continue
		}
		silent := streams.Hold
		if pol != nil {
			silent = silent.Join(pol.OnSilent)
		}
		v.Degraded = append(v.Degraded, g.Group)
		p.Reasons = append(p.Reasons, streams.Reason{Code: streams.CodeSilent, Verdict: silent, Group: g.Group, Text: p.silence(g)})
	}
	rests, err := f.bearing(st, p)
	if err != nil {
		return nil, err
	}
	p.Reasons = append(p.Reasons, rests...)
	v.Verdict, v.Reasons = p.judge()
	if pol != nil && pol.Learn() {
		would := v.Verdict
		v.Would, v.Learn, v.Verdict = &would, true, streams.Allow
		v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeLearn, Verdict: streams.Allow,
			Text: "the policy is in learn mode; it would have answered " + would.String()})
	}
	if v.Verdict == streams.Hold && p.Type == streams.TypeAction && !v.Learn {
		n, err := openHolds(st, p.Project, p.Agent)
		if err != nil {
			return nil, err
		}
		if pol != nil && pol.MaxOpenHolds > 0 && n >= pol.MaxOpenHolds {
			p.reason(streams.CodeHoldBudget, streams.Deny, "agent %s has %d holds open, the policy admits %d", p.Agent, n, pol.MaxOpenHolds)
			v.Verdict, v.Reasons = p.judge()
		}
	}
	if v.Verdict == streams.Hold && p.Type != streams.TypeRecall {
		expiry := policy.DefaultHoldExpiry
		if pol != nil {
			expiry = pol.HoldExpiry
		}
		v.Hold = &streams.HoldRef{ID: holdID(p), Revision: revision(v.Reasons), Expires: now.Add(expiry)}
	}
	if p.Type == streams.TypeMemory && p.Belief != nil {
		b := *p.Belief
		admitBelief(&b, v.Verdict)
		v.Belief = &b
	}
	return v, nil
}

// judge is the join of all that is known of a proposal. Whoever says something
// against it is heard, required or not: an answer under other rules proves
// nothing, but what it found still counts.
func (p *proposal) judge() (streams.Verdict, []streams.Reason) {
	facts := make([][]streams.Reason, 0, len(p.Answers)+1)
	facts = append(facts, p.Reasons)
	for _, a := range p.Answers {
		facts = append(facts, a.Reasons)
	}
	return judge(facts...)
}

// silence says why a group counts as silent, to whoever has to mend it.
func (p *proposal) silence(g required) string {
	for _, a := range p.Answers {
		switch {
		case a.Group != g.Group:
			continue
		case a.Other != "":
			return fmt.Sprintf("sentinel group %q answered under digest %q, wanted is %q", g.Group, streams.Clip(a.Other, 80), g.Digest)
		case a.Mute:
			return fmt.Sprintf("sentinel group %q answered without a verdict or without a digest", g.Group)
		}
	}
	return fmt.Sprintf("sentinel group %q had not answered by %s", g.Group, g.Until.Format(time.RFC3339Nano))
}

// holdID is derived from what is held, so that every process gives it the
// same name.
func holdID(p *proposal) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "hold\x00%s\x00%s\x00%s\x00%d", p.Project, p.Agent, p.ID, p.Seq))
	return "h" + hex.EncodeToString(sum[:8])
}

// revision is the digest of the reasons that speak against a proposal, as an
// approver gets to see them.
func revision(reasons []streams.Reason) string {
	reasons = slices.DeleteFunc(slices.Clone(reasons), func(r streams.Reason) bool { return r.Verdict == streams.Allow })
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
