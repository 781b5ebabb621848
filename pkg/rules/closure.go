package rules

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// A closure is an expression as Go functions that call one another, over the
// values as Go has them: what CEL spends on boxing them, looking names up and
// choosing overloads at each node is left out. Only the part of the language is
// read that conditions are mostly made of; CEL is the reference and does the rest.
//
// Each function says beside its value whether it has one. Where it has none –
// CEL would fail, or may – CEL evaluates the whole expression, so that a closure
// never decides what an error is. An operand that && or || leave out counts
// neither here nor there. TestClosuresAreWhatEvaluationGives compares both.
//
// A closure counts no cost: it is used where the estimate proves that the limit
// holds, as expressions are that are planned without counting. Explanations,
// coverage and the console's costs are always CEL's.
type closure struct {
	typ    reflect.Type // string, int64, float64, bool, *T, []string or []*T
	flag   flagFn
	num    numFn
	real   realFn
	text   textFn
	rec    recFn
	texts  textsFn
	recs   recsFn
	isText bool   // a constant text
	con    string // which
	isNum  bool   // a constant integer
	n      int64
	list   []string // constant texts
	nums   []int64  // constant integers
}

type (
	flagFn  func(*activation) (v, ok bool)
	numFn   func(*activation) (v int64, ok bool)
	realFn  func(*activation) (v float64, ok bool)
	textFn  func(*activation) (v string, ok bool)
	recFn   func(*activation) (v unsafe.Pointer, ok bool)
	textsFn func(*activation) (v []string, ok bool)
	recsFn  func(*activation) (v []unsafe.Pointer, ok bool)
)

// maxNested is how deep loops are nested in a closure.
const maxNested = 4

// loopVar is the value of a loop's variable: a text or a structure.
type loopVar struct {
	text string
	rec  unsafe.Pointer
}

var (
	flagType  = reflect.TypeFor[bool]()
	numType   = reflect.TypeFor[int64]()
	realType  = reflect.TypeFor[float64]()
	textType  = reflect.TypeFor[string]()
	textsType = reflect.TypeFor[[]string]()
)

// The costs that a closure with it is counted by: no less than what CEL counts.
// CEL cannot estimate such an expression, because it does not know the type.
const (
	costNode = 100
	costText = boundText / 5 // two texts, a unit for ten bytes
)

// closer makes closures of checked expressions.
type closer struct {
	vars  *varTable
	it    reflect.Type // of the element of for_each; nil: none is known
	loops map[string]binder
	depth int
	cost  uint64 // upper bound, within the sizes of the estimate
	times uint64 // how often the part that is read is evaluated
}

// binder is a loop's variable: its place and its type.
type binder struct {
	slot int
	typ  reflect.Type
}

// newClosure is nil for what closures do not do.
func newClosure(vars *varTable, e ast.Expr) *closure {
	c := closer{vars: vars, times: 1}
	return c.of(e)
}

// forEach is a rule's condition over the elements of a list.
type forEach struct {
	list *closure
	when *closure
}

// newForEach is nil where CEL has to do it.
func newForEach(vars *varTable, list, when ast.Expr) *forEach {
	c := closer{vars: vars, times: 1}
	l := c.of(list)
	if l == nil || l.recs == nil {
		return nil
	}
	c.it, c.cost = l.typ.Elem(), 0 // each element is evaluated for itself
	w := c.of(when)
	if w == nil || w.flag == nil || c.cost > CostLimit {
		return nil
	}
	return &forEach{l, w}
}

func (c *closer) spend(n uint64) {
	if n > math.MaxUint64/c.times || c.cost+n*c.times < c.cost {
		c.cost = math.MaxUint64
		return
	}
	c.cost += n * c.times
}

func (c *closer) of(e ast.Expr) *closure {
	c.spend(costNode)
	switch e.Kind() {
	case ast.LiteralKind:
		return constant(e)
	case ast.IdentKind:
		return c.name(e.AsIdent())
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return c.member(c.of(s.Operand()), s.FieldName())
		}
	case ast.ListKind:
		return c.constants(e.AsList())
	case ast.ComprehensionKind:
		return c.loop(e.AsComprehension())
	case ast.CallKind:
		return c.call(e.AsCall())
	}
	return nil
}

