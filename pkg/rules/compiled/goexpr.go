package compiled

import (
	"math"
	"reflect"
	"unsafe"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// goExpr is an expression compiled to Go functions that call each other. They read Go values directly, without CEL's
// boxing, name lookup and overload resolution. Only the part of the language that most conditions use is compiled. CEL
// is the reference and evaluates all other expressions.
//
// Each function reports whether it has a value. If CEL fails or may fail, the function has no value, and CEL evaluates
// the whole expression. So a goExpr never decides about an error. Like CEL, the functions ignore the errors of operands
// that && and || short-circuit. TestClosuresAreWhatEvaluationGives compares the results of Go functions and CEL.
//
// A goExpr does not count its cost. It is used only if the estimate proves that the cost limit holds. Explanations,
// coverage and the console always use CEL.
type goExpr struct {
	typ    reflect.Type // string, int64, float64, bool, *T, []string or []*T
	Flag   FlagFunc
	num    numFunc
	real   realFunc
	text   textFunc
	rec    recFunc
	texts  textsFunc
	Recs   recsFunc
	isLoop bool   // the expression is a loop variable whose value is a structure
	slot   int    // of the loop variable
	isText bool   // the expression is a constant text
	con    string // the constant text
	isNum  bool   // the expression is a constant integer
	n      int64
	list   []string // constant texts
	nums   []int64  // constant integers
}

// FlagFunc is a condition compiled to a Go function. If ok is false, CEL must evaluate the condition.
type FlagFunc func(*Activation) (v, ok bool)

type (
	numFunc   func(*Activation) (v int64, ok bool)
	realFunc  func(*Activation) (v float64, ok bool)
	textFunc  func(*Activation) (v string, ok bool)
	recFunc   func(*Activation) (v unsafe.Pointer, ok bool)
	textsFunc func(*Activation) (v []string, ok bool)
	recsFunc  func(*Activation) (v []unsafe.Pointer, ok bool)
)

// maxNested is the maximum depth of nested loops.
const maxNested = 4

// loopVar is the value of a loop's variable: a text or a structure.
type loopVar struct {
	text string
	Rec  unsafe.Pointer
}

var (
	flagType  = reflect.TypeFor[bool]()
	numType   = reflect.TypeFor[int64]()
	realType  = reflect.TypeFor[float64]()
	textType  = reflect.TypeFor[string]()
	textsType = reflect.TypeFor[[]string]()
)

// Upper bounds for costs that CEL cannot estimate, because it does not know the type of `it`, the variable of for_each.
// The bounds are never lower than the costs that CEL counts.
const (
	costNode = 100
	costText = signals.BoundText / 5 // two texts, one unit per ten bytes
)

// goCompiler compiles checked expressions to Go functions.
type goCompiler struct {
	vars  *Vars
	it    reflect.Type // type of the elements of the list in for_each; nil if unknown
	loops map[string]binder
	depth int
	cost  uint64 // upper bound of the cost, for inputs within the sizes for which costs are estimated
	times uint64 // how often the current part is evaluated
}

// binder has the slot in Activation.Loops and the type of a loop variable.
type binder struct {
	slot int
	typ  reflect.Type
}

// compileGo compiles an expression to Go functions. If only CEL can evaluate the expression, it returns nil.
func compileGo(vars *Vars, e ast.Expr) *goExpr {
	c := goCompiler{vars: vars, times: 1}
	return c.of(e)
}

// goForEach has a rule's list in for_each and its condition on the elements, as Go functions.
type goForEach struct {
	List *goExpr
	When *goExpr
}

// compileForEach compiles a list and a condition on its elements. If only CEL can evaluate one of them, compileForEach
// returns nil.
func compileForEach(vars *Vars, list, when ast.Expr) *goForEach {
	c := goCompiler{vars: vars, times: 1}
	l := c.of(list)
	if l == nil || l.Recs == nil {
		return nil
	}
	c.it, c.cost = l.typ.Elem(), 0 // each element is evaluated separately
	w := c.of(when)
	if w == nil || w.Flag == nil || c.cost > CostLimit {
		return nil
	}
	return &goForEach{l, w}
}

func (c *goCompiler) spend(n uint64) {
	if n > math.MaxUint64/c.times || c.cost+n*c.times < c.cost {
		c.cost = math.MaxUint64
		return
	}
	c.cost += n * c.times
}

func (c *goCompiler) of(e ast.Expr) *goExpr {
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

func constant(e ast.Expr) *goExpr {
	switch v := e.AsLiteral().(type) {
	case types.String:
		s := string(v)
		return &goExpr{typ: textType, text: func(*Activation) (string, bool) { return s, true }, isText: true, con: s}
	case types.Int:
		n := int64(v)
		return &goExpr{typ: numType, num: func(*Activation) (int64, bool) { return n, true }, isNum: true, n: n}
	case types.Double:
		f := float64(v)
		return &goExpr{typ: realType, real: func(*Activation) (float64, bool) { return f, true }}
	case types.Bool:
		b := bool(v)
		return &goExpr{typ: flagType, Flag: func(*Activation) (bool, bool) { return b, true }}
	}
	return nil
}

// constants compiles a list of constant texts, or of constant integers.
func (c *goCompiler) constants(l ast.ListExpr) *goExpr {
	out := &goExpr{}
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
		out.typ, out.texts = textsType, func(*Activation) ([]string, bool) { return list, true }
	case out.nums != nil && out.list == nil:
		out.typ = reflect.TypeFor[[]int64]()
	default:
		return nil
	}
	return out
}

// name compiles the name of a variable, signal or loop variable.
func (c *goCompiler) name(name string) *goExpr {
	if b, ok := c.loops[name]; ok {
		return bound(b)
	}
	if name == "it" && c.it != nil {
		return bound(binder{0, c.it})
	}
	i, ok := c.vars.Number[name]
	if !ok {
		return nil
	}
	v := c.vars.List[i]
	if v.Signal == nil {
		return input(v)
	}
	if v.Signal.Evaluates {
		return nil // its evaluation may need loop variables itself
	}
	return signal(i, v.GoType)
}

// bound compiles a read of the loop variable that b describes.
func bound(b binder) *goExpr {
	slot, out := b.slot, &goExpr{typ: b.typ}
	if b.typ == textType {
		out.text = func(a *Activation) (string, bool) { return a.Loops[slot].text, true }
	} else {
		out.rec = func(a *Activation) (unsafe.Pointer, bool) { return a.Loops[slot].Rec, true }
		out.isLoop, out.slot = true, slot
	}
	return out
}

// at reads a value of type T at an offset from the beginning of a structure. T and the
// offset must be those that package reflect reports for a field, so that at reads exactly
// that field. rec keeps the structure alive.
func at[T any](rec unsafe.Pointer, off uintptr) T { return *(*T)(unsafe.Add(rec, off)) }

// input compiles a read of a field of the input.
func input(v *variable) *goExpr {
	return fieldOf(&goExpr{}, offsetOf(v), v.GoType)
}

// offsetOf returns the offset in bytes of a variable's field in signals.Input.
func offsetOf(v *variable) uintptr {
	t := reflect.TypeFor[signals.Input]().Field(v.field[0])
	return t.Offset + t.Type.Field(v.field[1]).Offset
}

// member compiles a read of a field of a structure. name is the field's name in CEL.
func (c *goCompiler) member(of *goExpr, name string) *goExpr {
	if of == nil || of.rec == nil {
		return nil
	}
	t := of.typ.Elem()
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("cel") == name {
			return fieldOf(of, f.Offset, f.Type)
		}
	}
	return nil
}

