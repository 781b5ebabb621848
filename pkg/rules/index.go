package rules

import (
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// index finds the rules of one kind of event whose conditions an event can
// meet. It is only ever an optimisation: what it leaves out would have been
// false.
type index struct {
	conds  []*condition
	needs  []*need // by rule
	nodes  []node  // the same, one after another
	begins []int32 // of a rule's need, in nodes
	always []int32 // rules without a condition to go by
	// codes are the conditions' closures, without what the needs decide. They are
	// made one after another, so that those of a rule lie together in memory.
	codes []flagFn
	// A rule is looked at when one of its atoms or predicates holds.
	byAtom [][]int32
	byPred map[int32][]int32
	eager  []int32 // predicates that rules are looked at by

	atoms   []atom
	preds   []pred
	asks    []func(*activation) bool // by predicate
	fields  []*fieldIndex
	content *contentIndex // nil when no literal is looked for there
}

// fieldIndex is the atoms of one field.
type fieldIndex struct {
	f       field
	value   *closure
	isNum   map[int64]int32
	isFlag  map[bool]int32
	isText  map[string]int32
	literal *literals // nil when no literal is looked for
}

// predCost is what a predicate counts, in atoms, when the condition to look at
// a rule by is chosen: it is evaluated for every event.
const predCost = 1000

func newIndex(vars *varTable, conds []*condition) *index {
	r := newReader(vars)
	x := &index{conds: conds, byPred: make(map[int32][]int32)}
	for _, c := range conds {
		x.needs = append(x.needs, c.need(r))
	}
	x.atoms, x.preds = r.atoms, r.preds
	for i := range x.preds {
		x.asks = append(x.asks, x.preds[i].ask(vars))
	}
	for _, c := range conds {
		x.codes = append(x.codes, c.remainder(r))
	}
	for _, n := range x.needs {
		x.begins = append(x.begins, int32(len(x.nodes)))
		x.nodes = flatten(x.nodes, n)
	}
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
	x.group(vars)
	return x
}

// group puts atoms under their fields.
func (x *index) group(vars *varTable) {
	byField := make(map[field]*fieldIndex)
	lits := make(map[*fieldIndex][]literal)
	content := &contentIndex{byText: make(map[string]int)}
	for i, a := range x.atoms {
		if a.holds && content.add(vars.vars[a.f.v].name, a.literal, int32(i)) {
			continue
		}
		fi := byField[a.f]
		if fi == nil {
			fi = &fieldIndex{f: a.f, value: input(vars.vars[a.f.v]), isNum: make(map[int64]int32), isFlag: make(map[bool]int32), isText: make(map[string]int32)}
			byField[a.f] = fi
			x.fields = append(x.fields, fi)
		}
		switch {
		case a.holds:
			lits[fi] = append(lits[fi], literal{a.literal, [contentFields]int32{int32(i)}})
		case a.value[0] == 's':
			fi.isText[a.value[1:]] = int32(i)
		case a.value[0] == 'n':
			if n, err := strconv.ParseInt(a.value[1:], 10, 64); err == nil {
				fi.isNum[n] = int32(i)
			}
		default:
			fi.isFlag[a.value == "t"] = int32(i)
		}
	}
	for _, fi := range x.fields {
		if l := lits[fi]; len(l) > 0 {
			fi.literal = newLiterals(l)
		}
	}
	if len(content.lits) > 0 {
		content.literals = newLiterals(content.lits)
		x.content = content
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
	found []int32  // atoms that hold
	out   []int32

	breaks []int32 // of the content, see alike
}

func newTrial(x *index) *trial {
	return &trial{x: x, atoms: make([]uint32, len(x.atoms)), preds: make([]uint32, len(x.preds)), seen: make([]uint32, len(x.conds))}
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
	t.found = t.found[:0]
	for _, fi := range x.fields {
		fi.match(act, t)
	}
	if x.content != nil {
		x.content.match(act.in, t)
	}
	for _, a := range t.found {
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

// met reports whether an atom is known to hold.
func (t *trial) met(a int32) bool { return t.atoms[a] == t.gen }

func (t *trial) hit(a int32) {
	if !t.met(a) {
		t.atoms[a] = t.gen
		t.found = append(t.found, a)
	}
}

func (t *trial) look(rules []int32) {
	for _, r := range rules {
		if t.seen[r] != t.gen {
			t.seen[r] = t.gen
			if t.holds(t.x.nodes, t.x.begins[r]) {
				t.out = append(t.out, r)
			}
		}
	}
}

// node is a need in memory that is read in one go: its kids follow it.
type node struct {
	op   needOp
	atom int32
	end  int32 // behind its last kid
}

func flatten(out []node, n *need) []node {
	i := len(out)
	out = append(out, node{op: n.op, atom: n.atom})
	for _, k := range n.kids {
		out = flatten(out, k)
	}
	out[i].end = int32(len(out))
	return out
}

// holds reports whether an event meets a need.
func (t *trial) holds(nodes []node, i int32) bool {
	switch n := &nodes[i]; n.op {
	case needAtom:
		return t.met(n.atom)
	case needPred:
		return t.pred(n.atom)
	case needNever:
		return false
	case needAll:
		for k := i + 1; k < n.end; k = nodes[k].end {
			if !t.holds(nodes, k) {
				return false
			}
		}
	case needAny:
		for k := i + 1; k < n.end; k = nodes[k].end {
			if t.holds(nodes, k) {
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
	ok := t.x.asks[n](t.act)
	if ok {
		v |= 1
	}
	t.preds[n] = v
	return ok
}

// match finds the atoms of a field that an event meets.
func (fi *fieldIndex) match(act *activation, t *trial) {
	c := fi.value
	switch {
	case c == nil:
	case c.text != nil:
		if s, ok := c.text(act); ok && !fi.f.elem {
			fi.text(s, t)
		}
	case c.texts != nil:
		if list, ok := c.texts(act); ok && fi.f.elem {
			for _, s := range list {
				fi.text(s, t)
			}
		}
	case c.num != nil:
		if n, ok := c.num(act); ok {
			if a, ok := fi.isNum[n]; ok {
				t.hit(a)
			}
		}
	case c.flag != nil:
		if v, ok := c.flag(act); ok {
			if a, ok := fi.isFlag[v]; ok {
				t.hit(a)
			}
		}
	}
}

func (fi *fieldIndex) text(s string, t *trial) {
	if len(fi.isText) > 0 {
		if fi.f.lower {
			s = lowerASCII(s)
		}
		if a, ok := fi.isText[s]; ok {
			t.hit(a)
		}
	}
	if fi.literal != nil {
		fi.literal.scan(s, func(l *literal) bool { return t.met(l.atoms[0]) }, func(l *literal, _ int) { t.hit(l.atoms[0]) })
	}
}

// ask is the predicate as a function. Where that cannot decide, it holds, and
// the expression itself shows what is wrong.
func (p pred) ask(vars *varTable) func(*activation) bool {
	v := vars.vars[p.v]
	c := input
	if v.sig != nil {
		c = func(v *variable) *closure { return signal(p.v, v.goTyp) }
	}
	is, op, than := c(v), p.op, p.than
	compare := func(x float64) bool {
		switch op {
		case "<":
			return x < than
		case "<=":
			return x <= than
		case ">":
			return x > than
		case ">=":
			return x >= than
		case "==":
			return x == than
		}
		return true
	}
	size := func(n func(*activation) (int, bool)) func(*activation) bool {
		return func(a *activation) bool {
			x, ok := n(a)
			return !ok || compare(float64(x))
		}
	}
	switch {
	case is == nil && v.sig == nil && p.size: // a map
		return func(a *activation) bool { return compare(float64(a.native(p.v).Len())) }
	case is == nil:
	case p.size && is.text != nil && op == ">" && than == 0: // runes are no fewer then
		return size(func(a *activation) (int, bool) { s, ok := is.text(a); return len(s), ok })
	case p.size && is.text != nil:
		return size(func(a *activation) (int, bool) { s, ok := is.text(a); return int(a.runes(s)), ok })
	case p.size && is.texts != nil:
		return size(func(a *activation) (int, bool) { l, ok := is.texts(a); return len(l), ok })
	case p.size && is.recs != nil:
		return size(func(a *activation) (int, bool) { l, ok := is.recs(a); return len(l), ok })
	case p.size:
	case p.flag && is.flag != nil:
		return func(a *activation) bool {
			x, ok := is.flag(a)
			return !ok || x == p.want
		}
	case is.num != nil:
		return func(a *activation) bool {
			x, ok := is.num(a)
			return !ok || compare(float64(x))
		}
	case is.real != nil:
		return func(a *activation) bool {
			x, ok := is.real(a)
			return !ok || compare(x)
		}
	}
	return func(*activation) bool { return true }
}

func size(v ref.Val) (int64, bool) {
	if s, ok := v.(interface{ Size() ref.Val }); ok {
		n, ok := s.Size().(types.Int)
		return int64(n), ok
	}
	return 0, false
}

// matchedView names the first view that holds a text which the condition of a
// number looks for, or carries a marker which it asks for. It is "" when neither does.
func (x *index) matchedView(vars *varTable, cond int, in *Input) (found string) {
	var walk func(n *need)
	walk = func(n *need) {
		if n.op == needAtom {
			switch a := x.atoms[n.atom]; vars.vars[a.f.v].name {
			case "content.views":
				for j, v := range in.Content.Views {
					if a.holds && found == "" && strings.Contains(v, a.literal) {
						found = in.viewNames[j]
					}
				}
			case "content.markers":
				if found == "" {
					found = in.markedIn
				}
			}
		}
		for _, k := range n.kids {
			walk(k)
		}
	}
	walk(x.needs[cond])
	return found
}