func constant(e ast.Expr) *closure {
	switch v := e.AsLiteral().(type) {
	case types.String:
		s := string(v)
		return &closure{typ: textType, text: func(*activation) (string, bool) { return s, true }, isText: true, con: s}
	case types.Int:
		n := int64(v)
		return &closure{typ: numType, num: func(*activation) (int64, bool) { return n, true }, isNum: true, n: n}
	case types.Double:
		f := float64(v)
		return &closure{typ: realType, real: func(*activation) (float64, bool) { return f, true }}
	case types.Bool:
		b := bool(v)
		return &closure{typ: flagType, flag: func(*activation) (bool, bool) { return b, true }}
	}
	return nil
}

// constants is a list of constant texts, or of constant integers.
func (c *closer) constants(l ast.ListExpr) *closure {
	out := &closure{}
	c.spend(uint64(l.Size()))
	for _, e := range l.Elements() {
		if e.Kind() != ast.LiteralKind {
			return nil
		}
		switch v := e.AsLiteral().(type) {
		case types.String:
			out.list = append(out.list, string(v))
		case types.Int:
			out.nums = append(out.nums, int64(v))
		default:
			return nil
		}
	}
	switch {
	case out.list != nil && out.nums == nil:
		list := out.list
		out.typ, out.texts = textsType, func(*activation) ([]string, bool) { return list, true }
	case out.nums != nil && out.list == nil:
		out.typ = reflect.TypeFor[[]int64]()
	default:
		return nil
	}
	return out
}

// name is a variable, a signal, or a loop's variable.
func (c *closer) name(name string) *closure {
	if b, ok := c.loops[name]; ok {
		return bound(b)
	}
	if name == "it" && c.it != nil {
		return bound(binder{0, c.it})
	}
	i, ok := c.vars.index[name]
	if !ok {
		return nil
	}
	v := c.vars.vars[i]
	if v.sig == nil {
		return input(v)
	}
	if v.sig.evaluates {
		return nil // what it evaluates may need the variables of loops
	}
	return signal(i, v.goTyp)
}

// bound is the value of a loop's variable.
func bound(b binder) *closure {
	slot, out := b.slot, &closure{typ: b.typ}
	if b.typ == textType {
		out.text = func(a *activation) (string, bool) { return a.loops[slot].text, true }
	} else {
		out.rec = func(a *activation) (unsafe.Pointer, bool) { return a.loops[slot].rec, true }
	}
	return out
}

// at reads a value of a type at an offset from the beginning of a structure.
// Types and offsets are those that package reflect gives for the structure, so
// that what is read is the field, and is kept alive by the structure.
func at[T any](rec unsafe.Pointer, off uintptr) T { return *(*T)(unsafe.Add(rec, off)) }

// input is a field of the input.
func input(v *variable) *closure {
	t := reflect.TypeFor[Input]().Field(v.field[0])
	off := t.Offset + t.Type.Field(v.field[1]).Offset
	return fieldOf(func(a *activation) (unsafe.Pointer, bool) { return unsafe.Pointer(a.in), true }, off, v.goTyp)
}

// member is a field of a structure by its name in CEL.
func (c *closer) member(of *closure, name string) *closure {
	if of == nil || of.rec == nil {
		return nil
	}
	t := of.typ.Elem()
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("cel") == name {
			return fieldOf(of.rec, f.Offset, f.Type)
		}
	}
	return nil
}

// fieldOf is a field of a type at an offset in a structure.
func fieldOf(of recFn, off uintptr, t reflect.Type) *closure {
	out := &closure{typ: t}
	switch {
	case t == textType:
		out.text = reading[string](of, off)
	case t == numType:
		out.num = reading[int64](of, off)
	case t == realType:
		out.real = reading[float64](of, off)
	case t == flagType:
		out.flag = reading[bool](of, off)
	case t == textsType:
		out.texts = reading[[]string](of, off)
	case isRec(t):
		out.rec = reading[unsafe.Pointer](of, off)
	case t.Kind() == reflect.Slice && isRec(t.Elem()):
		out.recs = reading[[]unsafe.Pointer](of, off)
	default:
		return nil
	}
	return out
}

