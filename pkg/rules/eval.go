package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"lazaret/streams"
)

// Evaluator judges entries by the rules of one sentinel group. It is safe for
// concurrent use with different stores.
type Evaluator struct {
	group string
	// byKind holds the rules that look at a kind of entry, by id.
	byKind map[string][]*Rule
	wants  map[string]wants
}

func newEvaluator(group string) *Evaluator {
	return &Evaluator{group: group, byKind: make(map[string][]*Rule), wants: make(map[string]wants)}
}

func (ev *Evaluator) add(r *Rule) {
	if r.Mode == "off" {
		return
	}
	for _, k := range r.On {
		ev.byKind[k] = append(ev.byKind[k], r)
		ev.wants[k] |= r.wants
	}
}

func (ev *Evaluator) sort() {
	for _, rs := range ev.byKind {
		slices.SortFunc(rs, func(a, b *Rule) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// Result is what a group makes of one entry.
type Result struct {
	// Alerts are what is to be published: of repeated ones those whose count
	// is a power of two; on a proposal all.
	Alerts []streams.Alert
	// Verdict is what the enforced rules ask for; it matters on proposals.
	Verdict streams.Verdict
}

// Eval folds one entry into the signals and judges it. It fails only if the
// store does, or if the entry is not what its type says.
func (ev *Evaluator) Eval(st Store, e *streams.Entry) (Result, error) {
	var res Result
	kind := string(e.Type)
	rules := ev.byKind[kind]
	if len(rules) == 0 && !keepsSignals(e.Type) {
		return res, nil
	}
	inputs, err := read(e)
	if err != nil {
		return res, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	proposal := e.Type.Proposal()
	for _, in := range inputs {
		if err := observe(st, in, ev.wants[kind]); err != nil {
			return res, err
		}
		act := activation(in)
		for _, r := range rules {
			for _, a := range ev.fire(r, in, act, e) {
				if a.Mode != "shadow" {
					res.Verdict = res.Verdict.Join(verdictOf(a.Effect, e.Type))
				}
				publish, err := fold(st, &a)
				if err != nil {
					return res, err
				}
				if publish || proposal {
					res.Alerts = append(res.Alerts, a)
				}
			}
		}
	}
	return res, nil
}

// verdictOf is what an effect means for a proposal. On a memory write the
// effects on beliefs are effects on the write.
func verdictOf(effect string, t streams.Type) streams.Verdict {
	switch {
	case effect == "deny", effect == "quarantine" && t == streams.TypeMemory:
		return streams.Deny
	case effect == "hold", effect == "restrict" && t == streams.TypeMemory:
		return streams.Hold
	}
	return streams.Allow
}

func activation(in *Input) map[string]any {
	return map[string]any{"event": in.Event, "content": in.Content, "memory": in.Memory, "decision": in.Decision,
		"action": in.Action, "recall": in.Recall, "signal": in.Signal, "it": nil}
}

// fire evaluates one rule on one input.
func (ev *Evaluator) fire(r *Rule, in *Input, act map[string]any, e *streams.Entry) []streams.Alert {
	act["lists"] = r.lists
	items := []ref.Val{nil}
	if r.forEach != nil {
		v, err := eval(r.forEach, act)
		if err != nil {
			return []streams.Alert{ev.failed(r, in, e, err)}
		}
		l, ok := v.(traits.Lister)
		if !ok {
			return []streams.Alert{ev.failed(r, in, e, fmt.Errorf("for_each gives no list"))}
		}
		items = items[:0]
		for it := l.Iterator(); it.HasNext() == trueVal; {
			items = append(items, it.Next())
		}
	}
	var out []streams.Alert
	for _, it := range items {
		act["it"] = it
		v, err := eval(r.when, act)
		if err != nil {
			out = append(out, ev.failed(r, in, e, err))
			continue
		}
		if v != trueVal {
			continue
		}
		a := ev.alert(r, in, e)
		if r.subjectID != nil {
			if v, err := eval(r.subjectID, act); err == nil {
				a.Subject.ID, _ = v.Value().(string)
			}
		}
		if v, err := eval(r.message, act); err == nil {
			a.Message, _ = v.Value().(string)
		} else {
			a.Message = r.Title
		}
		a.ID = alertID(e, r, a.Subject)
		out = append(out, a)
	}
	return out
}

func eval(p cel.Program, act map[string]any) (ref.Val, error) {
	v, _, err := p.Eval(act)
	return v, err
}

// failed is the alert of a rule that could not be evaluated: it counts as
// firing.
func (ev *Evaluator) failed(r *Rule, in *Input, e *streams.Entry, err error) streams.Alert {
	a := ev.alert(r, in, e)
	a.Effect = r.OnError
	a.Error = streams.Clip(err.Error(), 300)
	a.Message = "the rule could not be evaluated, and counts as firing: " + r.Title
	a.ID = alertID(e, r, a.Subject)
	return a
}

func (ev *Evaluator) alert(r *Rule, in *Input, e *streams.Entry) streams.Alert {
	return streams.Alert{Rule: r.ID, RuleDigest: r.Digest, Group: ev.group, Severity: r.Severity, Subject: subject(r, in),
		Project: e.Project, Agent: in.Event.Agent, Session: in.Event.Session, Events: []string{in.Event.ID}, Effect: r.Effect, Mode: r.Mode,
		Count: 1, Time: in.Event.Time, Detail: detail(in)}
}

// detail is what of the input explains an alert, in few words.
func detail(in *Input) map[string]any {
	d := make(map[string]any)
	if len(in.Content.Markers) > 0 {
		d["markers"] = in.Content.Markers
	}
	if in.Event.Source != "" {
		d["source"] = streams.Clip(in.Event.Source, 200)
	}
	if in.Event.Tool != "" {
		d["tool"] = streams.Clip(in.Event.Tool, 200)
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

// subject is what an alert names, unless the rule's subject_id says more.
func subject(r *Rule, in *Input) streams.AlertSubject {
	s := streams.AlertSubject{Kind: r.Subject, ID: in.Event.ID}
	switch r.Subject {
	case "session":
		s.ID = in.Event.Session
	case "source":
		if s.ID = in.Event.Source; s.ID == "" {
			s.ID = in.Event.Tool
		}
	case "belief":
		if in.Memory.Belief.ID != "" {
			s.ID = in.Memory.Belief.ID
		}
	}
	s.ID = streams.Clip(s.ID, 200)
	return s
}

func alertID(e *streams.Entry, r *Rule, s streams.AlertSubject) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{e.Project, fmt.Sprint(e.Seq), r.ID, s.Kind, s.ID}, "\x00")))
	return "a" + hex.EncodeToString(sum[:8])
}
