package rules

import (
	"reflect"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// index finds the rules of one kind of event whose conditions an event can
// meet. It is only ever an optimisation: what it leaves out would have been
// false.
type index struct {
	rules  []*Rule
	needs  []*need // by rule
	always []int32 // rules without a condition to go by
	// A rule is looked at when one of its atoms or predicates holds.
	byAtom [][]int32
	byPred map[int32][]int32
	eager  []int32 // predicates that rules are looked at by

	atoms  []atom
	preds  []pred
	fields []*fieldIndex
}

// fieldIndex is the atoms of one field.
type fieldIndex struct {
	f       field
	is      map[string]int32 // numbers and flags, in canonical form
	isText  map[string]int32
	literal *literals // nil when no literal is looked for
}

// predCost is what a predicate counts, in atoms, when the condition to look at
// a rule by is chosen: it is evaluated for every event.
const predCost = 1000

func newIndex(vars *varTable, rules []*Rule) *index {
	r := newReader(vars)
	x := &index{rules: rules, byPred: make(map[int32][]int32)}
	for _, rule := range rules {
		x.needs = append(x.needs, rule.need(r))
	}
	x.atoms, x.preds = r.atoms, r.preds
	x.byAtom = make([][]int32, len(x.atoms))
	use := make([]int, len(x.atoms))
	for _, n := range x.needs {
		countUse(n, use)
	}
	for i, n := range x.needs {
		keys, cost := access(n, use)
		if cost < 0 {
			x.always = append(x.always, int32(i))
			continue
		}
		for _, k := range keys {
			if k.op == needAtom {
				x.byAtom[k.atom] = append(x.byAtom[k.atom], int32(i))
			} else {
				x.byPred[k.atom] = append(x.byPred[k.atom], int32(i))
			}
		}
	}
	for p := range x.byPred {
		x.eager = append(x.eager, p)
	}
	slices.Sort(x.eager)
	x.group()
	return x
}

// group puts atoms under their fields.
func (x *index) group() {
	byField := make(map[field]*fieldIndex)
	lits := make(map[*fieldIndex][]literal)
	for i, a := range x.atoms {
		fi := byField[a.f]
		if fi == nil {
			fi = &fieldIndex{f: a.f, is: make(map[string]int32), isText: make(map[string]int32)}
			byField[a.f] = fi
			x.fields = append(x.fields, fi)
		}
		switch {
		case a.holds:
			lits[fi] = append(lits[fi], literal{a.literal, int32(i)})
		case a.value[0] == 's':
			fi.isText[a.value[1:]] = int32(i)
		default:
			fi.is[a.value] = int32(i)
		}
	}
	for _, fi := range x.fields {
		if l := lits[fi]; len(l) > 0 {
			fi.literal = newLiterals(l)
		}
	}
}

func countUse(n *need, use []int) {
	if n.op == needAtom {
		use[n.atom]++
	}
	for _, k := range n.kids {
		countUse(k, use)
	}
}

// access chooses atoms or predicates of which one holds whenever the need
// does: the rarest ones. A negative cost says that there are none.
func access(n *need, use []int) ([]*need, int) {
	switch n.op {
	case needNever:
		return nil, 0
	case needAtom:
		return []*need{n}, use[n.atom]
	case needPred:
		return []*need{n}, predCost
	case needAll:
		var best []*need
		cost := -1
		for _, k := range n.kids {
			if ks, c := access(k, use); c >= 0 && (cost < 0 || c < cost) {
				best, cost = ks, c
			}
		}
		return best, cost
	case needAny:
		var keys []*need
		cost := 0
		for _, k := range n.kids {
			ks, c := access(k, use)
			if c < 0 {
				return nil, -1
			}
			keys, cost = append(keys, ks...), cost+c
		}
		return keys, cost
	}
	return nil, -1
}

// trial is the scratch of one look-up. It is reused.
type trial struct {
	x     *index
	act   *activation
	gen   uint32
	atoms []uint32 // the trial in which an atom was found to hold
	preds []uint32 // twice the trial, plus one if it holds
	seen  []uint32 // the trial in which a rule was looked at
	out   []int32
}

func newTrial(x *index) *trial {
	return &trial{x: x, atoms: make([]uint32, len(x.atoms)), preds: make([]uint32, len(x.preds)), seen: make([]uint32, len(x.rules))}
}

// candidates lists the rules that may fire, in order.
func (t *trial) candidates(act *activation) []int32 {
	if t.gen++; t.gen >= 1<<30 {
		clear(t.atoms)
		clear(t.preds)
		clear(t.seen)
		t.gen = 1
	}
	t.act, t.out = act, append(t.out[:0], t.x.always...)
	x := t.x
	var hits [64]int32
	found := hits[:0]
	skip := func(a int32) bool { return t.atoms[a] == t.gen }
	hit := func(a int32) {
		if t.atoms[a] != t.gen {
			t.atoms[a] = t.gen
			found = append(found, a)
		}
	}
	for _, fi := range x.fields {
		fi.match(act, skip, hit)
	}
	for _, a := range found {
		t.look(x.byAtom[a])
	}
	for _, p := range x.eager {
		if t.pred(p) {
			t.look(x.byPred[p])
		}
	}
	slices.Sort(t.out)
	return t.out
}

func (t *trial) look(rules []int32) {
	for _, r := range rules {
		if t.seen[r] != t.gen {
			t.seen[r] = t.gen
			if t.holds(t.x.needs[r]) {
				t.out = append(t.out, r)
			}
		}
	}
}

// holds reports whether an event meets a need.
func (t *trial) holds(n *need) bool {
	switch n.op {
	case needAtom:
		return t.atoms[n.atom] == t.gen
	case needPred:
		return t.pred(n.atom)
	case needNever:
		return false
	case needAll:
		for _, k := range n.kids {
			if !t.holds(k) {
				return false
			}
		}
	case needAny:
		for _, k := range n.kids {
			if t.holds(k) {
				return true
			}
		}
		return false
	}
	return true
}

func (t *trial) pred(n int32) bool {
	if v := t.preds[n]; v>>1 == t.gen {
		return v&1 == 1
	}
	v := t.gen << 1
	ok := t.x.preds[n].holds(t.act)
	if ok {
		v |= 1
	}
	t.preds[n] = v
	return ok
}

// match finds the atoms of a field that an event meets.
func (fi *fieldIndex) match(act *activation, skip func(int32) bool, hit func(int32)) {
	v := act.native(fi.f.v)
	switch v.Kind() {
	case reflect.String:
		if !fi.f.elem {
			fi.text(v.String(), skip, hit)
		}
	case reflect.Slice:
		if !fi.f.elem {
			return
		}
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() == reflect.String {
				fi.text(e.String(), skip, hit)
			}
		}
	case reflect.Int64, reflect.Bool:
		if c, ok := canonical(toVal(v)); ok {
			if a, ok := fi.is[c]; ok {
				hit(a)
			}
		}
	}
}

