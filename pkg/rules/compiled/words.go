package compiled

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types/ref"
)

// This file describes prefilters, and the results of lookups, in words for people.

// maxWords is the maximum number of alternatives that a description lists.
const maxWords = 8

func (f field) words(vars *Vars) string {
	s := vars.List[f.v].Name
	if f.lower {
		s += ".lowerAscii()"
	}
	return s
}

// wanted returns the value that an atom tests for, in CEL notation.
func (a atom) wanted() string {
	switch {
	case a.holds:
		return quoted(a.literal)
	case a.value[0] == 's':
		return quoted(a.value[1:])
	case a.value == "t":
		return "true"
	case a.value == "f":
		return "false"
	}
	return a.value[1:]
}

func quoted(s string) string { return ClipInert(strconv.Quote(s), ShowBytes) }

func (p pred) subject(vars *Vars) string {
	if p.size {
		return "size(" + vars.List[p.v].Name + ")"
	}
	return vars.List[p.v].Name
}

func (p pred) wanted() string {
	if p.flag {
		return strconv.FormatBool(p.want)
	}
	op := p.op + " "
	if p.op == "==" {
		op = ""
	}
	return op + strconv.FormatFloat(p.than, 'g', -1, 64)
}

// Why returns the reasons why condition number cond is false for the event. Each reason alone is enough to make it
// false.
func (t *Lookup) Why(cond int) []string { return t.x.why(t, t.x.prefilters[cond]) }

// why returns the reasons why a prefilter does not hold. Each reason alone is enough.
func (x *Index) why(t *Lookup, n *prefilter) []string {
	switch n.Op {
	case OpNever:
		return []string{"its condition is never true"}
	case opAtom:
		return []string{x.whyNot(t.act, []int32{n.atom})}
	case opPred:
		p := x.preds[n.atom]
		return []string{fmt.Sprintf("%s is %s, not %s", p.subject(t.act.Vars), p.found(t.act), p.wanted())}
	case opAll:
		var out []string
		for _, k := range n.kids {
			if !t.holds(flatten(nil, k), 0) {
				out = append(out, x.why(t, k)...)
			}
		}
		return unique(out)
	case opAny:
		return []string{strings.Join(unique(x.whyNone(t, n.kids)), ", and ")}
	}
	return nil
}

// whyNone explains why none of several alternatives holds. It returns one reason for each alternative. Alternatives
// that test the same field in the same way have one common reason.
func (x *Index) whyNone(t *Lookup, kids []*prefilter) []string {
	var out []string
	var groups [][]int32
	for _, k := range kids {
		if k.Op != opAtom {
			continue
		}
		a := x.atoms[k.atom]
		i := slices.IndexFunc(groups,
			func(g []int32) bool { return x.atoms[g[0]].f == a.f && x.atoms[g[0]].holds == a.holds })
		if i < 0 {
			groups = append(groups, []int32{k.atom})
		} else {
			groups[i] = append(groups[i], k.atom)
		}
	}
	for _, g := range groups {
		out = append(out, x.whyNot(t.act, g))
	}
	for _, k := range kids {
		if k.Op != opAtom {
			out = append(out, x.why(t, k)[0])
		}
	}
	return out
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// whyNot returns a text that says why these atoms are false: the field has none of the values that they test for. All
// atoms must test the same field.
func (x *Index) whyNot(act *Activation, atoms []int32) string {
	a := x.atoms[atoms[0]]
	name := a.f.words(act.Vars)
	var of []string
	for _, i := range atoms {
		of = append(of, x.atoms[i].wanted())
	}
	list := few(of)
	switch one := len(of) == 1; {
	case a.holds && one:
		return fmt.Sprintf("%s contains no %s", name, list)
	case a.holds:
		return fmt.Sprintf("%s contains none of %s", name, list)
	case a.f.elem && one:
		return fmt.Sprintf("%s has no %s", name, list)
	case a.f.elem:
		return fmt.Sprintf("%s has none of %s", name, list)
	case list == "true" || list == "false":
		return fmt.Sprintf("%s is %s", name, Show(act.Value(a.f.v)))
	case one:
		return fmt.Sprintf("%s is %s, not %s", name, Show(act.Value(a.f.v)), list)
	}
	return fmt.Sprintf("%s is %s, none of %s", name, Show(act.Value(a.f.v)), list)
}

func few(of []string) string {
	more := ""
	if n := len(of); n > maxWords {
		of, more = of[:maxWords], fmt.Sprintf(" and %d more", n-maxWords)
	}
	return strings.Join(of, ", ") + more
}

func (p pred) found(act *Activation) string {
	v := act.Value(p.v)
	if !p.size {
		return Show(v)
	}
	n, ok := size(v)
	if !ok {
		return Show(v)
	}
	return fmt.Sprint(n)
}

// Words writes a prefilter to b in words, as an indented list.
func (r *PrefilterReader) Words(b *strings.Builder, n *prefilter, depth int) {
	line := func(format string, args ...any) {
		b.WriteString(strings.Repeat("  ", depth))
		fmt.Fprintf(b, format, args...)
		b.WriteByte('\n')
	}
	switch n.Op {
	case opUnknown:
		line("nothing: it is evaluated for every event")
	case OpNever:
		line("never: it cannot be true")
	case opAtom:
		a := r.Atoms[n.atom]
		verb := "is"
		switch {
		case a.holds:
			verb = "contains"
		case a.f.elem:
			verb = "has"
		}
		line("%s %s %s", a.f.words(r.vars), verb, a.wanted())
	case opPred:
		p := r.preds[n.atom]
		line("%s is %s", p.subject(r.vars), p.wanted())
	default:
		head := "all of"
		if n.Op == opAny {
			head = "any of"
		}
		line("%s", head)
		for _, k := range n.kids {
			r.Words(b, k, depth+1)
		}
	}
}

// OutcomeText returns the value of a condition, or its error, as text.
func OutcomeText(v ref.Val, err error) string {
	if err != nil {
		return "error: " + ClipInert(err.Error(), 2*ShowBytes)
	}
	return Show(v)
}
