package compiled

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

func (c *goCompiler) call(e ast.CallExpr) *goExpr {
	if e.FunctionName() == "format" && e.IsMemberFunction() {
		return c.format(e)
	}
	var args []*goExpr
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
		if fn == operators.Conditional && args[0].Flag != nil && args[1].typ == args[2].typ {
			return conditional(args[0].Flag, args[1], args[2])
		}
	}
	return nil
}

// format compiles a format string with the verbs %s, %d and %%.
func (c *goCompiler) format(e ast.CallExpr) *goExpr {
	f := c.of(e.Target())
	if f == nil || !f.isText || len(e.Args()) != 1 || e.Args()[0].Kind() != ast.ListKind {
		return nil
	}
	args := e.Args()[0].AsList().Elements()
	var parts []func(a *Activation, buf []byte) ([]byte, bool)
	for left := f.con; left != ""; {
		lit, verb, some := strings.Cut(left, "%")
		if parts = append(parts, func(_ *Activation, buf []byte) ([]byte, bool) { return append(buf, lit...), true }); !some {
			break
		}
		if strings.HasPrefix(verb, "%") {
			left = verb[1:]
			parts = append(parts, func(_ *Activation, buf []byte) ([]byte, bool) { return append(buf, '%'), true })
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
			parts = append(parts, func(a *Activation, buf []byte) ([]byte, bool) {
				v, ok := x.text(a)
				return append(buf, v...), ok
			})
		case verb[0] == 'd' && x.num != nil:
			parts = append(parts, func(a *Activation, buf []byte) ([]byte, bool) {
				v, ok := x.num(a)
				return strconv.AppendInt(buf, v, 10), ok
			})
		default:
			return nil
		}
	}
	if len(args) > 0 {
		return nil // the format does not use all arguments; leave the expression to CEL
	}
	c.spend(costText)
	return &goExpr{typ: textType, text: func(a *Activation) (string, bool) {
		buf, ok := make([]byte, 0, 64), true
		for _, part := range parts {
			if buf, ok = part(a, buf); !ok {
				return "", false
			}
		}
		return string(buf), true
	}}
}

func flagOf(f FlagFunc) *goExpr { return &goExpr{typ: flagType, Flag: f} }

func (c *goCompiler) unary(fn string, x *goExpr) *goExpr {
	switch fn {
	case operators.LogicalNot:
		if f := x.Flag; f != nil {
			return flagOf(func(a *Activation) (bool, bool) {
				v, ok := f(a)
				return !v, ok
			})
		}
	case "size":
		return c.size(x)
	case "lowerAscii":
		if f := x.text; f != nil {
			c.spend(costText)
			return &goExpr{typ: textType, text: func(a *Activation) (string, bool) {
				v, ok := f(a)
				return lowerASCII(v), ok
			}}
		}
	}
	return nil
}

func (c *goCompiler) size(x *goExpr) *goExpr {
	var f numFunc
	switch {
	case x.text != nil:
		text := x.text
		c.spend(costText)
		f = func(a *Activation) (int64, bool) {
			v, ok := text(a)
			if !ok {
				return 0, false
			}
			return a.runes(v), true
		}
	case x.texts != nil:
		texts := x.texts
		f = func(a *Activation) (int64, bool) {
			v, ok := texts(a)
			return int64(len(v)), ok
		}
	case x.Recs != nil:
		recs := x.Recs
		f = func(a *Activation) (int64, bool) {
			v, ok := recs(a)
			return int64(len(v)), ok
		}
	default:
		return nil
	}
	return &goExpr{typ: numType, num: f}
}

func (c *goCompiler) binary(fn string, x, y *goExpr) *goExpr {
	switch fn {
	case operators.LogicalAnd, operators.LogicalOr:
		if x.Flag != nil && y.Flag != nil {
			return both(x.Flag, y.Flag, fn == operators.LogicalOr)
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
			return &goExpr{typ: textType, text: element(x.texts, y.n)}
		}
		if y.isNum && x.Recs != nil {
			return &goExpr{typ: x.typ.Elem(), rec: element(x.Recs, y.n)}
		}
	case "join":
		if x.texts != nil && y.isText {
			c.spend(signals.BoundList + costText)
			texts, between := x.texts, y.con
			return &goExpr{typ: textType, text: func(a *Activation) (string, bool) {
				v, ok := texts(a)
				return strings.Join(v, between), ok
			}}
		}
	case "contains", "startsWith", "endsWith":
		if x.text != nil && y.text != nil {
			c.spend(costText)
			f := map[string]func(s, t string) bool{"contains": strings.Contains, "startsWith": strings.HasPrefix,
				"endsWith": strings.HasSuffix}[fn]
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
			return flagOf(func(a *Activation) (bool, bool) {
				v, ok := f(a)
				return ok && re.MatchString(v), ok
			})
		}
	}
	return nil
}

// both returns x || y if or is true, and x && y if it is false. If x alone decides the result, y is not evaluated. That
// is right because CEL then returns the same result for every y, even if y fails. If x has no value, the result has
// none, and CEL evaluates the whole expression.
func both(x, y FlagFunc, or bool) *goExpr {
	return flagOf(func(a *Activation) (bool, bool) {
		if v, ok := x(a); v == or || !ok {
			return v, ok
		}
		return y(a)
	})
}

