package compiled

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// prefilter is a condition that must hold for an expression to be true or to fail. If it does not
// hold, the expression is false without an error and need not be evaluated.
type prefilter struct {
	Op   prefilterOp
	atom int32 // index of the atom or predicate
	kids []*prefilter
}

type prefilterOp byte

// The operations. A linter uses OpNever to report conditions that are never true.
const (
	opUnknown prefilterOp = iota // nothing is known about the expression, so it must be evaluated for every event
	OpNever                      // the expression is never true
	opAtom
	opPred
	opAll
	opAny
)

var (
	unknown = &prefilter{Op: opUnknown}
	never   = &prefilter{Op: OpNever}
)

func all(ns ...*prefilter) *prefilter {
	out := &prefilter{Op: opAll}
	for _, n := range ns {
		switch n.Op {
		case opUnknown:
		case OpNever:
			return never
		case opAll:
			out.kids = append(out.kids, n.kids...)
		default:
			out.kids = append(out.kids, n)
		}
	}
	switch len(out.kids) {
	case 0:
		return unknown
	case 1:
		return out.kids[0]
	}
	return out
}

func anyOf(ns ...*prefilter) *prefilter {
	out := &prefilter{Op: opAny}
	for _, n := range ns {
		switch n.Op {
		case opUnknown:
			return unknown
		case OpNever:
		case opAny:
			out.kids = append(out.kids, n.kids...)
		default:
			out.kids = append(out.kids, n)
		}
	}
	switch len(out.kids) {
	case 0:
		return never
	case 1:
		return out.kids[0]
	}
	return out
}

// field says which values an atom tests: a variable, or each element of a list that is a variable. They may be
// converted to lower case first.
type field struct {
	v     int // index of the variable
	elem  bool
	lower bool
}

// atom is a condition that the index decides for all rules in one pass over an event. It says that a field has a value,
// or that a text contains a literal.
type atom struct {
	f       field
	holds   bool   // the text contains literal; if not set, the field equals value
	begins  bool   // the text begins with literal
	value   string // canonical form of the value
	literal string
}

// pred is a test of a number or a flag. Unlike atoms, a predicate is evaluated separately, at most once per event.
// Unless the index finds rules by it (see Index.eager), it is evaluated only if the other conditions of a rule hold.
type pred struct {
	v    int
	size bool // compares the size of the variable
	flag bool // the variable is a flag; the predicate holds if it equals want
	want bool
	op   string
	than float64
}

// PrefilterReader derives prefilters from expressions, and numbers their atoms and predicates.
type PrefilterReader struct {
	vars  *Vars
	Atoms []atom
	preds []pred
	byA   map[atom]int32
	byP   map[pred]int32
}

// NewPrefilterReader returns a reader that has numbered no atoms and predicates yet.
func NewPrefilterReader(vars *Vars) *PrefilterReader {
	return &PrefilterReader{vars: vars, byA: make(map[atom]int32), byP: make(map[pred]int32)}
}

func (r *PrefilterReader) atom(a atom) *prefilter {
	n, ok := r.byA[a]
	if !ok {
		n = int32(len(r.Atoms))
		r.byA[a] = n
		r.Atoms = append(r.Atoms, a)
	}
	return &prefilter{Op: opAtom, atom: n}
}

func (r *PrefilterReader) pred(p pred) *prefilter {
	n, ok := r.byP[p]
	if !ok {
		n = int32(len(r.preds))
		r.byP[p] = n
		r.preds = append(r.preds, p)
	}
	return &prefilter{Op: opPred, atom: n}
}

// term is an operand that prefilters can test: a field or a constant.
type term struct {
	kind  termKind
	f     field
	value ref.Val
}

type termKind byte

const (
	termUnknown termKind = iota
	termField
	termSize
	termConst
)

// binding maps loop variables to terms.
type binding map[string]term

func (b binding) with(name string, t term) binding {
	c := make(binding, len(b)+1)
	for k, v := range b {
		c[k] = v
	}
	c[name] = t
	return c
}

