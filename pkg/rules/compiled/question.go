package compiled

import (
	"reflect"
	"unsafe"
)

// form is how a variable is stored.
type form byte

const (
	formOther form = iota
	formText
	formTexts
	formRecs
	formFlag
	formNum
	formReal
	formMap
)

func formOf(v *variable) form {
	switch t := v.GoType; {
	case t == textType:
		return formText
	case t == textsType:
		return formTexts
	case t == flagType:
		return formFlag
	case t == numType:
		return formNum
	case t == realType:
		return formReal
	case t.Kind() == reflect.Map:
		return formMap
	case t.Kind() == reflect.Slice && isRec(t.Elem()):
		return formRecs
	}
	return formOther
}

// question is a predicate in a compact form for evaluation. All predicates of an index are in one array of questions,
// so that they take few lines of the processor's cache.
type question struct {
	form   form
	size   bool
	signal bool
	want   bool // of a flag
	op     comparison
	v      int32
	at     uintptr // position of the variable in the input
	than   float64
}

type comparison byte

const (
	anyValue comparison = iota
	less
	lessOrEqual
	greater
	greaterOrEqual
	equal
)

var comparisonOf = map[string]comparison{
	"<": less, "<=": lessOrEqual, ">": greater, ">=": greaterOrEqual, "==": equal,
}

func (p pred) question(vars *Vars) question {
	v := vars.List[p.v]
	q := question{
		form:   formOf(v),
		size:   p.size,
		signal: v.Signal != nil,
		want:   p.want,
		op:     comparisonOf[p.op],
		v:      int32(p.v),
		than:   p.than,
	}
	if !q.signal {
		q.at = offsetOf(v)
	}
	sized := q.form == formText || q.form == formTexts || q.form == formRecs || q.form == formMap
	if p.size != sized || p.flag != (q.form == formFlag) {
		q.form = formOther
	}
	return q
}

// holds reports whether the predicate holds. If it cannot decide, it also returns true, and the whole expression is
// evaluated. That evaluation then returns the result or the error.
func (q *question) holds(a *Activation) bool {
	if q.signal {
		return q.ofSignal(a.raw(int(q.v)))
	}
	switch in := unsafe.Pointer(a.In); q.form {
	case formText:
		s := at[string](in, q.at)
		if q.op == greater && q.than == 0 {
			return s != "" // a text has at least one rune exactly if it has at least one byte
		}
		return q.compare(float64(a.runes(s)))
	case formTexts:
		return q.compare(float64(len(at[[]string](in, q.at))))
	case formRecs:
		return q.compare(float64(len(at[[]unsafe.Pointer](in, q.at))))
	case formMap:
		return q.compare(float64(a.native(int(q.v)).Len()))
	case formFlag:
		return at[bool](in, q.at) == q.want
	case formNum:
		return q.compare(float64(at[int64](in, q.at)))
	case formReal:
		return q.compare(at[float64](in, q.at))
	}
	return true
}

// ofSignal is like holds, for a predicate on a signal. x is the signal's value or its error.
func (q *question) ofSignal(x any) bool {
	switch q.form {
	case formTexts:
		l, ok := x.([]string)
		return !ok || q.compare(float64(len(l)))
	case formRecs:
		v := reflect.ValueOf(x)
		return v.Kind() != reflect.Slice || q.compare(float64(v.Len()))
	case formFlag:
		v, ok := x.(bool)
		return !ok || v == q.want
	case formNum:
		v, ok := x.(int64)
		return !ok || q.compare(float64(v))
	case formReal:
		v, ok := x.(float64)
		return !ok || q.compare(v)
	}
	return true
}

func (q *question) compare(x float64) bool {
	switch q.op {
	case less:
		return x < q.than
	case lessOrEqual:
		return x <= q.than
	case greater:
		return x > q.than
	case greaterOrEqual:
		return x >= q.than
	case equal:
		return x == q.than
	}
	return true
}
