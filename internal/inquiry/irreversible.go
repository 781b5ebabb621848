package inquiry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Act is an action that cannot be undone: declared or classified irreversible,
// or of L4 and above, which reaches beyond what the agent can take back.
type Act struct {
	Project       string                `json:"project"`
	Agent         string                `json:"agent"`
	Session       string                `json:"session"`
	ID            string                `json:"id"`
	Tool          string                `json:"tool"`
	Level         beliefs.Level         `json:"level"`
	Reversibility beliefs.Reversibility `json:"reversibility"`
	Proposed      Cite                  `json:"proposed"`
	Verdict       string                `json:"verdict"` // the last one before it ran, or the last of all
	Policy        string                `json:"policy,omitzero"`
	VerdictAt     *Cite                 `json:"verdict_entry,omitzero"`
	// Ran is the outcome that says it was carried out.
	Ran *Cite `json:"ran,omitzero"`
	// Again are further outcomes that say so. A release is good for one execution.
	Again []Cite `json:"again,omitzero"`
	// Other is the outcome that says that something else ran under its name: its
	// digest is not that of what was released.
	Other *Cite `json:"other,omitzero"`
	// Approval is what a person signed for it before it ran.
	Approval *Promotion `json:"approval,omitzero"`
	Why      string     `json:"why"`
}

// Cite names a leaf.
type Cite struct {
	Index int64     `json:"index"`
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
}

func cite(e *Entry) Cite { return Cite{e.Index, e.Seq, e.Time} }

// maxAgain bounds the outcomes that are cited for one action.
const maxAgain = 16

// Irreversible is the answer to "did anything irreversible run without
// approval".
type Irreversible struct {
	Proposed  int       `json:"proposed"` // irreversible actions that were proposed
	Findings  []Act     `json:"findings"` // carried out, or released, without an approval, or not as approved
	Approved  []Act     `json:"approved"` // carried out or released with one
	Integrity Integrity `json:"integrity"`
}

// act is an action while the log is read.
type act struct {
	Act
	verdict streams.Verdict
	known   bool   // it has a verdict
	digest  string // of what the verdict is on
	again   int
}

// outcome takes in an executor's report.
func (x *act) outcome(e *Entry, o *streams.OutcomeEntry) {
	c := cite(e)
	switch {
	case o.Digest != "" && x.digest != "" && o.Digest != x.digest:
		if x.Other == nil {
			x.Other = &c
		}
	case x.Ran == nil:
		x.Ran = &c
	default:
		if x.again++; len(x.Again) < maxAgain {
			x.Again = append(x.Again, c)
		}
	}
}

// The arbiter's alerts about executions.
const (
	ruleMismatch   = "outcome-mismatch"
	ruleUnreleased = "outcome-unreleased"
	ruleRepeated   = "outcome-repeated"
)

// incidents are executions that the arbiter found to differ from the named action,
// unjudged ones, and second ones of one release, of actions that are not irreversible by
// themselves.
func incidents(e *Entry, acts map[[3]string]*act) ([]Act, error) {
	a := new(streams.AlertsEntry)
	if err := e.decode(a); err != nil {
		return nil, err
	}
	var out []Act
	for _, al := range a.Alerts {
		key := [3]string{e.Project, al.Agent, al.Subject.ID}
		if al.Rule != ruleMismatch && al.Rule != ruleUnreleased && al.Rule != ruleRepeated || al.Subject.Kind != "action" ||
			acts[key] != nil {
			continue
		}
		verdict, _ := al.Detail["verdict"].(string)
		why := "something else ran under its name, which nobody judged"
		if al.Rule == ruleRepeated {
			why = "it ran again, and it was released once; by the policy it can be undone"
		}
		if al.Rule == ruleUnreleased {
			reported, _ := al.Detail["reported"].(string)
			released, _ := al.Detail["released"].(string)
			if released != "" && (reported == "" || reported == released) {
				continue // an action that was judged, and is not irreversible
			}
			why = "it ran, and nobody judged it"
		}
		c := cite(e)
		out = append(out, Act{Project: e.Project, Agent: al.Agent, Session: al.Session, ID: al.Subject.ID, Proposed: c,
			Verdict: verdict,
			Ran:     &c, Why: why})
	}
	return out, nil
}

