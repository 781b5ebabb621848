package compiled

import (
	"reflect"

	"lazaret/pkg/signals"
)

// soloPrefilter evaluates the prefilter of one condition on an event. It needs no index.
type soloPrefilter struct {
	prefilter *prefilter
	atoms     []atom
	asks      []question // the predicates
}

func newSoloPrefilter(vars *Vars, x *Expr) *soloPrefilter {
	if x == nil {
		return nil
	}
	r := NewPrefilterReader(vars)
	n := r.Of(x.AST.Expr(), nil)
	t := &soloPrefilter{prefilter: n, atoms: r.Atoms}
	for _, p := range r.preds {
		t.asks = append(t.asks, p.question(vars))
	}
	return t
}

// meets reports whether the condition may be true for the event. If it returns false, the condition is false.
func (t *soloPrefilter) meets(act *Activation) bool { return t.met(t.prefilter, act) }

func (t *soloPrefilter) met(n *prefilter, act *Activation) bool {
	switch n.Op {
	case opAtom:
		return t.atoms[n.atom].met(act)
	case opPred:
		return t.asks[n.atom].holds(act)
	case OpNever:
		return false
	case opAll:
		for _, k := range n.kids {
			if !t.met(k, act) {
				return false
			}
		}
	case opAny:
		for _, k := range n.kids {
			if t.met(k, act) {
				return true
			}
		}
		return false
	}
	return true
}

// met reports whether an atom holds for the event. For an atom with a literal it always returns true, because it does
// not search texts.
func (a *atom) met(act *Activation) bool {
	if a.holds {
		return true
	}
	is := func(s string) bool {
		if a.f.lower {
			s = lowerASCII(s)
		}
		return a.value[0] == 's' && s == a.value[1:]
	}
	v := act.native(a.f.v)
	switch v.Kind() {
	case reflect.String:
		return is(v.String())
	case reflect.Slice:
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() != reflect.String || is(e.String()) {
				return true
			}
		}
		return false
	}
	c, ok := canonical(toVal(v))
	return !ok || c == a.value
}

// signalExpr is an expression of a declared signal, as package signals evaluates it.
type signalExpr struct {
	*Expr
	solo *soloPrefilter // prefilter of the expression; for most events, it decides without an evaluation; may be nil
}

// IsTrue implements signals.Expr.
func (x *signalExpr) IsTrue(a signals.Activation) bool {
	act := a.(*Activation)
	return (x.solo == nil || x.goFlag != nil || x.solo.meets(act)) && x.Expr.IsTrue(act)
}

// AppendText implements signals.Expr.
func (x *signalExpr) AppendText(a signals.Activation, buf []byte) ([]byte, bool) {
	act := a.(*Activation)
	if x.joined != nil {
		for i := range x.joined {
			buf = append(buf, x.joined[i].of(act)...)
		}
		return buf, true
	}
	s, ok := x.Text(act)
	return append(buf, s...), ok
}
