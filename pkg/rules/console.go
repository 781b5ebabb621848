package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// Console evaluates single expressions, with or without an event. It is not safe for
// concurrent use.
type Console struct {
	set   *Set
	ev    *Evaluator
	scope *compiled.Scope
	act   *compiled.Activation
	entry *streams.Entry // nil: no event is loaded
}

// Console returns a console with the names of all packs. If several packs define a list or macro of the same name, the
// console uses the definition of the pack whose name sorts first. It evaluates events with the rules of one sentinel
// group. An empty name means the first group.
func (s *Set) Console(group string) (*Console, error) {
	if group == "" && len(s.groups) > 0 {
		group = s.Groups()[0]
	}
	ev := s.Group(group)
	if ev == nil {
		return nil, fmt.Errorf("there is no group %q%s", group, Suggest(group, s.Groups()))
	}
	sc := s.Scopes[""].Clone()
	known := make(map[string]bool)
	for _, v := range sc.Env.Variables() {
		known[v.Name()] = true
	}
	var opts []cel.EnvOption
	for _, v := range s.Vars.List {
		if !known[v.Name] {
			opts = append(opts, cel.Variable(v.Name, v.Type))
		}
	}
	for _, pack := range slices.Sorted(maps.Keys(s.Scopes)) {
		for _, name := range slices.Sorted(maps.Keys(s.Scopes[pack].Defs)) {
			if sc.Defs[name] != nil {
				continue
			}
			sc.Defs[name] = s.Scopes[pack].Defs[name]
			opts = append(opts, cel.Variable(name, sc.Defs[name].OutputType()))
		}
	}
	env, err := sc.Env.Extend(opts...)
	if err != nil {
		return nil, err
	}
	sc.Env = env
	c := &Console{set: s, ev: ev, scope: sc}
	return c, c.Load(nil)
}

// Load evaluates entries in order. After that, the console evaluates expressions on the last entry or, if that is an
// observation, on its last block.
func (c *Console) Load(entries []*streams.Entry) error {
	st := index.NewMemStore()
	act, in := compiled.NewActivation(c.set.Vars), signals.NewInput()
	var last *streams.Entry
	project := ""
	if n := len(entries); n > 0 {
		last = entries[n-1]
		for _, e := range entries[:n-1] {
			if _, err := c.ev.Eval(st, e); err != nil {
				return err
			}
		}
		inputs, err := signals.Read(last)
		if err != nil {
			return err
		}
		if len(inputs) == 0 {
			return fmt.Errorf("rules do not see entries of the type %s", last.Type)
		}
		// The last block must be judged with the state after the earlier blocks. So evaluate the earlier blocks first.
		if _, err := c.ev.judge(st, last, inputs[:len(inputs)-1], nil); err != nil {
			return err
		}
		in, project = inputs[len(inputs)-1], last.Project
	}
	t := index.Open(st, project)
	sig := signals.NewState(t, in)
	act.Reset(in, &sig)
	if last != nil {
		sig.Note(signals.AllParts)
		for _, d := range c.ev.declared {
			d.Note(&sig)
		}
	}
	c.act, c.entry = act, last
	return nil
}

// Event describes the loaded event.
func (c *Console) Event() string {
	if c.entry == nil {
		return "no event"
	}
	ev := c.act.In.Event
	return compiled.ClipInert(fmt.Sprintf("%s %s of agent %s, session %s", ev.Kind, ev.ID, ev.Agent, ev.Session),
		compiled.ShowBytes)
}

// Eval evaluates an expression on the loaded event. The returned type and value are safe to print.
func (c *Console) Eval(src string) (typ, value string, err error) {
	a, err := c.scope.Check(src, nil)
	if err != nil {
		return "", "", err
	}
	x, err := c.scope.Compile(src, nil)
	if err != nil {
		return "", "", err
	}
	v, err := x.Eval(c.act)
	if err != nil {
		return "", "", err
	}
	s := &compiled.Printer{Max: 4 << 10}
	s.Val(v)
	return a.OutputType().String(), s.String(), nil
}

// Cost returns two costs of an expression: the highest cost for inputs within the estimated sizes, and the cost on the
// loaded event.
func (c *Console) Cost(src string) (highest, here uint64, err error) {
	a, err := c.scope.Check(src, nil)
	if err != nil {
		return 0, 0, err
	}
	est, err := c.scope.Env.EstimateCost(a, compiled.Sizes{})
	if err != nil {
		return 0, 0, err
	}
	p, err := c.scope.Env.Program(a, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost))
	if err != nil {
		return 0, 0, err
	}
	_, det, _ := p.Eval(c.act) // a failed evaluation has a cost too
	if n := det.ActualCost(); n != nil {
		here = *n
	}
	return est.Max, here, nil
}

// Need returns the prefilter of a condition as text. The index lets the condition be evaluated only for events for
// which the prefilter holds.
func (c *Console) Need(src string) (string, error) {
	x, err := c.scope.Compile(src, cel.BoolType)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	r := compiled.NewPrefilterReader(c.set.Vars)
	r.Words(&b, r.Of(x.AST.Expr(), nil), 0)
	return b.String(), nil
}

// Fields lists the names that begin with a prefix. Names that packs define are included.
func (c *Console) Fields(prefix string) []compiled.Field {
	var out []compiled.Field
	for _, f := range compiled.Fields() {
		if _, known := c.set.Vars.Number[f.Name]; known || strings.HasPrefix(f.Name, "<") {
			out = append(out, f)
		}
	}
	for _, v := range c.set.Vars.List[len(compiled.BaseVars().List):] {
		out = append(out, compiled.Field{Name: v.Name, Type: compiled.TypeName(v.GoType), Doc: v.Doc})
	}
	for _, name := range slices.Sorted(maps.Keys(c.scope.Defs)) {
		a := c.scope.Defs[name]
		out = append(out, compiled.Field{Name: name, Type: a.OutputType().String(),
			Doc: compiled.ClipInert(a.Source().Content(), compiled.ShowBytes)})
	}
	return slices.DeleteFunc(out, func(f compiled.Field) bool { return !strings.HasPrefix(f.Name, prefix) })
}

// Signals lists all signals with their values for the loaded event.
func (c *Console) Signals() []Named {
	var out []Named
	for i, v := range c.set.Vars.List {
		if v.Signal != nil {
			out = append(out, Named{v.Name, compiled.Show(c.act.Value(i))})
		}
	}
	return out
}

// Rule evaluates a rule's condition on the loaded event, even if the index would leave the rule out, and whatever mode
// the rule has.
func (c *Console) Rule(id string) (Explanation, error) {
	r := c.set.Rule(id)
	if r == nil {
		var known []string
		for _, r := range c.set.rules {
			known = append(known, r.ID)
		}
		return Explanation{}, fmt.Errorf("there is no rule %q%s", id, Suggest(id, known))
	}
	e := c.entry
	if e == nil {
		e = &streams.Entry{}
	}
	x := &explainer{ev: c.ev, e: e}
	n := x.begin(r)
	if kind := c.act.In.Event.Kind; !slices.Contains(r.On, kind) {
		n.WhyNot = []string{
			fmt.Sprintf("it looks at %s, and not at %s", strings.Join(r.On, ", "), cmp.Or(kind, "nothing")),
		}
	}
	c.act.It = types.NullValue
	n.Candidate = len(n.WhyNot) == 0
	n.evaluate(c.ev, c.act, r, c.ev.fire(r, nil, c.act, e), e.Type)
	n.settle()
	return n, nil
}