func (r *PrefilterReader) term(e ast.Expr, b binding) term {
	switch e.Kind() {
	case ast.LiteralKind:
		return term{kind: termConst, value: e.AsLiteral()}
	case ast.IdentKind, ast.SelectKind:
		q := QualifiedName(e)
		if t, ok := b[q]; ok {
			return t
		}
		// A loop variable may hide a qualified name that begins with the same name.
		if root, _, _ := strings.Cut(q, "."); root != "" {
			if _, hidden := b[root]; hidden {
				return term{}
			}
		}
		if v, ok := r.vars.Number[q]; ok {
			return term{kind: termField, f: field{v: v}}
		}
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case "lowerAscii":
			t := r.term(c.Target(), b)
			switch {
			case t.kind == termField && !t.f.lower && r.isText(t.f):
				t.f.lower = true
				return t
			case t.kind == termConst:
				if s, ok := t.value.(types.String); ok {
					return term{kind: termConst, value: types.String(lowerASCII(string(s)))}
				}
			}
		case operators.Negate:
			if t := r.term(c.Args()[0], b); t.kind == termConst {
				switch v := t.value.(type) {
				case types.Int:
					return term{kind: termConst, value: -v}
				case types.Double:
					return term{kind: termConst, value: -v}
				}
			}
		case "size":
			arg := c.Target()
			if !c.IsMemberFunction() {
				arg = c.Args()[0]
			}
			if t := r.term(arg, b); t.kind == termField && !t.f.elem && !t.f.lower {
				t.kind = termSize
				return t
			}
		}
	}
	return term{}
}

func (r *PrefilterReader) isText(f field) bool {
	k := r.vars.List[f.v].Type.Kind()
	return f.elem || k == types.StringKind
}

// lazy reports whether the variable is a signal. Reading a signal needs lookups in the state.
func (r *PrefilterReader) lazy(f field) bool { return r.vars.List[f.v].Signal != nil }

// canonical returns the form in which values are compared. Equal numbers of different types have
// the same form.
func canonical(v ref.Val) (string, bool) {
	switch v := v.(type) {
	case types.String:
		return "s" + string(v), true
	case types.Int:
		return fmt.Sprintf("n%d", int64(v)), true
	case types.Double:
		if f := float64(v); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return fmt.Sprintf("n%d", int64(f)), true
		}
	case types.Bool:
		if v {
			return "t", true
		}
		return "f", true
	}
	return "", false
}

// is returns the prefilter of the condition that a term, t, has the value v.
func (r *PrefilterReader) is(t term, v ref.Val) *prefilter {
	if t.kind == termConst {
		// Both operands are constants, for example in a loop over a list of constants.
		if t.value.Equal(v) == types.True {
			return unknown
		}
		return never
	}
	if t.kind == termSize {
		return r.compare(t, "==", v)
	}
	if t.kind != termField {
		return unknown
	}
	switch r.vars.List[t.f.v].Type.Kind() {
	case types.DoubleKind:
		return r.compare(t, "==", v)
	case types.StringKind, types.IntKind, types.BoolKind:
	case types.ListKind:
		if !t.f.elem {
			return unknown
		}
	default:
		return unknown
	}
	if r.lazy(t.f) {
		switch v := v.(type) {
		case types.Bool:
			return r.pred(pred{v: t.f.v, flag: true, want: bool(v)})
		case types.Int, types.Double:
			return r.compare(t, "==", v)
		}
		return unknown
	}
	c, ok := canonical(v)
	if !ok {
		return unknown
	}
	if s, isText := v.(types.String); isText && t.f.lower && lowerASCII(string(s)) != string(s) {
		return never // the text is converted to lower case and so never equals a value with capital letters
	}
	return r.atom(atom{f: t.f, value: c})
}

// holds returns the prefilter of the condition that a text contains a literal or, if begins is set, begins with it. In
// a field with the event's content, the prefilter is in both cases that the literal is anywhere in the text.
func (r *PrefilterReader) holds(t term, lit string, begins bool) *prefilter {
	if t.kind != termField || !r.isText(t.f) || r.lazy(t.f) || len(lit) < MinLiteral {
		return unknown
	}
	t.f.lower = false // texts are always searched in lower case
	begins = begins && !slices.Contains(contentNames[:], r.vars.List[t.f.v].Name)
	return r.atom(atom{f: t.f, holds: true, begins: begins, literal: lowerASCII(lit)})
}

// required returns the prefilter of the condition that a text meets the requirement of a regular expression.
func (r *PrefilterReader) required(t term, q *requirement) *prefilter {
	if q == nil {
		return unknown
	}
	var ns []*prefilter
	for _, l := range q.one {
		ns = append(ns, r.holds(t, l, false))
	}
	for _, k := range append(q.all, q.some...) {
		if len(q.all) > 0 && k.one != nil && shortest(k.one) < minJoined && q.rarest() != nil &&
			shortest(q.rarest()) >= minJoined {
			continue // such short words are in most texts
		}
		ns = append(ns, r.required(t, k))
	}
	if q.all != nil {
		return all(ns...)
	}
	return anyOf(ns...)
}

