package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Explanation explains the result of one rule on one input. All texts in it are clipped and safe to print.
type Explanation struct {
	Rule  string `json:"rule"`
	Title string `json:"title"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	Group string `json:"group"`
	Mode  string `json:"mode"`
	Block int    `json:"block"` // index of an observation's block, else 0
	// Outcome is what came of the rule: "fires", "failed", "false" or "not evaluated". A rule that failed counts as
	// firing.
	Outcome string `json:"outcome"`
	// Candidate is set if the index selected the rule for evaluation. If not, WhyNot has the reasons, each of which
	// alone is sufficient.
	Candidate bool     `json:"candidate"`
	WhyNot    []string `json:"why_not,omitempty"`
	// Evaluations has the evaluations of the condition: one for each element of for_each or, without for_each, one.
	Evaluations []Evaluation `json:"evaluations,omitempty"`
	// Error is the reason why for_each could not be evaluated. The rule then counts as firing.
	Error string `json:"error,omitempty"`
}

// Evaluation is one evaluation of a rule's condition.
type Evaluation struct {
	Item       string             `json:"item,omitempty"` // the element of for_each
	Value      string             `json:"value"`          // true, false or an error
	When       Part               `json:"when"`
	Alert      *RaisedAlert       `json:"alert,omitempty"`
	Exceptions []ExceptionOutcome `json:"exceptions,omitempty"`
}

// Part is an explained condition, or a group of conditions that are joined by && or by ||.
type Part struct {
	Op    string  `json:"op,omitempty"` // && or ||; empty for a condition
	Text  string  `json:"text"`
	Value string  `json:"value"`
	Vars  []Named `json:"vars,omitempty"`
	Parts []Part  `json:"parts,omitempty"`
}

// Named is a variable and its value.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// RaisedAlert has those parts of an alert that an explanation shows.
type RaisedAlert struct {
	Severity  string `json:"severity"`
	Effect    string `json:"effect"`
	Subject   string `json:"subject"`
	Message   string `json:"message"`
	Exception string `json:"exception,omitempty"`
	Verdict   string `json:"verdict"` // verdict that the alert asks for, after mode and exceptions are taken into account
	View      string `json:"view,omitempty"`
	Error     string `json:"error,omitempty"`
}

// ExceptionOutcome says of one exception whether it cancelled a rule's effect.
type ExceptionOutcome struct {
	ID      string `json:"id"`
	Owner   string `json:"owner"`
	Reason  string `json:"reason"`
	Applies bool   `json:"applies"`
	Why     string `json:"why"`
}

// Explain is like [Evaluator.Eval], and also explains the result of each rule for this kind of event.
func (ev *Evaluator) Explain(st index.Store, e *streams.Entry) ([]Explanation, Result, error) {
	x := &explainer{ev: ev, e: e, block: -1}
	res, err := ev.Watch(st, e, x)
	for i := range x.out {
		x.out[i].settle()
	}
	slices.SortStableFunc(x.out,
		func(a, b Explanation) int { return cmp.Or(a.Block-b.Block, strings.Compare(a.Rule, b.Rule)) })
	return x.out, res, err
}

// explainer is a Watcher.
type explainer struct {
	ev    *Evaluator
	e     *streams.Entry
	block int
	out   []Explanation
}

func (x *explainer) begin(r *Rule) Explanation {
	at := r.Place("id", "")
	return Explanation{
		Rule:  r.ID,
		Title: r.Title,
		File:  r.File,
		Line:  at.Line,
		Group: x.ev.Group,
		Mode:  r.Mode,
		Block: x.block,
	}
}

// input implements inputWatcher.
func (x *explainer) input(w *work, candidates []int32) {
	x.block++
	for i, r := range x.ev.byKind[string(x.e.Type)].rules {
		if !slices.Contains(candidates, int32(i)) {
			n := x.begin(r)
			n.WhyNot = w.trial.Why(i)
			x.out = append(x.out, n)
		}
	}
	for _, r := range x.ev.rules {
		if r.Mode == "off" && slices.Contains(r.On, w.act.In.Event.Kind) {
			n := x.begin(r)
			n.WhyNot = []string{"its mode is off"}
			x.out = append(x.out, n)
		}
	}
}

// Before implements Watcher.
func (*explainer) Before(*Rule) {}

// After implements Watcher.
func (x *explainer) After(act *compiled.Activation, r *Rule, alerts []streams.Alert) {
	n := x.begin(r)
	n.Candidate = true
	n.evaluate(x.ev, act, r, alerts, x.e.Type)
	x.out = append(x.out, n)
}

// evaluate explains each evaluation of a rule's condition. alerts are the alerts that these evaluations raised, in the
// same order.
func (n *Explanation) evaluate(
	ev *Evaluator,
	act *compiled.Activation,
	r *Rule,
	alerts []streams.Alert,
	typ streams.Type,
) {
	items, err := r.Items(act)
	if err != nil {
		n.Error = compiled.ClipInert(err.Error(), 2*compiled.ShowBytes)
		return
	}
	sc := ev.scopes[r.Pack]
	t, err := sc.Trace(r.When.Source, cel.EvalOptions(cel.OptExhaustiveEval))
	if err != nil { // cannot happen: the rule set compiled the same text
		n.Error = compiled.ClipInert(err.Error(), 2*compiled.ShowBytes)
		return
	}
	defer func() { act.It = types.NullValue }()
	ta := &compiled.TracedActivation{Activation: act, Defs: sc.Tracer()}
	for _, it := range items {
		act.It = it
		v, err := r.When.Eval(act)
		o := Evaluation{Value: compiled.OutcomeText(v, err), When: explain(t, ta, sc)}
		if r.ForEach != nil {
			o.Item = compiled.Show(it)
		}
		if (err != nil || v == types.True) && len(alerts) > 0 {
			a := alerts[0]
			alerts = alerts[1:]
			o.Alert = raised(&a, typ)
			if err == nil {
				o.Exceptions = exceptionOutcomes(act, r, a.Exception)
			}
		}
		n.Evaluations = append(n.Evaluations, o)
	}
}

// raised returns the alert a of an entry of type typ, in the form that explanations show.
func raised(a *streams.Alert, typ streams.Type) *RaisedAlert {
	out := &RaisedAlert{
		Severity:  a.Severity,
		Effect:    a.Effect,
		Subject:   compiled.ClipInert(a.Subject.Kind+" "+a.Subject.ID, compiled.ShowBytes),
		Message:   text.InertLine(a.Message, 0),
		Exception: a.Exception,
		Error:     text.InertLine(a.Error, 0),
		Verdict:   streams.Allow.String(),
	}
	if v, binding := a.Asks(typ); binding {
		out.Verdict = v.String()
	}
	if v, ok := a.Detail["view"].(string); ok {
		out.View = compiled.ClipInert(v, compiled.ShowBytes)
	}
	return out
}

func exceptionOutcomes(act *compiled.Activation, r *Rule, applied string) []ExceptionOutcome {
	var out []ExceptionOutcome
	for _, x := range r.exceptions {
		o := ExceptionOutcome{
			ID:      x.Id,
			Owner:   compiled.ClipInert(x.Owner, compiled.ShowBytes),
			Reason:  compiled.ClipInert(x.reason, 2*compiled.ShowBytes),
			Applies: x.Id == applied,
		}
		v, err := x.When.Eval(act)
		switch {
		case o.Applies:
			o.Why = "its condition is true"
		case !act.In.Event.Time.Before(x.Expires):
			o.Why = "it expired on " + x.Expires.Format("2006-01-02")
		case err == nil && v == types.True:
			o.Why = "exception " + applied + " applies already"
		default:
			o.Why = "its condition is " + compiled.OutcomeText(v, err)
		}
		out = append(out, o)
	}
	return out
}

// explain evaluates a condition and splits it at && and ||. It also evaluates the operands that && and || would
// short-circuit.
func explain(t *compiled.Traced, act *compiled.TracedActivation, sc *compiled.Scope) Part {
	v, det, err := t.Program.Eval(act)
	state := det.State()
	var split func(e ast.Expr) Part
	split = func(e ast.Expr) Part {
		p := Part{Text: compiled.ClipInert(t.Text(e), 2*compiled.ShowBytes)}
		if v, ok := state.Value(e.ID()); ok {
			p.Value = compiled.Show(v)
		} else {
			p.Value = "not evaluated"
		}
		for _, op := range []string{operators.LogicalAnd, operators.LogicalOr} {
			if compiled.IsCall(e, op) {
				p.Op = strings.Trim(op, "_")
				for _, k := range compiled.Operands(e, op) {
					p.Parts = append(p.Parts, split(k))
				}
				return p
			}
		}
		p.Vars = named(e, act, sc)
		return p
	}
	root := t.AST.Expr()
	p := split(root)
	p.Value = compiled.OutcomeText(v, err)
	return p
}

// named returns the variables that an expression uses, itself or in its macros, with their values.
func named(e ast.Expr, act *compiled.TracedActivation, sc *compiled.Scope) []Named {
	var out []Named
	seen := make(map[string]bool)
	var walk func(e ast.Expr)
	walk = func(e ast.Expr) {
		ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
			q := compiled.QualifiedName(e)
			if q == "" || seen[q] {
				return
			}
			seen[q] = true
			var v ref.Val
			if i, ok := act.Vars.Number[q]; ok {
				v = act.Value(i)
			} else if q == "it" {
				v = act.It
			} else if strings.HasPrefix(q, "macros.") && sc.Defs[q] != nil {
				x, _ := act.ResolveName(q)
				v, _ = x.(ref.Val)
				out = append(out, Named{q, compiled.Show(v)})
				walk(sc.Defs[q].NativeRep().Expr())
				return
			} else {
				return
			}
			out = append(out, Named{q, compiled.Show(v)})
		}))
	}
	walk(e)
	return out
}

// settle sets Outcome.
func (n *Explanation) settle() {
	n.Outcome = "not evaluated"
	if n.Error != "" {
		n.Outcome = "failed"
	} else if n.Candidate || n.Evaluations != nil {
		n.Outcome = "false"
	}
	for _, e := range n.Evaluations {
		if e.Alert != nil && n.Outcome == "false" {
			n.Outcome = "fires"
		}
		if e.Alert != nil && e.Alert.Error != "" {
			n.Outcome = "failed"
		}
	}
}

// Fires reports whether the rule raised an alert.
func (n *Explanation) Fires() bool { return n.Outcome == "fires" || n.Outcome == "failed" }

// String returns the explanation for people, on several lines.
func (n Explanation) String() string {
	var b strings.Builder
	state := n.Outcome
	if n.Fires() {
		state = strings.ToUpper(state)
	}
	fmt.Fprintf(&b, "%s  %s  (%s:%d, group %s", state, n.Rule, n.File, n.Line, n.Group)
	if n.Mode != "enforce" {
		fmt.Fprintf(&b, ", mode %s", n.Mode)
	}
	if n.Block > 0 {
		fmt.Fprintf(&b, ", block %d", n.Block+1)
	}
	b.WriteString(")\n")
	for _, w := range n.WhyNot {
		fmt.Fprintf(&b, "    because %s\n", w)
	}
	if n.Error != "" {
		fmt.Fprintf(&b, "    it cannot be evaluated and counts as firing: %s\n", n.Error)
	}
	for _, e := range n.Evaluations {
		if e.Item != "" {
			fmt.Fprintf(&b, "    it = %s\n", e.Item)
		}
		e.When.write(&b, 2)
		if a := e.Alert; a != nil {
			fmt.Fprintf(&b, "    alert: %s, effect %s, verdict %s, on %s: %s\n", a.Severity, a.Effect, a.Verdict,
				a.Subject, a.Message)
			if a.View != "" {
				fmt.Fprintf(&b, "      found in the view %s\n", a.View)
			}
			if a.Error != "" {
				fmt.Fprintf(&b, "      %s\n", a.Error)
			}
		}
		for _, x := range e.Exceptions {
			not := "does not apply"
			if x.Applies {
				not = "takes the effect away"
			}
			fmt.Fprintf(&b, "      exception %s of %s %s: %s (%s)\n", x.ID, x.Owner, not, x.Why, x.Reason)
		}
	}
	return b.String()
}

func (p *Part) write(b *strings.Builder, depth int) {
	pad := strings.Repeat("  ", depth)
	if p.Op == "" {
		fmt.Fprintf(b, "%s%-5s  %s\n", pad, p.Value, p.Text)
		for _, v := range p.Vars {
			fmt.Fprintf(b, "%s         %s = %s\n", pad, v.Name, v.Value)
		}
		return
	}
	word := "all of"
	if p.Op == "||" {
		word = "any of"
	}
	fmt.Fprintf(b, "%s%-5s  %s\n", pad, p.Value, word)
	for i := range p.Parts {
		p.Parts[i].write(b, depth+1)
	}
}