// fieldOf compiles a read of the field of type t at offset off. The field is in the structure `of`, or in the input if
// `of` is empty.
func fieldOf(of *goExpr, off uintptr, t reflect.Type) *goExpr {
	out := &goExpr{typ: t}
	switch {
	case t == textType:
		out.text = reading[string](of, off)
	case t == numType:
		out.num = reading[int64](of, off)
	case t == realType:
		out.real = reading[float64](of, off)
	case t == flagType:
		out.Flag = reading[bool](of, off)
	case t == textsType:
		out.texts = reading[[]string](of, off)
	case isRec(t):
		out.rec = reading[unsafe.Pointer](of, off)
	case t.Kind() == reflect.Slice && isRec(t.Elem()):
		out.Recs = reading[[]unsafe.Pointer](of, off)
	default:
		return nil
	}
	return out
}

func isRec(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func reading[T any](of *goExpr, off uintptr) func(*Activation) (T, bool) {
	switch rec, slot := of.rec, of.slot; {
	case of.isLoop:
		return func(a *Activation) (v T, ok bool) {
			if p := a.Loops[slot].Rec; p != nil {
				return at[T](p, off), true
			}
			return v, false
		}
	case rec != nil:
		return func(a *Activation) (v T, ok bool) {
			if p, ok := rec(a); ok && p != nil {
				return at[T](p, off), true
			}
			return v, false
		}
	}
	return func(a *Activation) (v T, ok bool) {
		if a.In == nil {
			return v, false
		}
		return at[T](unsafe.Pointer(a.In), off), true
	}
}

// signal compiles a read of the signal with index i. If the signal fails, the compiled expression has no value, and
// CEL evaluates the whole expression.
func signal(i int, t reflect.Type) *goExpr {
	out := &goExpr{typ: t}
	switch t {
	case flagType:
		out.Flag = asserted[bool](i)
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
		out.Recs = func(a *Activation) ([]unsafe.Pointer, bool) { return records(a.raw(i), t) }
	}
	return out
}

func asserted[T any](i int) func(*Activation) (T, bool) {
	return func(a *Activation) (T, bool) {
		v, ok := a.raw(i).(T)
		return v, ok
	}
}

// records returns pointers to the elements of x, a list of structures of type t. If x is no such list, the bool is
// false.
func records(x any, t reflect.Type) ([]unsafe.Pointer, bool) {
	v := reflect.ValueOf(x)
	if v.Type() != t {
		return nil, false
	}
	return unsafe.Slice((*unsafe.Pointer)(v.UnsafePointer()), v.Len()), true
}