// compare returns the prefilter for the comparison of a number with a constant.
func (r *PrefilterReader) compare(t term, op string, v ref.Val) *prefilter {
	var than float64
	switch v := v.(type) {
	case types.Int:
		than = float64(v)
	case types.Double:
		than = float64(v)
	default:
		return unknown
	}
	if math.Abs(than) >= 1<<53 {
		return unknown
	}
	switch t.kind {
	case termSize:
		return r.pred(pred{v: t.f.v, size: true, op: op, than: than})
	case termField:
		if k := r.vars.List[t.f.v].Type.Kind(); !t.f.elem && (k == types.IntKind || k == types.DoubleKind) {
			return r.pred(pred{v: t.f.v, op: op, than: than})
		}
	}
	return unknown
}

// comparisons gives the symbol of each comparison operator. mirrored gives the operator that means the same with
// exchanged operands. opposite gives the operator of the negated comparison.
var (
	comparisons = map[string]string{
		operators.Less:          "<",
		operators.LessEquals:    "<=",
		operators.Greater:       ">",
		operators.GreaterEquals: ">=",
	}
	mirrored = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}
	opposite = map[string]string{"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
)

// Of returns the prefilter of an expression: a condition that holds whenever the expression is true or fails.
func (r *PrefilterReader) Of(e ast.Expr, b binding) *prefilter {
	if e.Kind() != ast.CallKind {
		return r.operand(e, b, true)
	}
	c := e.AsCall()
	args := c.Args()
	switch fn := c.FunctionName(); fn {
	case operators.LogicalAnd:
		return all(r.Of(args[0], b), r.Of(args[1], b))
	case operators.LogicalOr:
		return anyOf(r.Of(args[0], b), r.Of(args[1], b))
	case operators.LogicalNot:
		return r.not(args[0], b)
	case operators.Conditional:
		if !r.safe(args[0], b) {
			return unknown
		}
		return anyOf(all(r.Of(args[0], b), r.Of(args[1], b)), all(r.not(args[0], b), r.Of(args[2], b)))
	case operators.Equals:
		return r.equals(args[0], args[1], b)
	case operators.In:
		return r.in(args[0], args[1], b)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return r.compared(comparisons[fn], args[0], args[1], b)
	case operators.NotEquals:
		x, y := r.term(args[0], b), r.term(args[1], b)
		if y.kind == termConst && y.value.Equal(types.String("")) == types.True && x.kind == termField && !x.f.elem &&
			!x.f.lower &&
			r.isText(x.f) {
			return r.pred(pred{v: x.f.v, size: true, op: ">", than: 0})
		}
	case "contains", "startsWith", "endsWith":
		if t := r.term(args[0], b); t.kind == termConst {
			if s, ok := t.value.(types.String); ok {
				return r.holds(r.term(c.Target(), b), string(s), fn == "startsWith")
			}
		}
	case "matches":
		target, re := c.Target(), args[0]
		if !c.IsMemberFunction() {
			target, re = args[0], args[1]
		}
		if t := r.term(re, b); t.kind == termConst {
			if s, ok := t.value.(types.String); ok {
				return r.required(r.term(target, b), requires(string(s)))
			}
		}
	}
	return unknown
}

// operand returns the prefilter of the condition that an expression, which is no call, is true or, if want is false,
// false.
func (r *PrefilterReader) operand(e ast.Expr, b binding, want bool) *prefilter {
	switch e.Kind() {
	case ast.LiteralKind:
		if e.AsLiteral() == types.Bool(!want) {
			return never
		}
	case ast.IdentKind, ast.SelectKind:
		return r.flag(e, b, want)
	case ast.ComprehensionKind:
		return r.loop(e.AsComprehension(), b, want)
	}
	return unknown
}

