package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// signalDoc is a signal as a pack declares it: one of count, distinct and
// sequence.
type signalDoc struct {
	Name     string    `yaml:"name" is:"id,required" doc:"Expressions call it signal.<name>."`
	Doc      string    `yaml:"doc" is:"required" doc:"What it means."`
	Count    *countDoc `yaml:"count" doc:"Counts events."`
	Distinct *countDoc `yaml:"distinct" doc:"Counts different values among events."`
	Sequence *seqDoc   `yaml:"sequence" doc:"Finds steps in order, with anything in between; its value is the ids of the events."`
}

// countDoc counts events, or the different values among them.
type countDoc struct {
	On     []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that count."`
	When   string   `yaml:"when" doc:"Condition under which an event counts: a boolean in CEL."`
	Key    string   `yaml:"key" is:"required" doc:"What is counted apart: a text in CEL, such as event.agent."`
	Value  string   `yaml:"value" doc:"Of distinct: what is to be different, a text in CEL."`
	Window string   `yaml:"window" is:"duration,required" doc:"How far back it sees, such as 10m or 72h."`
	Max    int      `yaml:"max" is:"count" doc:"How far it counts; 1024 unless said."`
}

// seqDoc finds steps in order, with anything in between.
type seqDoc struct {
	Key    string    `yaml:"key" is:"required" doc:"What sequences are kept apart by: a text in CEL, such as event.agent + '/' + event.session."`
	Window string    `yaml:"window" is:"duration,required" doc:"Time from the first step to the last, such as 24h."`
	Steps  []stepDoc `yaml:"steps" is:"required,steps" doc:"The steps, in order."`
}

type stepDoc struct {
	On   []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that may be the step."`
	When string   `yaml:"when" is:"required" doc:"Condition under which an event is the step: a boolean in CEL."`
}

const (
	maxCount  = 1024 // times or values kept under one key
	maxWindow = 400 * 24 * time.Hour
	maxSteps  = 8
)

// declared is a compiled signal of a pack.
type declared struct {
	name     string
	on       map[string]bool
	key      *expr
	when     *expr // nil: always
	value    *expr // of distinct
	window   time.Duration
	max      int
	steps    []step
	distinct bool
}

type step struct {
	on   []string
	when *expr
	need *test
}

// compileSignal checks a declaration and adds its name to the scope.
func (s *scope) compileSignal(d *strictyaml.Document, file string, i int, doc *signalDoc, bad *Problems) *declared {
	n := len(*bad)
	at := func(path []any, format string, args ...any) {
		bad.note(file, d.Errorf(append([]any{"signals", i}, path...), format, args...))
	}
	if !streams.ValidID(doc.Name) {
		at([]any{"name"}, "%v", streams.CheckID("signal name", doc.Name))
		return nil
	}
	if doc.Doc == "" {
		at([]any{"name"}, "signal %q needs doc: what it means", doc.Name)
	}
	out := &declared{name: "signal." + doc.Name, on: make(map[string]bool)}
	if _, ok := s.vars.index[out.name]; ok {
		at([]any{"name"}, "there is a signal %s already", out.name)
		return nil
	}
	compile := func(path []any, src string, want *cel.Type, required bool) *expr {
		if src == "" {
			if required {
				at(path[:1], "signal %q needs %s.%s", doc.Name, path[0], path[len(path)-1])
			}
			return nil
		}
		x, err := s.compile(src, want)
		if err != nil {
			at(path, "%w", err)
			return nil
		}
		if name := usesDeclared(x, s.vars); name != "" {
			at(path, "a signal cannot be made from another: %s", name)
		}
		return x
	}
	window := func(path []any, src string) time.Duration {
		w, err := time.ParseDuration(src)
		if err != nil || w <= 0 || w > maxWindow {
			at(path, "the window %q is no duration of up to %s, such as 10m or 72h", src, maxWindow)
		}
		return w
	}
	kindsOf := func(path []any, on []string) {
		if len(on) == 0 {
			at(path[:1], "signal %q needs on: the kinds of events that it looks at", doc.Name)
		}
		for j, k := range on {
			if !slices.Contains(kinds, k) {
				at(append(path, j), "event kind %q is unknown%s", k, suggest(k, kinds))
			}
			out.on[k] = true
		}
	}
	typ := cel.IntType
	counted := func(name string, c *countDoc) {
		kindsOf([]any{name, "on"}, c.On)
		out.key = compile([]any{name, "key"}, c.Key, cel.StringType, true)
		out.when = compile([]any{name, "when"}, c.When, cel.BoolType, false)
		out.window = window([]any{name, "window"}, c.Window)
		if out.max = c.Max; c.Max == 0 {
			out.max = maxCount
		}
		if c.Max < 0 || c.Max > maxCount {
			at([]any{name, "max"}, "max %d is not within 1 to %d", c.Max, maxCount)
		}
	}
	switch {
	case doc.Count != nil && doc.Distinct == nil && doc.Sequence == nil:
		counted("count", doc.Count)
		if doc.Count.Value != "" {
			at([]any{"count", "value"}, "count has no value: use distinct to count different ones")
		}
	case doc.Distinct != nil && doc.Count == nil && doc.Sequence == nil:
		out.distinct = true
		counted("distinct", doc.Distinct)
		out.value = compile([]any{"distinct", "value"}, doc.Distinct.Value, cel.StringType, true)
	case doc.Sequence != nil && doc.Count == nil && doc.Distinct == nil:
		typ = cel.ListType(cel.StringType)
		out.key = compile([]any{"sequence", "key"}, doc.Sequence.Key, cel.StringType, true)
		out.window = window([]any{"sequence", "window"}, doc.Sequence.Window)
		if k := len(doc.Sequence.Steps); k < 2 || k > maxSteps {
			at([]any{"sequence"}, "a sequence has 2 to %d steps, this one %d", maxSteps, k)
		}
		for j, st := range doc.Sequence.Steps {
			kindsOf([]any{"sequence", "steps", j, "on"}, st.On)
			when := compile([]any{"sequence", "steps", j, "when"}, st.When, cel.BoolType, true)
			out.steps = append(out.steps, step{st.On, when, newTest(s.vars, when)})
		}
	default:
		at([]any{"name"}, "signal %q needs one of count, distinct and sequence", doc.Name)
	}
	if len(*bad) > n {
		return nil
	}
	goTyp := reflect.TypeFor[int64]()
	if out.steps != nil {
		goTyp = reflect.TypeFor[[]string]()
	}
	env, err := s.env.Extend(cel.Variable(out.name, typ))
	if err != nil {
		at([]any{"name"}, "%v", err)
		return nil
	}
	s.env = env
	s.vars.add(&variable{name: out.name, typ: typ, goTyp: goTyp, doc: doc.Doc, sig: &signalDef{Signal: Signal{Name: out.name, Doc: doc.Doc,
		Window: out.window.String()}, typ: goTyp, read: out.read, evaluates: out.steps == nil && out.key.joined == nil}})
	return out
}