// IrreversibleActs looks through the whole log for irreversible actions that
// ran, or were released to run, without a person's signature or a standing
// permission of the signed policy.
func (l *Log) IrreversibleActs(ctx context.Context, project string) (*Irreversible, error) {
	acts := make(map[[3]string]*act)
	var order []*act
	var others []Act
	err := l.Range(ctx, 0, l.Size(), func(e *Entry) bool {
		switch streams.Type(e.Type) {
		case streams.TypeAction, streams.TypeVerdict, streams.TypeOutcome, streams.TypeAlerts:
			return project == "" || e.Project == project
		}
		return false
	}, func(e *Entry) error {
		if e.Body == nil {
			return nil
		}
		switch {
		case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeAction:
			a := new(streams.ActionEntry)
			if err := e.decode(a); err != nil {
				return err
			}
			if a.Level < beliefs.L4 && a.Reversibility != beliefs.Irreversible {
				return nil
			}
			x := &act{Act: Act{Project: e.Project, Agent: a.Agent, Session: a.Session, ID: a.ID, Tool: a.Tool, Level: a.Level,
				Reversibility: a.Reversibility, Proposed: cite(e), Verdict: "none"}}
			acts[[3]string{e.Project, a.Agent, a.ID}] = x
			order = append(order, x)
		case e.Stage == streams.StageArbiter && streams.Type(e.Type) == streams.TypeVerdict:
			v := new(streams.VerdictEntry)
			if err := e.decode(v); err != nil {
				return err
			}
			x := acts[[3]string{e.Project, v.Agent, v.ID}]
			if x == nil || v.Type != streams.TypeAction || v.Again || x.Ran != nil {
				return nil
			}
			c := cite(e)
			x.verdict, x.known, x.Verdict, x.VerdictAt, x.Policy = v.Verdict, true, v.Verdict.String(), &c, v.Policy
			x.digest = v.Digest
			if v.Learn {
				x.Verdict += " (learn mode: nothing is enforced)"
				x.verdict = streams.Allow
			}
			if v.Resolved != nil && v.Resolved.State == streams.HoldApproved {
				x.Approval = &Promotion{By: v.Resolved.By, How: "signed approval of hold " + v.Resolved.Hold,
					Reason: v.Resolved.Reason, Index: e.Index, Seq: e.Seq, Time: e.Time}
			} else if i := slices.IndexFunc(v.Reasons, func(r streams.Reason) bool {
				return r.Code == streams.CodeStanding || r.Code == streams.CodeDelegated
			}); i >= 0 {
				x.Approval = &Promotion{By: "policy " + v.Policy, How: how(v.Reasons[i].Code), Reason: v.Reasons[i].Text,
					Index: e.Index, Seq: e.Seq, Time: e.Time}
			} else {
				x.Approval = nil
			}
		case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeOutcome:
			o := new(streams.OutcomeEntry)
			if err := e.decode(o); err != nil {
				return err
			}
			x := acts[[3]string{e.Project, o.Agent, o.Action}]
			if x != nil && o.Ran() {
				x.outcome(e, o)
			}
		case e.Stage == streams.StageArbiter && streams.Type(e.Type) == streams.TypeAlerts:
			more, err := incidents(e, acts)
			if err != nil {
				return err
			}
			others = append(others, more...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &Irreversible{Proposed: len(order), Findings: []Act{}, Approved: []Act{}}
	for _, x := range order {
		released := x.known && x.verdict == streams.Allow
		if x.Ran == nil && x.Other == nil && !released {
			continue
		}
		if err := l.proveLeaf(ctx, x.Proposed.Index); err != nil {
			return nil, err
		}
		if released && x.Approval != nil && x.again == 0 && x.Other == nil {
			x.Why = x.Approval.How
			out.Approved = append(out.Approved, x.Act)
			continue
		}
		switch {
		case x.Other != nil:
			x.Why = "something else ran under its name: the digest that was reported is not that of what was released"
		case x.Ran != nil && x.again > 0 && released:
			x.Why = fmt.Sprintf("it ran %d times, and it was released once", 1+x.again)
		case x.Ran != nil && !x.known:
			x.Why = "it ran before any verdict was given on it"
		case x.Ran != nil && !released:
			x.Why = fmt.Sprintf("it ran although its verdict was %s", x.Verdict)
		case x.Ran != nil:
			x.Why = "it ran, allowed by policy alone, and nobody approved it"
		default:
			x.Why = "it was released by policy alone; the log does not say that it ran"
		}
		out.Findings = append(out.Findings, x.Act)
	}
	for i := range others {
		if err := l.proveLeaf(ctx, others[i].Proposed.Index); err != nil {
			return nil, err
		}
	}
	out.Findings = append(out.Findings, others...)
	out.Integrity = l.told
	return out, nil
}

// how says by what part of a policy an action was permitted.
func how(c streams.Code) string {
	if c == streams.CodeDelegated {
		return "delegation"
	}
	return "standing permission"
}
