package compiled

import (
	"math"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/debug"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// maxCases is the maximum number of combinations of values that Outcomes tries for one condition.
const maxCases = 1 << 14

// Outcomes reports whether a condition can be true, and whether it can be false, for events of some kinds. It tries all
// values that make a difference: the constants that a term is compared with, values between them, and a value that
// differs from all. It assumes that any other part of the condition may be true or false. Outcomes may call an outcome
// possible that is not, but never the reverse.
func Outcomes(vars *Vars, a *ast.AST, on []string) (canHold, canFail bool) {
	f := &folder{r: NewPrefilterReader(vars), ast: a, terms: make(map[string]int)}
	p := f.prop(a.Expr())
	cases := 1
	for i := range f.domains {
		d := &f.domains[i]
		if d.vals = d.values(); d.name == "event.kind" && len(on) > 0 {
			d.vals = nil
			for _, k := range on {
				d.vals = append(d.vals, k)
			}
		}
		if cases *= max(len(d.vals), 1); cases > maxCases {
			return true, true
		}
	}
	vals := make([]any, len(f.domains))
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(vals) {
			if p(vals) {
				canHold = true
			} else {
				canFail = true
			}
			return canHold && canFail
		}
		for _, v := range f.domains[i].vals {
			vals[i] = v
			if try(i + 1) {
				return true
			}
		}
		return false
	}
	try(0)
	return canHold, canFail
}

// folder converts a condition to a proposition over the condition's terms.
type folder struct {
	r       *PrefilterReader
	ast     *ast.AST
	terms   map[string]int
	domains []domain
}

// domain has the values of a term that make a difference for a condition.
type domain struct {
	name   string
	consts []string  // constants, in canonical form, that the term is compared with
	nums   []float64 // numbers that it is compared with
	flag   bool
	whole  bool // the term is an integer
	size   bool // the term is a size, so it is at least 0
	vals   []any
}

// prop is a proposition. It takes a value for each term, and returns whether it is true for these values.
type prop func(vals []any) bool

func (d *domain) values() []any {
	var out []any
	if d.flag {
		out = append(out, true, false)
	}
	if len(d.consts) > 0 {
		for _, c := range d.consts {
			out = append(out, c)
		}
		out = append(out, nil) // any other value
	}
	slices.Sort(d.nums)
	var nums []float64
	for i, n := range d.nums {
		switch {
		case d.whole:
			nums = append(nums, math.Ceil(n)-1, math.Floor(n), math.Ceil(n), math.Floor(n)+1)
			continue
		case i == 0:
			nums = append(nums, n-1)
		case n > d.nums[i-1]:
			nums = append(nums, d.nums[i-1]+(n-d.nums[i-1])/2)
		}
		if nums = append(nums, n); i == len(d.nums)-1 {
			nums = append(nums, n+1)
		}
	}
	slices.Sort(nums)
	for _, n := range slices.Compact(nums) {
		if !d.size || n >= 0 {
			out = append(out, n)
		}
	}
	return out
}

// term returns the index of the term that an expression is, and the term's domain.
func (f *folder) term(e ast.Expr) (int, *domain) {
	t := f.r.term(e, nil)
	d := domain{name: debug.ToDebugString(e)}
	if t.kind == termField || t.kind == termSize {
		v := f.r.vars.List[t.f.v]
		d.name, d.size = v.Name, t.kind == termSize
		if t.f.lower {
			d.name += ".lowerAscii()"
		}
		if d.size {
			d.name += ".size()"
		}
		d.whole = d.size || v.Type.Kind() == types.IntKind
	}
	i, ok := f.terms[d.name]
	if !ok {
		i = len(f.domains)
		f.terms[d.name] = i
		f.domains = append(f.domains, d)
	}
	return i, &f.domains[i]
}

func constantProp(b bool) prop { return func([]any) bool { return b } }

func (f *folder) prop(e ast.Expr) prop {
	switch e.Kind() {
	case ast.LiteralKind:
		return constantProp(e.AsLiteral() == types.True)
	case ast.CallKind:
		if v, ok := f.evaluate(e); ok {
			return constantProp(v)
		}
		if p := f.call(e.AsCall()); p != nil {
			return p
		}
	case ast.ComprehensionKind:
		if v, ok := f.evaluate(e); ok {
			return constantProp(v)
		}
	}
	i, d := f.term(e)
	d.flag = true
	return func(vals []any) bool { return vals[i] == true }
}