func (fi *fieldIndex) text(s string, skip func(int32) bool, hit func(int32)) {
	if len(fi.isText) > 0 {
		if fi.f.lower {
			s = lowerASCII(s)
		}
		if a, ok := fi.isText[s]; ok {
			hit(a)
		}
	}
	if fi.literal != nil {
		fi.literal.scan(s, skip, hit)
	}
}

// holds evaluates a predicate. Where it cannot, it holds, and the expression
// itself shows what is wrong.
func (p *pred) holds(act *activation) bool {
	var x float64
	if v := act.table.vars[p.v]; v.sig == nil {
		n := act.native(p.v)
		switch {
		case p.size && n.Kind() == reflect.String:
			x = float64(len(n.String())) // runes are no more than that
			if p.op != ">" || p.than != 0 {
				x = float64(len([]rune(n.String())))
			}
		case p.size:
			x = float64(n.Len())
		case p.flag:
			return n.Bool() == p.want
		case n.Kind() == reflect.Int64:
			x = float64(n.Int())
		case n.Kind() == reflect.Float64:
			x = n.Float()
		default:
			return true
		}
	} else {
		switch v := act.value(p.v).(type) {
		case types.Bool:
			return !p.flag || bool(v) == p.want
		case types.Int:
			x = float64(v)
		case types.Double:
			x = float64(v)
		default:
			n, ok := size(v)
			if !ok || !p.size {
				return true
			}
			x = float64(n)
		}
	}
	switch p.op {
	case "<":
		return x < p.than
	case "<=":
		return x <= p.than
	case ">":
		return x > p.than
	case ">=":
		return x >= p.than
	case "==":
		return x == p.than
	}
	return true
}

func size(v ref.Val) (int64, bool) {
	if s, ok := v.(interface{ Size() ref.Val }); ok {
		n, ok := s.Size().(types.Int)
		return int64(n), ok
	}
	return 0, false
}