// not returns the prefilter of the negation of an expression: a condition that holds whenever the expression is false
// or fails.
func (r *PrefilterReader) not(e ast.Expr, b binding) *prefilter {
	if e.Kind() != ast.CallKind {
		return r.operand(e, b, false)
	}
	c := e.AsCall()
	args := c.Args()
	switch fn := c.FunctionName(); fn {
	case operators.LogicalAnd:
		return anyOf(r.not(args[0], b), r.not(args[1], b))
	case operators.LogicalOr:
		return all(r.not(args[0], b), r.not(args[1], b))
	case operators.LogicalNot:
		return r.Of(args[0], b)
	case operators.NotEquals:
		return r.equals(args[0], args[1], b)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		// A negated comparison can be replaced by the opposite one only for integers. For other numbers, both can be
		// false, because all comparisons with NaN are false.
		for _, a := range args {
			if t := r.term(a, b); t.kind == termField && r.vars.List[t.f.v].Type.Kind() != types.IntKind {
				return unknown
			}
		}
		return r.compared(opposite[comparisons[fn]], args[0], args[1], b)
	}
	return unknown
}

// decides reports whether an expression is true, without an error, whenever its prefilter holds.
// That is so for equalities of fields and constants, and for combinations of these by && and ||.
func (r *PrefilterReader) decides(e ast.Expr) bool {
	switch e.Kind() {
	case ast.IdentKind, ast.SelectKind:
		t := r.term(e, nil)
		return r.exact(t, types.BoolType)
	case ast.CallKind:
	default:
		return false
	}
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		return r.decides(args[0]) && r.decides(args[1])
	case operators.LogicalNot:
		return args[0].Kind() != ast.CallKind && r.decides(args[0])
	case operators.Equals:
		s, t := r.term(args[0], nil), r.term(args[1], nil)
		if s.kind == termConst {
			s, t = t, s
		}
		return t.kind == termConst && r.exact(s, t.value.Type())
	case operators.In:
		s := r.term(args[0], nil)
		if args[1].Kind() != ast.ListKind {
			l := r.term(args[1], nil)
			return s.kind == termConst && l.kind == termField && !r.lazy(l.f) &&
				r.vars.List[l.f.v].GoType == textsType
		}
		return !slices.ContainsFunc(args[1].AsList().Elements(), func(e ast.Expr) bool {
			t := r.term(e, nil)
			return t.kind != termConst || !r.exact(s, t.value.Type())
		})
	}
	return false
}

// exact reports whether an atom decides exactly whether a term equals a constant. of is the type of the constant.
func (r *PrefilterReader) exact(t term, of ref.Type) bool {
	if t.kind != termField || t.f.elem || r.lazy(t.f) {
		return false
	}
	switch k := r.vars.List[t.f.v].Type.Kind(); k {
	case types.StringKind, types.IntKind, types.BoolKind:
		return of.TypeName() == r.vars.List[t.f.v].Type.TypeName()
	}
	return false
}

func (r *PrefilterReader) flag(e ast.Expr, b binding, want bool) *prefilter {
	t := r.term(e, b)
	switch {
	case t.kind == termConst:
		if t.value == types.Bool(!want) {
			return never
		}
	case t.kind == termField && !t.f.elem && r.vars.List[t.f.v].Type.Kind() == types.BoolKind:
		return r.is(t, types.Bool(want))
	}
	return unknown
}

func (r *PrefilterReader) equals(x, y ast.Expr, b binding) *prefilter {
	s, t := r.term(x, b), r.term(y, b)
	if s.kind == termConst {
		s, t = t, s
	}
	if t.kind != termConst {
		return unknown
	}
	return r.is(s, t.value)
}

func (r *PrefilterReader) compared(op string, x, y ast.Expr, b binding) *prefilter {
	s, t := r.term(x, b), r.term(y, b)
	if s.kind == termConst {
		s, t, op = t, s, mirrored[op]
	}
	if t.kind != termConst {
		return unknown
	}
	return r.compare(s, op, t.value)
}

// in returns the prefilter for "x in [constants]" and "constant in list".
func (r *PrefilterReader) in(x, list ast.Expr, b binding) *prefilter {
	if list.Kind() == ast.ListKind {
		s := r.term(x, b)
		if s.kind != termField && s.kind != termConst {
			return unknown
		}
		var ns []*prefilter
		for _, e := range list.AsList().Elements() {
			t := r.term(e, b)
			if t.kind != termConst {
				return unknown
			}
			ns = append(ns, r.is(s, t.value))
		}
		return anyOf(ns...)
	}
	s, l := r.term(x, b), r.term(list, b)
	if s.kind != termConst || l.kind != termField || r.vars.List[l.f.v].Type.Kind() != types.ListKind {
		return unknown
	}
	l.f.elem = true
	return r.is(l, s.value)
}
