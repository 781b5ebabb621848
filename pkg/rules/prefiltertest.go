package rules

import (
	"reflect"
)

// test is a condition's need, decided for one event without an index.
type test struct {
	need  *need
	atoms []atom
	asks  []func(*activation) bool // predicates
}

func newTest(vars *varTable, x *expr) *test {
	if x == nil {
		return nil
	}
	r := newReader(vars)
	n := r.of(x.ast.Expr(), nil)
	t := &test{need: n, atoms: r.atoms}
	for _, p := range r.preds {
		t.asks = append(t.asks, p.ask(vars))
	}
	return t
}

// meets reports whether the event may meet the condition.
func (t *test) meets(act *activation) bool { return t.met(t.need, act) }

func (t *test) met(n *need, act *activation) bool {
	switch n.op {
	case needAtom:
		return t.atoms[n.atom].met(act)
	case needPred:
		return t.asks[n.atom](act)
	case needNever:
		return false
	case needAll:
		for _, k := range n.kids {
			if !t.met(k, act) {
				return false
			}
		}
	case needAny:
		for _, k := range n.kids {
			if t.met(k, act) {
				return true
			}
		}
		return false
	}
	return true
}

// met decides an atom that is a value; of a literal it says that it may be there.
func (a *atom) met(act *activation) bool {
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

// signalExpr is an expression as signals evaluate it.
type signalExpr struct {
	*expr
	test *test // decides most events without the expression; nil: there is none
}

// IsTrue implements Expr.
func (x signalExpr) IsTrue(a Activation) bool {
	act := a.(*activation)
	return (x.test == nil || x.code != nil || x.test.meets(act)) && x.isTrue(act)
}

// AppendText implements Expr.
func (x signalExpr) AppendText(a Activation, buf []byte) ([]byte, bool) {
	act := a.(*activation)
	if x.joined != nil {
		for _, p := range x.joined {
			buf = append(buf, p.of(act)...)
		}
		return buf, true
	}
	s, ok := x.text(act)
	return append(buf, s...), ok
}