// evaluate evaluates an expression that uses no names. If the expression uses a name or fails, ok is false.
func (f *folder) evaluate(e ast.Expr) (value, ok bool) {
	own := make(map[string]bool)
	named := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			own[c.IterVar()], own[c.IterVar2()], own[c.AccuVar()] = true, true, true
		case ast.IdentKind:
			named = named || !own[e.AsIdent()]
		}
	}))
	env, err := BaseEnv()
	if named || err != nil {
		return false, false
	}
	p, err := env.PlanProgram(ast.NewCheckedAST(ast.NewAST(e, f.ast.SourceInfo()), f.ast.TypeMap(), f.ast.ReferenceMap()),
		cel.CostLimit(CostLimit))
	if err != nil {
		return false, false
	}
	v, _, err := p.Eval(cel.NoVars())
	b, ok := v.(types.Bool)
	return bool(b), ok && err == nil
}

func (f *folder) call(c ast.CallExpr) prop {
	args := c.Args()
	switch fn := c.FunctionName(); fn {
	case operators.LogicalAnd, operators.LogicalOr:
		x, y := f.prop(args[0]), f.prop(args[1])
		if fn == operators.LogicalAnd {
			return func(vals []any) bool { return x(vals) && y(vals) }
		}
		return func(vals []any) bool { return x(vals) || y(vals) }
	case operators.LogicalNot:
		x := f.prop(args[0])
		return func(vals []any) bool { return !x(vals) }
	case operators.Conditional:
		x, y, z := f.prop(args[0]), f.prop(args[1]), f.prop(args[2])
		return func(vals []any) bool {
			if x(vals) {
				return y(vals)
			}
			return z(vals)
		}
	case operators.Equals:
		return f.equal(args[0], args[1])
	case operators.NotEquals:
		if x := f.equal(args[0], args[1]); x != nil {
			return func(vals []any) bool { return !x(vals) }
		}
	case operators.In:
		if args[1].Kind() != ast.ListKind {
			return nil
		}
		var ps []prop
		for _, el := range args[1].AsList().Elements() {
			p := f.equal(args[0], el)
			if p == nil {
				return nil
			}
			ps = append(ps, p)
		}
		return func(vals []any) bool { return slices.ContainsFunc(ps, func(p prop) bool { return p(vals) }) }
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return f.compare(comparisons[fn], args[0], args[1])
	}
	return nil
}

// constant converts a constant expression to a value as domains have it. If e is not constant, the bool is false.
func (f *folder) constant(e ast.Expr) (any, bool) {
	t := f.r.term(e, nil)
	if t.kind != termConst {
		return nil, false
	}
	switch v := t.value.(type) {
	case types.Bool:
		return bool(v), true
	case types.Int, types.Double:
		n, ok := number(v)
		return n, ok
	case types.String:
		return string(v), true
	}
	return nil, false
}

func number(v ref.Val) (float64, bool) {
	n := 0.0
	switch v := v.(type) {
	case types.Int:
		n = float64(v)
	case types.Double:
		n = float64(v)
	}
	return n, math.Abs(n) < 1<<53 // false for NaN too
}

// equal converts an equality of a term and a constant, or of two constants. For any other equality, it returns nil.
func (f *folder) equal(x, y ast.Expr) prop {
	a, okA := f.constant(x)
	b, okB := f.constant(y)
	switch {
	case okA && okB:
		return constantProp(a == b)
	case okA:
		x, b = y, a
	case !okB:
		return nil
	}
	i, d := f.term(x)
	switch b := b.(type) {
	case bool:
		d.flag = true
	case float64:
		d.nums = append(d.nums, b)
	case string:
		if !slices.Contains(d.consts, b) {
			d.consts = append(d.consts, b)
		}
	}
	return func(vals []any) bool { return vals[i] == b }
}

// compare converts a comparison of a number with a constant.
func (f *folder) compare(op string, x, y ast.Expr) prop {
	a, okA := f.constant(x)
	b, okB := f.constant(y)
	than, isNum := b.(float64)
	if okA {
		if n, ok := a.(float64); ok && okB && isNum {
			return constantProp(holds(op, n, than))
		}
		x, op = y, mirrored[op]
		than, isNum = a.(float64)
	}
	if okA == okB || !isNum {
		return nil
	}
	i, d := f.term(x)
	d.nums = append(d.nums, than)
	return func(vals []any) bool {
		n, ok := vals[i].(float64)
		return ok && holds(op, n, than)
	}
}

func holds(op string, x, y float64) bool {
	switch op {
	case "<":
		return x < y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x >= y
}
