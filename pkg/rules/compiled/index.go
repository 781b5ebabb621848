package compiled

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Index finds the rules of one kind of event whose conditions may be true for an event. It is only an optimization: the
// conditions of the rules that it leaves out are false for the event.
type Index struct {
	conds      []*Condition
	prefilters []*prefilter // by rule
	nodes      []node       // the prefilters' nodes, one prefilter after another
	begins     []int32      // start of each rule's prefilter in nodes
	always     []int32      // rules that are always evaluated
	// Remainders are the conditions as Go functions, without the parts that the prefilters decide.
	// They are compiled in order, so that the functions of a rule are close to each other in
	// memory.
	Remainders []FlagFunc
	// byAtom and byPred have, for an atom or predicate, the rules whose prefilters must be checked if it holds.
	byAtom [][]int32
	byPred map[int32][]int32
	eager  []int32 // the predicates that are keys of byPred; they are evaluated for every event

	atoms   []atom
	preds   []pred
	asks    []question // the predicates
	fields  []fieldIndex
	content *contentIndex // of the event's content; nil if no literal is searched in it
}

// fieldIndex has the atoms of one field.
type fieldIndex struct {
	f      field
	form   form
	at     uintptr  // position of the field in the input
	isFlag [2]int32 // by false and true; -1: no atom
	isNum  map[int64]int32
	isText map[string]int32
	// Lengths of the keys of isText, one bit for each length; the highest bit is for all longer keys.
	sizes uint64
	few   []textAtom // the keys of isText with their atoms, if there are few
	// begins has the atoms that the text begins with something, by its first byte in lower case; nil if there is none.
	begins  *[256][]textAtom
	literal *literals // nil if no literal is searched
}

// textAtom is an atom of a field. In fieldIndex.few, the field must equal text. In fieldIndex.begins, the field must
// begin with text.
type textAtom struct {
	text string
	atom int32
}

// fewTexts is a number of texts. If a field is compared with at most that many texts, they are compared one by one.
const fewTexts = 16

// mostBeginnings is a number of beginnings. If a field is tested for at most that many beginnings, they are compared
// one by one.
const mostBeginnings = 32

// sizeBit returns the bit for the length of s in fieldIndex.sizes.
func sizeBit(s string) uint64 { return 1 << min(len(s), 63) }

// predCost is the cost of a predicate when Access chooses how the index finds a rule. The unit is the cost of an atom.
// It is high because a predicate in the index is evaluated for every event.
const predCost = 1000