// element compiles a read of element i of a list. If i is out of range, the compiled function has no value, so that CEL
// evaluates the expression and reports the error.
func element[T any](list func(*Activation) ([]T, bool), i int64) func(*Activation) (T, bool) {
	return func(a *Activation) (v T, ok bool) {
		l, ok := list(a)
		if !ok || i < 0 || i >= int64(len(l)) {
			return v, false
		}
		return l[i], true
	}
}

func conditional(when FlagFunc, x, y *goExpr) *goExpr {
	out := &goExpr{typ: x.typ}
	switch {
	case x.Flag != nil:
		out.Flag = chosen(when, x.Flag, y.Flag)
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
	case x.Recs != nil:
		out.Recs = chosen(when, x.Recs, y.Recs)
	default:
		return nil
	}
	return out
}

func chosen[T any](when FlagFunc, x, y func(*Activation) (T, bool)) func(*Activation) (T, bool) {
	return func(a *Activation) (v T, ok bool) {
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

// texts2 compiles a condition on two texts. f is the condition. The second text is usually constant.
func texts2(x, y *goExpr, f func(s, t string) bool) *goExpr {
	s, t := x.text, y.text
	if y.isText {
		con := y.con
		return flagOf(func(a *Activation) (bool, bool) {
			v, ok := s(a)
			return ok && f(v, con), ok
		})
	}
	return flagOf(func(a *Activation) (bool, bool) {
		v, ok := s(a)
		if !ok {
			return false, false
		}
		w, ok := t(a)
		return ok && f(v, w), ok
	})
}

func (c *goCompiler) equal(x, y *goExpr, want bool) *goExpr {
	switch {
	case x.text != nil && y.text != nil:
		c.spend(costText)
		if x.isText {
			x, y = y, x
		}
		if y.isText {
			s, con := x.text, y.con
			return flagOf(func(a *Activation) (bool, bool) {
				v, ok := s(a)
				return ok && (v == con) == want, ok
			})
		}
		return texts2(x, y, func(s, t string) bool { return (s == t) == want })
	case x.num != nil && y.num != nil:
		return two(x.num, y.num, func(v, w int64) (bool, bool) { return (v == w) == want, true })
	case x.real != nil && y.real != nil:
		return two(x.real, y.real, func(v, w float64) (bool, bool) { return (v == w) == want, true })
	case x.Flag != nil && y.Flag != nil:
		return two(x.Flag, y.Flag, func(v, w bool) (bool, bool) { return (v == w) == want, true })
	}
	return nil
}

// two compiles a condition on two values of the same type. f is the condition.
func two[T any](x, y func(*Activation) (T, bool), f func(v, w T) (bool, bool)) *goExpr {
	return flagOf(func(a *Activation) (bool, bool) {
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

func (c *goCompiler) compared(fn string, x, y *goExpr) *goExpr {
	switch {
	case x.num != nil && y.isNum:
		num, than := x.num, y.n
		op := ordered[int64](fn)
		return flagOf(func(a *Activation) (bool, bool) {
			v, ok := num(a)
			return ok && op(v, than), ok
		})
	case x.num != nil && y.num != nil:
		op := ordered[int64](fn)
		return two(x.num, y.num, func(v, w int64) (bool, bool) { return op(v, w), true })
	case x.real != nil && y.real != nil:
		op := ordered[float64](fn)
		return two(x.real, y.real,
			func(v, w float64) (bool, bool) { return op(v, w), v == v && w == w }) // in CEL, NaN has no order
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

// arithmetic compiles operations on texts, and on integers that cannot overflow. All other operations are left to CEL,
// which reports an overflow as an error.
func (c *goCompiler) arithmetic(fn string, x, y *goExpr) *goExpr {
	if fn == operators.Add && x.text != nil && y.text != nil {
		c.spend(costText)
		s, t := x.text, y.text
		return &goExpr{typ: textType, text: func(a *Activation) (string, bool) {
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
	return &goExpr{typ: numType, num: func(a *Activation) (int64, bool) {
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

// in compiles an expression that reports whether a list has a value.
func (c *goCompiler) in(x, list *goExpr) *goExpr {
	switch {
	case x.text != nil && list.list != nil:
		c.spend(costText)
		text, set := x.text, list.list
		if len(set) > 8 {
			m := make(map[string]bool, len(set))
			for _, s := range set {
				m[s] = true
			}
			return flagOf(func(a *Activation) (bool, bool) {
				v, ok := text(a)
				return m[v], ok
			})
		}
		return flagOf(func(a *Activation) (bool, bool) {
			v, ok := text(a)
			return slices.Contains(set, v), ok
		})
	case x.text != nil && list.texts != nil:
		c.spend(signals.BoundList + costText)
		text, texts := x.text, list.texts
		return flagOf(func(a *Activation) (bool, bool) {
			v, ok := text(a)
			if !ok {
				return false, false
			}
			of, ok := texts(a)
			return slices.Contains(of, v), ok
		})
	case x.num != nil && list.nums != nil:
		num, set := x.num, list.nums
		return flagOf(func(a *Activation) (bool, bool) {
			v, ok := num(a)
			return slices.Contains(set, v), ok
		})
	}
	return nil
}