// usesDeclared names a declared signal in an expression, or is "".
func usesDeclared(x *expr, vars *varTable) (name string) {
	base := len(baseVars().vars)
	ast.PreOrderVisit(x.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if i, ok := vars.index[qualified(e)]; ok && i >= base {
			name = vars.vars[i].name
		}
	}))
	return name
}

func (d *declared) tableKey(act *activation) ([]byte, bool) {
	t := act.sig.t
	if d.key.joined == nil {
		k, ok := d.key.text(act)
		return t.named(d.name, "\x00", k), ok
	}
	t.named(d.name, "\x00")
	for _, p := range d.key.joined {
		t.name = append(t.name, p.of(act)...)
	}
	return t.name, true
}

// note counts an event, or takes it as a step. What cannot be evaluated counts
// nothing: the rules that read the signal have conditions of their own.
func (d *declared) note(act *activation) {
	if !d.on[act.in.Event.Kind] {
		return
	}
	if d.steps != nil {
		d.noteStep(act)
		return
	}
	if d.when != nil && !d.when.isTrue(act) {
		return
	}
	k, ok := d.tableKey(act)
	if !ok {
		return
	}
	var h uint32
	if d.distinct {
		v, ok := d.value.text(act)
		if !ok {
			return
		}
		h = hash32(v)
	}
	now := act.in.Event.Time.UnixNano()
	kept := act.sig.t.take()
	for b := act.sig.t.get(tableCounts, k); len(b) >= 12; b = b[12:] {
		if old := int64(binary.BigEndian.Uint64(b)); now-old < int64(d.window) && !(d.distinct && binary.BigEndian.Uint32(b[8:]) == h) {
			kept = append(kept, b[:12]...)
		}
	}
	kept = binary.BigEndian.AppendUint64(kept, uint64(now))
	kept = binary.BigEndian.AppendUint32(kept, h)
	kept = kept[max(0, len(kept)-12*d.max):]
	if s := act.sig; s.counts < len(s.counted) {
		s.counted[s.counts] = counted{d, int64(len(kept) / 12)}
		s.counts++
	}
	act.sig.t.put(tableCounts, k, act.sig.t.give(kept))
}

// chain is how far a sequence has come: the events of its first steps, and
// when the first of them was.
type chain struct {
	since  int64
	n      int
	events [maxSteps][]byte
}

func (c *chain) has(event string) bool {
	for _, e := range c.events[:c.n] {
		if string(e) == event {
			return true
		}
	}
	return false
}