func isRec(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func reading[T any](of recFn, off uintptr) func(*activation) (T, bool) {
	return func(a *activation) (v T, ok bool) {
		if p, ok := of(a); ok && p != nil {
			return at[T](p, off), true
		}
		return v, false
	}
}

// signal is a signal's value. A signal that fails has none.
func signal(i int, t reflect.Type) *closure {
	out := &closure{typ: t}
	switch t {
	case flagType:
		out.flag = asserted[bool](i)
	case numType:
		out.num = asserted[int64](i)
	case realType:
		out.real = asserted[float64](i)
	case textsType:
		out.texts = asserted[[]string](i)
	default:
		if t.Kind() != reflect.Slice || !isRec(t.Elem()) {
			return nil
		}
		out.recs = func(a *activation) ([]unsafe.Pointer, bool) { return records(a.raw(i), t) }
	}
	return out
}

func asserted[T any](i int) func(*activation) (T, bool) {
	return func(a *activation) (T, bool) {
		v, ok := a.raw(i).(T)
		return v, ok
	}
}

// records returns the elements of a list of structures of a type.
func records(x any, t reflect.Type) ([]unsafe.Pointer, bool) {
	v := reflect.ValueOf(x)
	if v.Type() != t {
		return nil, false
	}
	return unsafe.Slice((*unsafe.Pointer)(v.UnsafePointer()), v.Len()), true
}

// ---- calls

func (c *closer) call(e ast.CallExpr) *closure {
	if e.FunctionName() == "format" && e.IsMemberFunction() {
		return c.format(e)
	}
	var args []*closure
	if e.IsMemberFunction() {
		args = append(args, c.of(e.Target()))
	}
	for _, x := range e.Args() {
		args = append(args, c.of(x))
	}
	if slices.Contains(args, nil) {
		return nil
	}
	fn := e.FunctionName()
	switch len(args) {
	case 1:
		return c.unary(fn, args[0])
	case 2:
		return c.binary(fn, args[0], args[1])
	case 3:
		if fn == operators.Conditional && args[0].flag != nil && args[1].typ == args[2].typ {
			return conditional(args[0].flag, args[1], args[2])
		}
	}
	return nil
}

// format is a text with others and integers in it: %s, %d and %%.
func (c *closer) format(e ast.CallExpr) *closure {
	f := c.of(e.Target())
	if f == nil || !f.isText || len(e.Args()) != 1 || e.Args()[0].Kind() != ast.ListKind {
		return nil
	}
	args := e.Args()[0].AsList().Elements()
	var parts []func(a *activation, buf []byte) ([]byte, bool)
	for left := f.con; left != ""; {
		lit, verb, some := strings.Cut(left, "%")
		if parts = append(parts, func(_ *activation, buf []byte) ([]byte, bool) { return append(buf, lit...), true }); !some {
			break
		}
		if strings.HasPrefix(verb, "%") {
			left = verb[1:]
			parts = append(parts, func(_ *activation, buf []byte) ([]byte, bool) { return append(buf, '%'), true })
			continue
		}
		if verb == "" || len(args) == 0 {
			return nil
		}
		x := c.of(args[0])
		args, left = args[1:], verb[1:]
		switch {
		case x == nil:
			return nil
		case verb[0] == 's' && x.text != nil:
			parts = append(parts, func(a *activation, buf []byte) ([]byte, bool) {
				v, ok := x.text(a)
				return append(buf, v...), ok
			})
		case verb[0] == 'd' && x.num != nil:
			parts = append(parts, func(a *activation, buf []byte) ([]byte, bool) {
				v, ok := x.num(a)
				return strconv.AppendInt(buf, v, 10), ok
			})
		default:
			return nil
		}
	}
	if len(args) > 0 {
		return nil // CEL may look at them
	}
	c.spend(costText)
	return &closure{typ: textType, text: func(a *activation) (string, bool) {
		buf, ok := make([]byte, 0, 64), true
		for _, part := range parts {
			if buf, ok = part(a, buf); !ok {
				return "", false
			}
		}
		return string(buf), true
	}}
}

func flagOf(f flagFn) *closure { return &closure{typ: flagType, flag: f} }

func (c *closer) unary(fn string, x *closure) *closure {
	switch fn {
	case operators.LogicalNot:
		if f := x.flag; f != nil {
			return flagOf(func(a *activation) (bool, bool) {
				v, ok := f(a)
				return !v, ok
			})
		}
	case "size":
		return c.size(x)
	case "lowerAscii":
		if f := x.text; f != nil {
			c.spend(costText)
			return &closure{typ: textType, text: func(a *activation) (string, bool) {
				v, ok := f(a)
				return lowerASCII(v), ok
			}}
		}
	}
	return nil
}

func (c *closer) size(x *closure) *closure {
	var f numFn
	switch {
	case x.text != nil:
		text := x.text
		c.spend(costText)
		f = func(a *activation) (int64, bool) {
			v, ok := text(a)
			if !ok {
				return 0, false
			}
			return a.runes(v), true
		}
	case x.texts != nil:
		texts := x.texts
		f = func(a *activation) (int64, bool) {
			v, ok := texts(a)
			return int64(len(v)), ok
		}
	case x.recs != nil:
		recs := x.recs
		f = func(a *activation) (int64, bool) {
			v, ok := recs(a)
			return int64(len(v)), ok
		}
	default:
		return nil
	}
	return &closure{typ: numType, num: f}
}

func (c *closer) binary(fn string, x, y *closure) *closure {
	switch fn {
	case operators.LogicalAnd, operators.LogicalOr:
		if x.flag != nil && y.flag != nil {
			return both(x.flag, y.flag, fn == operators.LogicalOr)
		}
	case operators.Equals, operators.NotEquals:
		return c.equal(x, y, fn == operators.Equals)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return c.compared(fn, x, y)
	case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return c.arithmetic(fn, x, y)
	case operators.In, operators.OldIn:
		return c.in(x, y)
	case operators.Index:
		if y.isNum && x.texts != nil {
			return &closure{typ: textType, text: element(x.texts, y.n)}
		}
		if y.isNum && x.recs != nil {
			return &closure{typ: x.typ.Elem(), rec: element(x.recs, y.n)}
		}
	case "join":
		if x.texts != nil && y.isText {
			c.spend(boundList + costText)
			texts, between := x.texts, y.con
			return &closure{typ: textType, text: func(a *activation) (string, bool) {
				v, ok := texts(a)
				return strings.Join(v, between), ok
			}}
		}
	case "contains", "startsWith", "endsWith":
		if x.text != nil && y.text != nil {
			c.spend(costText)
			f := map[string]func(s, t string) bool{"contains": strings.Contains, "startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix}[fn]
			return texts2(x, y, f)
		}
	case "matches":
		if x.text != nil && y.isText {
			re, err := regexp.Compile(y.con)
			if err != nil {
				return nil
			}
			c.spend(costText * uint64(1+len(y.con)))
			f := x.text
			return flagOf(func(a *activation) (bool, bool) {
				v, ok := f(a)
				return ok && re.MatchString(v), ok
			})
		}
	}
	return nil
}

// both is && and ||. The result that ends it is the same for CEL, whatever the
// operand after it is. Where the first one has no value CEL looks at the second.
func both(x, y flagFn, or bool) *closure {
	return flagOf(func(a *activation) (bool, bool) {
		if v, ok := x(a); v == or || !ok {
			return v, ok
		}
		return y(a)
	})
}

// element is one of a list, which CEL says when it is not there.
func element[T any](list func(*activation) ([]T, bool), i int64) func(*activation) (T, bool) {
	return func(a *activation) (v T, ok bool) {
		l, ok := list(a)
		if !ok || i < 0 || i >= int64(len(l)) {
			return v, false
		}
		return l[i], true
	}
}

func conditional(when flagFn, x, y *closure) *closure {
	out := &closure{typ: x.typ}
	switch {
	case x.flag != nil:
		out.flag = chosen(when, x.flag, y.flag)
	case x.num != nil:
		out.num = chosen(when, x.num, y.num)
	case x.real != nil:
		out.real = chosen(when, x.real, y.real)
	case x.text != nil:
		out.text = chosen(when, x.text, y.text)
	case x.rec != nil:
		out.rec = chosen(when, x.rec, y.rec)
	case x.texts != nil:
		out.texts = chosen(when, x.texts, y.texts)
	case x.recs != nil:
		out.recs = chosen(when, x.recs, y.recs)
	default:
		return nil
	}
	return out
}

func chosen[T any](when flagFn, x, y func(*activation) (T, bool)) func(*activation) (T, bool) {
	return func(a *activation) (v T, ok bool) {
		w, ok := when(a)
		switch {
		case !ok:
			return v, false
		case w:
			return x(a)
		}
		return y(a)
	}
}

// texts2 is a predicate over two texts, of which the second is mostly constant.
func texts2(x, y *closure, f func(s, t string) bool) *closure {
	s, t := x.text, y.text
	if y.isText {
		con := y.con
		return flagOf(func(a *activation) (bool, bool) {
			v, ok := s(a)
			return ok && f(v, con), ok
		})
	}
	return flagOf(func(a *activation) (bool, bool) {
		v, ok := s(a)
		if !ok {
			return false, false
		}
		w, ok := t(a)
		return ok && f(v, w), ok
	})
}

func (c *closer) equal(x, y *closure, want bool) *closure {
	switch {
	case x.text != nil && y.text != nil:
		c.spend(costText)
		if x.isText {
			x, y = y, x
		}
		return texts2(x, y, func(s, t string) bool { return (s == t) == want })
	case x.num != nil && y.num != nil:
		return two(x.num, y.num, func(v, w int64) (bool, bool) { return (v == w) == want, true })
	case x.real != nil && y.real != nil:
		return two(x.real, y.real, func(v, w float64) (bool, bool) { return (v == w) == want, true })
	case x.flag != nil && y.flag != nil:
		return two(x.flag, y.flag, func(v, w bool) (bool, bool) { return (v == w) == want, true })
	}
	return nil
}

// two is a predicate over two values of one type.
func two[T any](x, y func(*activation) (T, bool), f func(v, w T) (bool, bool)) *closure {
	return flagOf(func(a *activation) (bool, bool) {
		v, ok := x(a)
		if !ok {
			return false, false
		}
		w, ok := y(a)
		if !ok {
			return false, false
		}
		return f(v, w)
	})
}

func (c *closer) compared(fn string, x, y *closure) *closure {
	switch {
	case x.num != nil && y.isNum:
		num, than := x.num, y.n
		op := ordered[int64](fn)
		return flagOf(func(a *activation) (bool, bool) {
			v, ok := num(a)
			return ok && op(v, than), ok
		})
	case x.num != nil && y.num != nil:
		op := ordered[int64](fn)
		return two(x.num, y.num, func(v, w int64) (bool, bool) { return op(v, w), true })
	case x.real != nil && y.real != nil:
		op := ordered[float64](fn)
		return two(x.real, y.real, func(v, w float64) (bool, bool) { return op(v, w), v == v && w == w }) // CEL: a NaN has no order
	case x.text != nil && y.text != nil:
		c.spend(costText)
		return texts2(x, y, ordered[string](fn))
	}
	return nil
}

func ordered[T int64 | float64 | string](fn string) func(v, w T) bool {
	switch fn {
	case operators.Less:
		return func(v, w T) bool { return v < w }
	case operators.LessEquals:
		return func(v, w T) bool { return v <= w }
	case operators.Greater:
		return func(v, w T) bool { return v > w }
	}
	return func(v, w T) bool { return v >= w }
}

// arithmetic is of texts, and of integers that are far from overflowing: CEL
// says what is wrong with others.
func (c *closer) arithmetic(fn string, x, y *closure) *closure {
	if fn == operators.Add && x.text != nil && y.text != nil {
		c.spend(costText)
		s, t := x.text, y.text
		return &closure{typ: textType, text: func(a *activation) (string, bool) {
			v, ok := s(a)
			if !ok {
				return "", false
			}
			w, ok := t(a)
			return v + w, ok
		}}
	}
	if x.num == nil || y.num == nil {
		return nil
	}
	var op func(v, w int64) int64
	switch fn {
	case operators.Add:
		op = func(v, w int64) int64 { return v + w }
	case operators.Subtract:
		op = func(v, w int64) int64 { return v - w }
	case operators.Multiply:
		op = func(v, w int64) int64 { return v * w }
	case operators.Divide:
		op = func(v, w int64) int64 { return v / w }
	case operators.Modulo:
		op = func(v, w int64) int64 { return v % w }
	}
	divides := fn == operators.Divide || fn == operators.Modulo
	const most = 1 << 31
	m, n := x.num, y.num
	return &closure{typ: numType, num: func(a *activation) (int64, bool) {
		v, ok := m(a)
		if !ok || v > most || v < -most {
			return 0, false
		}
		w, ok := n(a)
		if !ok || w > most || w < -most || w == 0 && divides {
			return 0, false
		}
		return op(v, w), true
	}}
}

// in looks a value up in a list.
func (c *closer) in(x, list *closure) *closure {
	switch {
	case x.text != nil && list.list != nil:
		c.spend(costText)
		text, set := x.text, list.list
		if len(set) > 8 {
			m := make(map[string]bool, len(set))
			for _, s := range set {
				m[s] = true
			}
			return flagOf(func(a *activation) (bool, bool) {
				v, ok := text(a)
				return m[v], ok
			})
		}
		return flagOf(func(a *activation) (bool, bool) {
			v, ok := text(a)
			return slices.Contains(set, v), ok
		})
	case x.text != nil && list.texts != nil:
		c.spend(boundList + costText)
		text, texts := x.text, list.texts
		return flagOf(func(a *activation) (bool, bool) {
			v, ok := text(a)
			if !ok {
				return false, false
			}
			of, ok := texts(a)
			return slices.Contains(of, v), ok
		})
	case x.num != nil && list.nums != nil:
		num, set := x.num, list.nums
		return flagOf(func(a *activation) (bool, bool) {
			v, ok := num(a)
			return slices.Contains(set, v), ok
		})
	}
	return nil
}