// NewIndex indexes conditions. The index identifies a condition by its position in conds.
func NewIndex(vars *Vars, conds []*Condition) *Index {
	r := NewPrefilterReader(vars)
	x := &Index{conds: conds, byPred: make(map[int32][]int32)}
	for _, c := range conds {
		x.prefilters = append(x.prefilters, c.Prefilter(r))
	}
	x.atoms, x.preds = r.Atoms, r.preds
	for i := range x.preds {
		x.asks = append(x.asks, x.preds[i].question(vars))
	}
	for _, c := range conds {
		x.Remainders = append(x.Remainders, c.remainder(r))
	}
	for _, n := range x.prefilters {
		x.begins = append(x.begins, int32(len(x.nodes)))
		x.nodes = flatten(x.nodes, n)
	}
	x.byAtom = make([][]int32, len(x.atoms))
	use := make([]int, len(x.atoms))
	for _, n := range x.prefilters {
		countUse(n, use)
	}
	for i, n := range x.prefilters {
		keys, cost := Access(n, use)
		if cost < 0 {
			x.always = append(x.always, int32(i))
			continue
		}
		for _, k := range keys {
			if k.Op == opAtom {
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

// group sorts the atoms by field.
func (x *Index) group(vars *Vars) {
	byField := make(map[field]int)
	lits := make(map[field][]literal)
	content := &contentIndex{byText: make(map[string]int)}
	begun := make(map[field]int)
	for _, a := range x.atoms {
		if a.begins {
			begun[a.f]++
		}
	}
	for i, a := range x.atoms {
		if a.holds && content.add(vars.List[a.f.v].Name, a.literal, int32(i)) {
			continue
		}
		n, ok := byField[a.f]
		if !ok {
			n = len(x.fields)
			byField[a.f] = n
			x.fields = append(x.fields, newFieldIndex(vars, a.f))
		}
		fi := &x.fields[n]
		switch {
		case a.begins && begun[a.f] <= mostBeginnings:
			if fi.begins == nil {
				fi.begins = new([256][]textAtom)
			}
			for c := range fi.begins {
				if lowerByte[c] == a.literal[0] {
					fi.begins[c] = append(fi.begins[c], textAtom{a.literal, int32(i)})
				}
			}
		case a.holds:
			lits[a.f] = append(lits[a.f], literal{a.literal, [contentFields]int32{int32(i)}})
		case a.value[0] == 's':
			fi.isText[a.value[1:]] = int32(i)
			fi.few = append(fi.few, textAtom{a.value[1:], int32(i)})
			fi.sizes |= sizeBit(a.value[1:])
		case a.value[0] == 'n':
			if n, err := strconv.ParseInt(a.value[1:], 10, 64); err == nil {
				fi.isNum[n] = int32(i)
			}
		default:
			fi.isFlag[flagIndex(a.value == "t")] = int32(i)
		}
	}
	for i := range x.fields {
		fi := &x.fields[i]
		if len(fi.few) > fewTexts {
			fi.few = nil
		}
		if l := lits[fi.f]; len(l) > 0 {
			fi.literal = newLiterals(l)
		}
	}
	if len(content.lits) > 0 {
		content.literals = newLiterals(content.lits)
		x.content = content
	}
}

func newFieldIndex(vars *Vars, f field) fieldIndex {
	v := vars.List[f.v]
	fi := fieldIndex{
		f:      f,
		form:   formOf(v),
		at:     offsetOf(v),
		isFlag: [2]int32{-1, -1},
		isNum:  make(map[int64]int32),
		isText: make(map[string]int32),
	}
	if f.elem != (fi.form == formTexts) {
		fi.form = formOther // CEL decides
	}
	return fi
}

func countUse(n *prefilter, use []int) {
	if n.Op == opAtom {
		use[n.atom]++
	}
	for _, k := range n.kids {
		countUse(k, use)
	}
}

// Access returns the cheapest way in which an index can find a prefilter: a set of atoms and predicates of which at
// least one holds if the prefilter holds. It also returns the cost of the set. An atom costs the number of its uses;
// use has these numbers, by atom. A predicate costs predCost. If there is no such set, the cost is negative.
func Access(n *prefilter, use []int) ([]*prefilter, int) {
	switch n.Op {
	case OpNever:
		return nil, 0
	case opAtom:
		return []*prefilter{n}, use[n.atom]
	case opPred:
		return []*prefilter{n}, predCost
	case opAll:
		var best []*prefilter
		cost := -1
		for _, k := range n.kids {
			if ks, c := Access(k, use); c >= 0 && (cost < 0 || c < cost) {
				best, cost = ks, c
			}
		}
		return best, cost
	case opAny:
		var keys []*prefilter
		cost := 0
		for _, k := range n.kids {
			ks, c := Access(k, use)
			if c < 0 {
				return nil, -1
			}
			keys, cost = append(keys, ks...), cost+c
		}
		return keys, cost
	}
	return nil, -1
}

// Lookup has the buffers for looking up events in an index. It is used for one event after another.
type Lookup struct {
	x     *Index
	act   *Activation
	gen   uint32
	atoms []uint32 // by atom: number of the last lookup in which the atom held
	preds []uint32 // by predicate: twice the number of the last lookup that evaluated it, plus one if it held
	seen  []uint32 // by rule: number of the last lookup that checked it
	found []int32  // atoms that hold
	out   []int32

	breaks []int32 // breaks of the content, see alike
}

// NewLookup returns the buffers for lookups in an index.
func NewLookup(x *Index) *Lookup {
	return &Lookup{
		x:     x,
		atoms: make([]uint32, len(x.atoms)),
		preds: make([]uint32, len(x.preds)),
		seen:  make([]uint32, len(x.conds)),
	}
}

// Candidates returns the rules whose conditions may be true for the event, in the order of the rules.
func (t *Lookup) Candidates(act *Activation) []int32 {
	if t.gen++; t.gen >= 1<<30 {
		clear(t.atoms)
		clear(t.preds)
		clear(t.seen)
		t.gen = 1
	}
	t.act, t.out = act, append(t.out[:0], t.x.always...)
	x := t.x
	t.found = t.found[:0]
	for i := range x.fields {
		x.fields[i].match(act.In, t)
	}
	if x.content != nil {
		x.content.match(act.In, t)
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

// met reports whether an atom holds in the current lookup.
func (t *Lookup) met(a int32) bool { return t.atoms[a] == t.gen }

func (t *Lookup) hit(a int32) {
	if !t.met(a) {
		t.atoms[a] = t.gen
		t.found = append(t.found, a)
	}
}

func (t *Lookup) look(rules []int32) {
	for _, r := range rules {
		if t.seen[r] != t.gen {
			t.seen[r] = t.gen
			if t.holds(t.x.nodes, t.x.begins[r]) {
				t.out = append(t.out, r)
			}
		}
	}
}

// node is a part of a prefilter. All parts are in one array, in which the children of a node come after it.
type node struct {
	op   prefilterOp
	atom int32
	end  int32 // index after its last child
}

func flatten(out []node, n *prefilter) []node {
	i := len(out)
	out = append(out, node{op: n.Op, atom: n.atom})
	for _, k := range n.kids {
		out = flatten(out, k)
	}
	out[i].end = int32(len(out))
	return out
}

// holds reports whether the prefilter at node i holds for the current event.
func (t *Lookup) holds(nodes []node, i int32) bool {
	switch n := &nodes[i]; n.op {
	case opAtom:
		return t.met(n.atom)
	case opPred:
		return t.pred(n.atom)
	case OpNever:
		return false
	case opAll:
		for k := i + 1; k < n.end; k = nodes[k].end {
			if !t.holds(nodes, k) {
				return false
			}
		}
	case opAny:
		for k := i + 1; k < n.end; k = nodes[k].end {
			if t.holds(nodes, k) {
				return true
			}
		}
		return false
	}
	return true
}

func (t *Lookup) pred(n int32) bool {
	if v := t.preds[n]; v>>1 == t.gen {
		return v&1 == 1
	}
	v := t.gen << 1
	ok := t.x.asks[n].holds(t.act)
	if ok {
		v |= 1
	}
	t.preds[n] = v
	return ok
}

// match finds the atoms of this field that hold for an event.
func (fi *fieldIndex) match(event *signals.Input, t *Lookup) {
	in := unsafe.Pointer(event)
	switch fi.form {
	case formText:
		fi.text(at[string](in, fi.at), t)
	case formTexts:
		for _, s := range at[[]string](in, fi.at) {
			fi.text(s, t)
		}
	case formNum:
		if a, ok := fi.isNum[at[int64](in, fi.at)]; ok {
			t.hit(a)
		}
	case formFlag:
		if a := fi.isFlag[flagIndex(at[bool](in, fi.at))]; a >= 0 {
			t.hit(a)
		}
	}
}

func flagIndex(v bool) int {
	if v {
		return 1
	}
	return 0
}

func (fi *fieldIndex) text(s string, t *Lookup) {
	if fi.begins != nil && s != "" {
		for _, b := range fi.begins[s[0]] {
			if len(s) >= len(b.text) && lowerIs(s[:len(b.text)], b.text) {
				t.hit(b.atom)
			}
		}
	}
	if fi.sizes&sizeBit(s) != 0 {
		if fi.f.lower {
			s = lowerASCII(s)
		}
		if fi.few != nil {
			for i := range fi.few {
				if b := &fi.few[i]; b.text == s {
					t.hit(b.atom)
				}
			}
		} else if a, ok := fi.isText[s]; ok {
			t.hit(a)
		}
	}
	if fi.literal != nil {
		fi.literal.scan(s, func(l *literal) bool { return t.met(l.atoms[0]) },
			func(l *literal, _ int) { t.hit(l.atoms[0]) })
	}
}

func size(v ref.Val) (int64, bool) {
	if s, ok := v.(interface{ Size() ref.Val }); ok {
		n, ok := s.Size().(types.Int)
		return int64(n), ok
	}
	return 0, false
}

// MatchedView returns the name of the first view in which a text or a marker was found that condition number cond looks
// for. If no view has one, it returns "".
func (x *Index) MatchedView(vars *Vars, cond int, in *signals.Input) (found string) {
	var walk func(n *prefilter)
	walk = func(n *prefilter) {
		if n.Op == opAtom {
			switch a := x.atoms[n.atom]; vars.List[a.f.v].Name {
			case "content.views":
				for j, v := range in.Content.Views {
					if a.holds && found == "" && strings.Contains(v, a.literal) {
						found = in.ViewNames[j]
					}
				}
			case "content.markers":
				if found == "" {
					found = in.MarkedIn
				}
			}
		}
		for _, k := range n.kids {
			walk(k)
		}
	}
	walk(x.prefilters[cond])
	return found
}
