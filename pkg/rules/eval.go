package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"lazaret/pkg/position"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// tableAlerts counts repeated alerts.
var tableAlerts = index.NewTable(8, "alerts", 50_000)

// Evaluator evaluates the rules of one sentinel group on entries. Several goroutines may use it at the same time if
// each uses another store.
type Evaluator struct {
	Group    string
	rules    []*Rule
	vars     *compiled.Vars
	declared []*DeclaredSignal
	scopes   map[string]*compiled.Scope
	byKind   map[string]*kindRules
	only     signals.Parts // parts of the state that are updated
	// exhaustive makes the evaluator evaluate every rule, without the index. Tests compare its results with those of
	// the index.
	exhaustive bool
	observer   Observer
}

// Observer is notified of each rule that an Evaluator evaluates, for metrics. It cannot change the result. If several
// goroutines use the evaluator, they call the observer at the same time.
type Observer interface {
	// Begin is called before a rule is evaluated on one input. If the evaluation is to be timed, it returns the current
	// time, and otherwise the zero time. The evaluator passes that value to End.
	Begin(r *Rule) time.Time
	// End is called after the evaluation, with the alerts that it raised. If an alert has an Error, the rule failed. A
	// rule that fails counts as firing.
	End(r *Rule, began time.Time, alerts []streams.Alert)
}

// Observe sets the evaluator's observer. It must be called before the first evaluation.
func (ev *Evaluator) Observe(o Observer) { ev.observer = o }

// kindRules has the rules for one kind of event, ordered by id, and the index over their
// conditions.
type kindRules struct {
	*compiled.Index
	rules    []*Rule
	noted    []*DeclaredSignal // declared signals that use the kind
	proposal bool
	pool     sync.Pool // of *work
}

func (ev *Evaluator) build(s *Set) {
	ev.vars, ev.declared, ev.scopes, ev.only = s.Vars, s.Declared, s.Scopes, signals.AllParts
	ev.index()
}

func (ev *Evaluator) index() {
	slices.SortFunc(ev.rules, func(a, b *Rule) int { return cmp.Compare(a.ID, b.ID) })
	ev.byKind = make(map[string]*kindRules)
	for _, k := range Kinds {
		var rs []*Rule
		for _, r := range ev.rules {
			if r.Mode != "off" && (slices.Contains(r.On, k) || k == kindBelief && r.again()) {
				rs = append(rs, r)
			}
		}
		conds := make([]*compiled.Condition, len(rs))
		for i, r := range rs {
			conds[i] = &r.Condition
		}
		x := &kindRules{Index: compiled.NewIndex(ev.vars, conds), rules: rs, proposal: streams.Type(k).Proposal()}
		for _, d := range ev.declared {
			if d.On[k] {
				x.noted = append(x.noted, d)
			}
		}
		x.pool.New = func() any {
			return &work{trial: compiled.NewLookup(x.Index), act: compiled.NewActivation(ev.vars)}
		}
		ev.byKind[k] = x
	}
}

// kindBelief is the kind of event for a belief that is judged again in a re-audit.
const kindBelief = string(streams.TypeBelief)

// again reports whether a rule on memory writes also applies to beliefs that are judged again. It does if it uses the
// content and no signal. Signals have the project's present state, and not the state when the memory was written. A
// rule that uses signals is applied to such beliefs only if its field `on` lists `belief`.
func (r *Rule) again() bool {
	if !slices.Contains(r.On, string(streams.TypeMemory)) {
		return false
	}
	content, signal := false, false
	for _, x := range []*compiled.Expr{r.ForEach, r.When} {
		if x == nil {
			continue
		}
		ast.PostOrderVisit(x.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() == ast.IdentKind {
				name, _, _ := strings.Cut(e.AsIdent(), ".")
				content, signal = content || name == "content", signal || name == "signal"
			}
		}))
	}
	return content && !signal
}

// work has the buffers of one evaluation.
type work struct {
	trial  *compiled.Lookup
	act    *compiled.Activation
	tables index.Tables
	sig    signals.State
}