// noteStep takes an event as a step of a sequence. Each step remembers the
// latest chain that led to it, so that no number of other events in between
// makes a sequence forgotten.
func (d *declared) noteStep(act *activation) {
	var matched [maxSteps]bool
	some := false
	for i, st := range d.steps {
		if slices.Contains(st.on, act.in.Event.Kind) && (st.when.code != nil || st.need.meets(act)) && st.when.isTrue(act) {
			matched[i], some = true, true
		}
	}
	if !some {
		return
	}
	k, ok := d.tableKey(act)
	if !ok {
		return
	}
	// What is read points into the old value; the new one is made elsewhere.
	var memory [maxSteps]chain
	chains := memory[:len(d.steps)]
	dc := dec(act.sig.t.get(tableSteps, k))
	for i := range chains {
		c := &chains[i]
		c.since, c.n = int64(dc.num()), int(min(dc.num(), maxSteps))
		for j := range c.n {
			c.events[j] = dc.raw()
		}
	}
	now, id := act.in.Event.Time.UnixNano(), act.in.Event.ID
	// The last step first, so that one event is one step of a chain.
	for i := len(d.steps) - 1; i >= 0; i-- {
		if !matched[i] {
			continue
		}
		c := chain{since: now}
		if i > 0 {
			if c = chains[i-1]; c.n == 0 || c.n == maxSteps || now-c.since >= int64(d.window) || c.has(id) {
				continue
			}
		}
		c.events[c.n] = []byte(id)
		c.n++
		chains[i] = c
		if i == len(d.steps)-1 {
			if act.sig.done == nil {
				act.sig.done = make(map[string][]string)
			}
			var events []string
			for _, e := range c.events[:c.n] {
				events = append(events, string(e))
			}
			act.sig.done[d.name] = events
		}
	}
	e := enc(act.sig.t.take())
	for i := range chains {
		c := &chains[i]
		e.num(uint64(c.since))
		e.num(uint64(c.n))
		for _, ev := range c.events[:c.n] {
			e.bytes(ev)
		}
	}
	if act.in.Event.Kind == string(streams.TypeAction) {
		act.sig.noteSwap(k, e)
	}
	act.sig.t.put(tableSteps, k, act.sig.t.give(e))
}

// noteSwap keeps a sequence as it was before the action and as it is with it.
func (s *signals) noteSwap(key, value []byte) {
	e := enc(slices.Clone(s.swaps))
	e.bytes(key)
	e.bytes(s.t.get(tableSteps, key))
	e.bytes(value)
	s.swaps = e
}

// swapKey is where the sequences of an action are kept.
func (t *tables) swapKey(agent, session, id string) []byte {
	return t.named(agent, "\x00", session, "\x00", id)
}

// noteSwaps keeps the sequences that the action went into.
func (s *signals) noteSwaps() {
	if len(s.swaps) == 0 {
		return
	}
	e := enc(s.t.take())
	e.num(1) // the steps count
	e = append(e, s.swaps...)
	s.t.put(tableSwaps, s.t.swapKey(s.in.Event.Agent, s.in.Event.Session, s.in.Event.ID), s.t.give(e))
}

// Heard takes in the verdict on an action. An action that is held was not carried
// out, and is no step: the sequences that it went into are put back, unless
// something else has gone into them since. When its hold is approved they are put
// forward again.
func (ev *Evaluator) Heard(st Store, project string, v *streams.VerdictEntry) error {
	t := openTables(st, project)
	at := slices.Clone(t.swapKey(v.Agent, v.Session, v.ID))
	d := dec(slices.Clone(t.get(tableSwaps, at)))
	counts := d.num() == 1
	if len(d) == 0 || counts == (v.Verdict == streams.Allow) {
		return t.err
	}
	var e enc
	if e.num(0); !counts {
		e = enc{}
		e.num(1)
	}
	for len(d) > 0 {
		key, was, is := d.raw(), d.raw(), d.raw()
		if bytes.Equal(t.get(tableSteps, key), is) {
			t.put(tableSteps, key, was)
		}
		e.bytes(key)
		e.bytes(is)
		e.bytes(was)
	}
	t.put(tableSwaps, at, e)
	return t.close()
}

func (d *declared) read(s *signals) any {
	if d.steps != nil {
		return s.done[d.name]
	}
	for _, c := range s.counted[:s.counts] {
		if c.by == d {
			return c.n
		}
	}
	k, ok := d.tableKey(s.act)
	if !ok {
		return fmt.Errorf("the key of %s cannot be evaluated", d.name)
	}
	now, n := s.in.Event.Time.UnixNano(), int64(0)
	for b := s.t.get(tableCounts, k); len(b) >= 12; b = b[12:] {
		if now-int64(binary.BigEndian.Uint64(b)) < int64(d.window) {
			n++
		}
	}
	return n
}
