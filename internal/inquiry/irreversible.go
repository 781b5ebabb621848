package inquiry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Act is an action that cannot be undone: declared or classified irreversible, or of level L4 or above,
// whose effects the agent cannot take back.
type Act struct {
	Project       string                `json:"project"`
	Agent         string                `json:"agent"`
	Session       string                `json:"session"`
	ID            string                `json:"id"`
	Tool          string                `json:"tool"`
	Level         beliefs.Level         `json:"level"`
	Reversibility beliefs.Reversibility `json:"reversibility"`
	Proposed      Cite                  `json:"proposed"`
	// Verdict is the last verdict before the execution. If the action was not executed, it is the last verdict.
	Verdict   string `json:"verdict"`
	Policy    string `json:"policy,omitzero"`
	VerdictAt *Cite  `json:"verdict_entry,omitzero"`
	// Ran is the outcome that reports its execution.
	Ran *Cite `json:"ran,omitzero"`
	// Again are outcomes that report further executions. A release permits one.
	Again []Cite `json:"again,omitzero"`
	// Other is an outcome whose digest differs from the released action: something else was executed
	// under its name.
	Other *Cite `json:"other,omitzero"`
	// Approval is the signed approval before its execution.
	Approval *Promotion `json:"approval,omitzero"`
	Why      string     `json:"why"`
}

// Cite refers to a leaf.
type Cite struct {
	Index int64     `json:"index"`
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
}

func cite(e *Entry) Cite { return Cite{e.Index, e.Seq, e.Time} }

// maxAgain is the maximum number of outcomes in Act.Again. Further ones are only counted.
const maxAgain = 16

// Irreversible is the answer to the question whether anything irreversible ran without approval.
type Irreversible struct {
	Proposed  int       `json:"proposed"` // number of proposed irreversible actions
	Unread    int       `json:"unread"`   // entries about actions whose payloads were erased or are not held
	Findings  []Act     `json:"findings"` // executed or released without approval, or not as approved
	Approved  []Act     `json:"approved"` // executed or released with approval
	Integrity Integrity `json:"integrity"`
}

// act collects the data of an action while the log is read.
type act struct {
	Act
	verdict streams.Verdict
	known   bool   // the action has a verdict
	digest  string // digest of the action to which the verdict applies
	again   int
}

// outcome records an executor's report about the action.
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

// The rules of the arbiter's alerts about executions.
const (
	ruleMismatch   = "outcome-mismatch"
	ruleUnreleased = "outcome-unreleased"
	ruleRepeated   = "outcome-repeated"
)

// incidents returns the executions that the arbiter reported: different from the named action, without a verdict, or
// repeated after one release. It skips the actions in acts. Of the executions without a release, it skips those of
// actions that have a verdict: they are not in acts, so they are not irreversible.
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
		why := "something else was executed under its name, without a verdict"
		if al.Rule == ruleRepeated {
			why = "it was executed again after a single release; the policy classifies it as reversible"
		}
		if al.Rule == ruleUnreleased {
			reported, _ := al.Detail["reported"].(string)
			released, _ := al.Detail["released"].(string)
			if released != "" && (reported == "" || reported == released) {
				continue // a judged action that is not irreversible
			}
			why = "it was executed without a verdict"
		}
		c := cite(e)
		out = append(out, Act{Project: e.Project, Agent: al.Agent, Session: al.Session, ID: al.Subject.ID, Proposed: c,
			Verdict: verdict, Ran: &c, Why: why})
	}
	return out, nil
}

// judge records a verdict on the action.
func (x *act) judge(e *Entry, v *streams.VerdictEntry) {
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
	} else if u := v.Covered; u != nil {
		x.Approval = &Promotion{By: u.By, How: fmt.Sprintf("signed approval of its source with hold %s, action %d of %d",
			u.Hold, u.Number, u.Actions), Index: e.Index, Seq: e.Seq, Time: e.Time}
	} else if i := slices.IndexFunc(v.Reasons, func(r streams.Reason) bool {
		return r.Code == streams.CodeStanding || r.Code == streams.CodeDelegated
	}); i >= 0 {
		x.Approval = &Promotion{By: "policy " + v.Policy, How: how(v.Reasons[i].Code), Reason: v.Reasons[i].Text,
			Index: e.Index, Seq: e.Seq, Time: e.Time}
	} else {
		x.Approval = nil
	}
}

// why says what is wrong with an action that no person approved.
func (x *act) why(released bool) string {
	switch {
	case x.Other != nil:
		return "something else was executed under its name: the reported digest is not that of the released action"
	case x.Ran != nil && x.again > 0 && released:
		return fmt.Sprintf("it was executed %d times after a single release", 1+x.again)
	case x.Ran != nil && !x.known:
		return "it was executed before its verdict"
	case x.Ran != nil && !released:
		return fmt.Sprintf("it was executed although its verdict was %s", x.Verdict)
	case x.Ran != nil:
		return "it was executed, allowed only by policy, without an approval"
	}
	return "it was released only by policy; the log has no record of its execution"
}

// IrreversibleActs searches the whole log for irreversible actions that were executed or released
// without a person's signature or a standing permission of the signed policy.
func (l *Log) IrreversibleActs(ctx context.Context, project string) (*Irreversible, error) {
	acts := make(map[[3]string]*act)
	var order []*act
	var others []Act
	unread := 0
	err := l.Range(ctx, 0, l.Size(), func(e *Entry) bool {
		switch streams.Type(e.Type) {
		case streams.TypeAction, streams.TypeVerdict, streams.TypeOutcome, streams.TypeAlerts:
			return project == "" || e.Project == project
		}
		return false
	}, func(e *Entry) error {
		if e.Body == nil {
			unread += e.unread()
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
			x.judge(e, v)
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
	out := &Irreversible{Proposed: len(order), Unread: unread, Findings: []Act{}, Approved: []Act{}}
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
		x.Why = x.why(released)
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

// how returns the part of a policy that permitted an action.
func how(c streams.Code) string {
	if c == streams.CodeDelegated {
		return "delegation"
	}
	return "standing permission"
}