// Result is the result of a group's evaluation of one entry.
type Result struct {
	// Alerts are the alerts to publish. For a proposal, that is every alert. For another entry, an alert that repeats
	// an earlier one is published only if its count is a power of two.
	Alerts []streams.Alert
	// Verdict is the verdict that the rules in enforce mode ask for. It is used only if the entry is a proposal.
	Verdict streams.Verdict
	// Dependencies lists the untrusted content that the action depends on, if the entry is an action.
	Dependencies []streams.Rest
}

// Eval updates the signals with an entry and evaluates the rules on it. It fails only if the store
// fails or the entry's body does not match its type.
func (ev *Evaluator) Eval(st index.Store, e *streams.Entry) (Result, error) {
	return ev.Watch(st, e, nil)
}

// Watcher is told of every evaluation of a rule. Coverage, meters and explanations use it. It must not modify its
// arguments.
type Watcher interface {
	// Before is called before a rule is evaluated on one input.
	Before(*Rule)
	// After is called after the evaluation, with the values that the rule saw and the alerts that
	// it raised.
	After(*compiled.Activation, *Rule, []streams.Alert)
}

// inputWatcher is a Watcher that is also told of each input, and of the rules that will be evaluated on it, before
// their evaluation.
type inputWatcher interface {
	input(w *work, candidates []int32)
}

// Watch is [Evaluator.Eval] with a watcher.
func (ev *Evaluator) Watch(st index.Store, e *streams.Entry, w Watcher) (Result, error) {
	inputs, err := signals.Read(e)
	if err != nil {
		return Result{}, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	return ev.judge(st, e, inputs, w)
}

// judge is like Eval, but for an entry whose inputs were read already. watch may be nil.
func (ev *Evaluator) judge(st index.Store, e *streams.Entry, inputs []*signals.Input, watch Watcher) (Result, error) {
	var res Result
	x := ev.byKind[string(e.Type)]
	if x == nil || len(inputs) == 0 || ev.idle(x) {
		return res, nil
	}
	w := x.pool.Get().(*work)
	defer func() {
		w.act.Reset(nil, nil)
		w.sig.Reset(nil, nil)
		w.tables.St = nil
		x.pool.Put(w)
	}()
	t := &w.tables
	t.Reset(st, e.Project)
	for _, in := range inputs {
		sig := &w.sig
		sig.Reset(t, in)
		w.act.Reset(in, sig)
		sig.Note(ev.only)
		for _, d := range x.noted {
			d.Note(sig)
		}
		sig.NoteSequences()
		found := ev.candidates(x, w)
		if iw, ok := watch.(inputWatcher); ok {
			iw.input(w, found)
		}
		for _, i := range found {
			r := x.rules[i]
			if in.Event.Kind == kindBelief && in.Memory.Belief.Kind != "memory" &&
				!slices.Contains(r.On, kindBelief) {
				continue // a rule on memory writes does not apply to a belief that was only read
			}
			if watch != nil {
				watch.Before(r)
			}
			var code compiled.FlagFunc
			if !ev.exhaustive {
				code = x.Remainders[i]
			}
			alerts := ev.try(r, code, w.act, e)
			if watch != nil {
				watch.After(w.act, r, alerts)
			}
			for _, a := range alerts {
				if v, binding := a.Asks(e.Type); binding {
					res.Verdict = res.Verdict.Join(v)
				}
				if a.Path == nil && e.Type == streams.TypeAction {
					a.Path = r.path(sig, &a)
				}
				if countAlert(t, &a) || x.proposal {
					res.Alerts = append(res.Alerts, a)
				}
			}
		}
		if e.Type == streams.TypeAction {
			if res.Verdict != streams.Allow {
				sig.NoteHeld()
			}
			res.Dependencies = append(res.Dependencies, sig.Dependencies()...)
		}
	}
	return res, t.Close()
}

// idle reports whether entries of a kind need not be evaluated, because no rule is for them and they change no signal.
func (ev *Evaluator) idle(x *kindRules) bool {
	return ev.only == 0 && len(ev.declared) == 0 && len(x.rules) == 0
}

func (ev *Evaluator) candidates(x *kindRules, w *work) []int32 {
	if !ev.exhaustive {
		return w.trial.Candidates(w.act)
	}
	out := make([]int32, len(x.rules))
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// try is like fire, and also calls the observer, if there is one.
func (ev *Evaluator) try(r *Rule, code compiled.FlagFunc, act *compiled.Activation, e *streams.Entry) []streams.Alert {
	if ev.observer == nil {
		return ev.fire(r, code, act, e)
	}
	began := ev.observer.Begin(r)
	alerts := ev.fire(r, code, act, e)
	ev.observer.End(r, began, alerts)
	return alerts
}

// fire evaluates one rule on one input. code is a Go function for the part of the condition that the index has not
// decided. If code is nil, or returns false for ok, fire evaluates the whole condition.
func (ev *Evaluator) fire(r *Rule, code compiled.FlagFunc, act *compiled.Activation, e *streams.Entry) []streams.Alert {
	if code != nil && !act.Large {
		switch v, ok := code(act); {
		case ok && v:
			return []streams.Alert{ev.fired(r, act, e)}
		case ok:
			return nil
		}
	}
	if r.ForEach == nil {
		return ev.decide(r, act, e, nil)
	}
	if r.Each != nil && !act.Large {
		if recs, ok := r.Each.List.Recs(act); ok {
			return ev.fireEach(r, act, e, recs)
		}
	}
	items, err := r.Items(act)
	if err != nil {
		return []streams.Alert{ev.failed(r, act.In, e, err)}
	}
	var out []streams.Alert
	for _, it := range items {
		act.It = it
		out = ev.decide(r, act, e, out)
	}
	act.It = types.NullValue
	return out
}

// decide evaluates a rule's condition, and appends an alert to the list if the condition is true or fails.
func (ev *Evaluator) decide(r *Rule, act *compiled.Activation, e *streams.Entry, out []streams.Alert) []streams.Alert {
	v, err := r.When.Eval(act)
	switch {
	case err != nil:
		return append(out, ev.failed(r, act.In, e, err))
	case v == types.True:
		return append(out, ev.fired(r, act, e))
	}
	return out
}

// fireEach is like fire, for a rule with for_each whose list and condition are compiled to Go functions. CEL evaluates
// the condition on elements for which these functions have no value, and the texts of alerts.
func (ev *Evaluator) fireEach(
	r *Rule,
	act *compiled.Activation,
	e *streams.Entry,
	recs []unsafe.Pointer,
) []streams.Alert {
	var out []streams.Alert
	var items []ref.Val
	for i, rec := range recs {
		act.Loops[0].Rec = rec
		v, ok := r.Each.When.Flag(act)
		if ok && !v {
			continue
		}
		if items == nil {
			var err error
			if items, err = r.Items(act); err != nil {
				return []streams.Alert{ev.failed(r, act.In, e, err)}
			}
		}
		act.It = items[i]
		if ok {
			out = append(out, ev.fired(r, act, e))
		} else {
			out = ev.decide(r, act, e, out)
		}
	}
	act.It = types.NullValue
	return out
}

func (ev *Evaluator) fired(r *Rule, act *compiled.Activation, e *streams.Entry) streams.Alert {
	a := ev.alert(r, act.In, e)
	if r.SubjectID != nil {
		if v, err := r.SubjectID.Eval(act); err == nil {
			s, _ := v.Value().(string)
			a.Subject.ID = streams.Clip(s, 200)
		}
	}
	if s, ok := r.Message.Text(act); ok {
		a.Message = streams.Clip(s, 1000)
	} else {
		a.Message = r.Title
	}
	if view := ev.matchedView(r, act.In); view != "" {
		if a.Detail == nil {
			a.Detail = make(map[string]any)
		}
		a.Detail["view"] = view
	}
	for _, x := range r.exceptions {
		if act.In.Event.Time.Before(x.Expires) && x.When.IsTrue(act) {
			a.Exception = x.Id
			break
		}
	}
	a.ID = alertID(e, r, a.Subject)
	return a
}

// matchedView returns the name of the view in which a rule's text was found, or "" if the text was found in the
// original content.
func (ev *Evaluator) matchedView(r *Rule, in *signals.Input) string {
	if len(in.ViewNames) < 2 && in.MarkedIn == "" {
		return ""
	}
	x := ev.byKind[in.Event.Kind]
	i, ok := slices.BinarySearchFunc(x.rules, r, func(a, b *Rule) int { return cmp.Compare(a.ID, b.ID) })
	if !ok {
		return ""
	}
	return x.MatchedView(ev.vars, i, in)
}

// failed returns the alert of a rule that could not be evaluated, because such a rule counts as firing.
func (ev *Evaluator) failed(r *Rule, in *signals.Input, e *streams.Entry, err error) streams.Alert {
	a := ev.alert(r, in, e)
	a.Effect = r.OnError
	a.Error = streams.Clip(err.Error(), 300)
	a.Message = "the rule could not be evaluated, and counts as firing: " + r.Title
	a.ID = alertID(e, r, a.Subject)
	return a
}

func (ev *Evaluator) alert(r *Rule, in *signals.Input, e *streams.Entry) streams.Alert {
	return streams.Alert{
		Rule:       r.ID,
		RuleDigest: r.Digest,
		Group:      ev.Group,
		Severity:   r.Severity,
		Subject:    subject(r, in),
		Project:    e.Project,
		Agent:      in.Event.Agent,
		Session:    in.Event.Session,
		Events:     []string{in.Event.ID},
		Effect:     r.Effect,
		Mode:       r.Mode,
		Count:      1,
		Time:       in.Event.Time,
		Detail:     detail(in),
	}
}

// detail returns the parts of the input that explain an alert to people, in short form.
func detail(in *signals.Input) map[string]any {
	d := make(map[string]any)
	if len(in.Content.Markers) > 0 {
		d["markers"] = in.Content.Markers
	}
	if in.Content.Score > 0 {
		d["command_score"] = in.Content.Score
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

// subject returns the subject of an alert, for a rule without the field subject_id.
func subject(r *Rule, in *signals.Input) streams.AlertSubject {
	s := streams.AlertSubject{Kind: r.Subject, ID: in.Event.ID}
	if in.Event.Kind == kindBelief && (r.Subject == "memory" || r.Subject == "observation") {
		// The input is a belief that is judged again. Its memory write got a verdict long ago, so the alert is about
		// the belief and not about the write.
		s.Kind = "belief"
	}
	switch s.Kind {
	case "session":
		s.ID = in.Event.Session
	case "source":
		if s.ID = in.Event.Source; s.ID == "" {
			s.ID = in.Event.Tool
		}
	case "tool":
		s.ID = in.Event.Tool
	case "belief":
		if in.Memory.Belief.ID != "" {
			s.ID = in.Memory.Belief.ID
		}
	}
	s.ID = streams.Clip(s.ID, 200)
	return s
}

func alertID(e *streams.Entry, r *Rule, s streams.AlertSubject) string {
	at := strconv.FormatUint(e.Position(), 10)
	sum := sha256.Sum256([]byte(strings.Join([]string{e.Project, at, r.ID, s.Kind, s.ID}, "\x00")))
	return "a" + hex.EncodeToString(sum[:8])
}

// countAlert increments the count of alerts by the same rule on the same subject. It reports whether to publish the
// alert: a repeated alert is published only if its count is a power of two, so that few are published. If a rule was
// changed, its alerts are counted from 1 again, because they may have another text or effect.
func countAlert(t *index.Tables, a *streams.Alert) (publish bool) {
	sum := sha256.Sum256([]byte(a.Rule + "\x00" + a.RuleDigest + "\x00" + a.Subject.Kind + "\x00" + a.Subject.ID))
	n := uint64(1)
	k := sum[:16]
	if b := t.Get(tableAlerts, k); len(b) == 8 {
		n = binary.BigEndian.Uint64(b) + 1
	}
	a.Count = n
	t.Put(tableAlerts, k, t.Give(binary.BigEndian.AppendUint64(t.Take(), n)))
	return bits.OnesCount64(n) == 1
}

// Heard updates the state of declared sequences with the verdict on an action: see signals.Heard.
func (ev *Evaluator) Heard(st index.Store, project string, v *streams.VerdictEntry) error {
	return signals.Heard(st, project, v)
}

// Accept records that an action of tool streams.ApproveTools was allowed: see signals.Accept.
func (ev *Evaluator) Accept(st index.Store, project, agent, id string) error {
	if ev.only&signals.PartTools == 0 {
		return nil
	}
	return signals.Accept(st, project, agent, id)
}
