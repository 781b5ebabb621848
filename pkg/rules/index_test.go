package rules

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// words are few, so that random rules and random events meet.
var words = []string{"alpha", "Beta", "gamma ray", "password", "x1", "https://evil.example/a", "Ünïcode", "ignore all", "tar", "", "kelvin", "alpha beta", " ignore", "tar\npassword"}

// randomExpr is a random condition of the kinds that the index reads, and of
// those that it does not.
func randomExpr(r *rand.Rand, depth int) string {
	word := func() string { return fmt.Sprintf("%q", words[r.IntN(len(words))]) }
	str := func() string {
		return []string{"event.tool", "event.origin", "content.text", "action.tool", "action.text", "memory.key", "event.source", "memory.key.lowerAscii()", "content.text.lowerAscii()"}[r.IntN(9)]
	}
	list := func() string {
		return []string{"content.views", "content.markers", "content.carriers", "action.effects", "content.kinds", "signal.novel"}[r.IntN(6)]
	}
	num := func() string {
		return []string{"action.level", "event.size", "action.confidence", "memory.age", "signal.cluster_size", "size(content.views)", "content.text.size()", "signal.n", "content.entropy"}[r.IntN(9)]
	}
	if depth > 0 {
		a, b := randomExpr(r, depth-1), randomExpr(r, depth-1)
		switch r.IntN(7) {
		case 0, 1:
			return "(" + a + " && " + b + ")"
		case 2, 3:
			return "(" + a + " || " + b + ")"
		case 4:
			return "!(" + a + ")"
		case 5:
			return "(" + a + " ? " + b + " : " + randomExpr(r, depth-1) + ")"
		default:
			return "macros.m" + fmt.Sprint(r.IntN(3))
		}
	}
	switch r.IntN(20) {
	case 0:
		return str() + " == " + word()
	case 1:
		return word() + " == " + str()
	case 2:
		return str() + " != " + word()
	case 3:
		return str() + " in [" + word() + ", " + word() + "]"
	case 4:
		return str() + " in lists.some"
	case 5:
		return str() + ".contains(" + word() + ")"
	case 6:
		return str() + ".startsWith(" + word() + ")"
	case 7:
		return list() + ".exists(v, v.contains(" + word() + ") || v == " + word() + ")"
	case 8:
		return "!" + list() + ".all(v, v != " + word() + ")"
	case 9:
		return list() + ".all(v, v.contains(" + word() + "))"
	case 10:
		return word() + " in " + list()
	case 11:
		return num() + []string{" > ", " >= ", " < ", " <= "}[r.IntN(4)] + []string{"0", "1", "3", "2.5", "40", "-1"}[r.IntN(6)]
	case 12:
		return "double(" + num() + ") == 3.0 || event.size == 0 || action.level == " + []string{"0", "3", "1"}[r.IntN(3)]
	case 13:
		return []string{"event.external", "content.has_hidden", "action.unseen", "event.synthetic", "signal.user_named"}[r.IntN(5)]
	case 14:
		return "lists.some.exists(w, content.text.contains(w) || content.views.exists(v, v.contains(w.lowerAscii())))"
	case 15:
		re := []string{`(?i)pass(word|phrase)`, `(?:send|set) .*evil`, `\balpha\b|gamma (ray|x)`, `k[e3]lvin`, `(?i)kelvin`, `a+b*`, `(foo|tar)+`, `ignor(e|ing) all`, `[a-z]{3,}x1`}[r.IntN(9)]
		return str() + ".matches(" + fmt.Sprintf("%q", re) + ")"
	case 16:
		return "action.lineage.exists(l, l.first_origin == 'external' && l.value.contains(" + word() + "))"
	case 17:
		return "action.beliefs.exists(b, b.quality == 'external_document')"
	case 18:
		return "int(action.args.n) > 3" // fails for most events
	}
	return list() + ".size() > " + fmt.Sprint(r.IntN(3))
}

func randomEntry(r *rand.Rand, seq int) *streams.Entry {
	some := func(n int) string {
		var out []string
		for range r.IntN(n + 1) {
			out = append(out, words[r.IntN(len(words))])
		}
		if r.IntN(4) == 0 {
			out = append(out, "mail bob@evil.example or K\u0065lvin \u212Aelvin")
		}
		return strings.Join(out, []string{" ", " ", "\n", "  ", "\t"}[r.IntN(5)])
	}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	h := streams.EntryHead{ID: fmt.Sprint("e", seq), Agent: pick("a", "b"), Session: pick("s", "t"), Time: time.Unix(int64(seq), 0).UTC()}
	e := &streams.Entry{Seq: uint64(seq), Stage: streams.StageIngest, Project: pick("p", "q")}
	var body any
	switch r.IntN(3) {
	case 0:
		e.Type = streams.TypeObservation
		s := some(6)
		body = &streams.ObservationEntry{EntryHead: h, Observation: beliefs.Observation{Origin: beliefs.Origin(pick("web", "user", "tool")), Tool: pick(words...), Source: pick(words...)}, Blocks: []streams.BlockEntry{{Text: s, Features: text.Analyze(s)}}}
	case 1:
		e.Type = streams.TypeMemory
		s := some(6)
		body = &streams.MemoryEntry{EntryHead: h, Origin: beliefs.Origin(pick("web", "user", "agent")), Key: pick(words...), Content: s, Features: text.Analyze(s)}
	default:
		e.Type = streams.TypeAction
		s := some(4)
		body = &streams.ActionEntry{EntryHead: h, Action: beliefs.Action{Tool: pick(words...), Effects: []string{pick("read", "egress", "alpha")}, Contract: beliefs.Contract{Level: beliefs.Level(r.IntN(5))}}, Text: s, Features: text.Analyze(s),
			Args: []byte(pick(`{"n":5}`, `{"n":"x"}`, `{}`)), Beliefs: []streams.BeliefRef{{ID: "b", Found: true, Quality: beliefs.ExternalDocument}}[:r.IntN(2)]}
	}
	b, err := streams.Marshal(body)
	if err != nil {
		panic(err)
	}
	e.Body = b
	return e
}

// The index leaves out no rule that would have fired or failed.
func TestTheIndexFindsWhatEvaluatingEveryRuleFinds(t *testing.T) {
	sets, perSet, events := 40, 60, 150
	if testing.Short() {
		sets = 8
	}
	fired, pruned := 0, 0
	for seed := range sets {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range perSet {
			fmt.Fprintf(&b, "  - id: r%d\n    title: T\n    severity: low\n    subject: action\n    message: \"'m'\"\n    on: [action, memory, observation]\n    effect: hold\n    on_error: deny\n    when: %q\n", i, randomExpr(r, r.IntN(4)))
		}
		set := testSet(t, map[string]string{"p/r.yaml": b.String(), "p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: [alpha, Beta, tar]\nmacros:\n" +
			"  m0: event.tool in lists.some\n  m1: \"macros.m0 && content.text.contains('password')\"\n  m2: \"content.views.exists(v, v.matches('ign[o0]re|kelvin'))\"\n" +
			"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n"})
		fast, slow := set.Group("core"), *set.Group("core")
		slow.exhaustive = true
		st1, st2 := NewMemStore(), NewMemStore()
		for i := range events {
			e := randomEntry(r, i+1)
			want, err := slow.Eval(st1, e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fast.Eval(st2, e)
			if err != nil {
				t.Fatal(err)
			}
			x, y := ids(want.Alerts), ids(got.Alerts)
			if !slices.Equal(x, y) || want.Verdict != got.Verdict {
				for _, id := range x {
					if !slices.Contains(y, id) {
						name, _, _ := strings.Cut(id, " ")
						t.Errorf("seed %d, event %d: the index leaves out %s: %s\n%s", seed, i, id, set.Rule(name).doc.When, e.Body)
					}
				}
				t.FailNow()
			}
			fired += len(x)
			pruned += perSet - len(y)
		}
	}
	if fired == 0 || pruned == 0 {
		t.Fatalf("%d alerts, %d rules left out: the test shows nothing", fired, pruned)
	}
}

func ids(as []streams.Alert) []string {
	var out []string
	for _, a := range as {
		out = append(out, a.Rule+" "+a.Error)
	}
	return out
}

func testSet(t testing.TB, files map[string]string) *Set {
	t.Helper()
	fsys := fstest.MapFS{"groups.yaml": {Data: []byte("groups:\n  core: [p]\n")}}
	for name, s := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(s)}
	}
	b, err := Pack(fsys)
	if err != nil {
		t.Fatal(err)
	}
	src, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A text that an expression matches holds what it requires, and one of its
// literals.
func FuzzRequiredLiterals(f *testing.F) {
	f.Add(`(?i)pass(word|phrase)s?`, "PASSPHRASE")
	f.Add(`k[e3]lvin`, "k3lvin")
	f.Add(`(?i)kiss`, "\u212Aiss")
	f.Add(`(ab|cd){2,}x`, "abcdx")
	f.Add(`(?:do not|never)\b[^.]{0,9}(?:drop|forget)|keep (?:this )?verbatim`, "never forget")
	f.Fuzz(func(t *testing.T, expr, s string) {
		lits := requiredLiterals(expr)
		re, err := regexp.Compile(expr)
		if err != nil || !re.MatchString(s) {
			return
		}
		if q := requires(expr); q != nil && !q.metBy(lowerASCII(s)) {
			t.Errorf("%q matches %q, which does not hold what it requires", expr, s)
		}
		if lits == nil {
			return
		}
		for _, l := range lits {
			if strings.Contains(lowerASCII(s), l) {
				return
			}
		}
		t.Errorf("%q matches %q without any of %q", expr, s, lits)
	})
}

func (q *requirement) metBy(s string) bool {
	met := func(k *requirement) bool { return k.metBy(s) }
	switch {
	case q.all != nil:
		return !slices.ContainsFunc(q.all, func(k *requirement) bool { return !met(k) })
	case q.some != nil:
		return slices.ContainsFunc(q.some, met)
	}
	return slices.ContainsFunc(q.one, func(l string) bool { return strings.Contains(s, l) })
}

// What stands one after another is required together.
func TestAllPartsAreRequired(t *testing.T) {
	q := requires(`\b(?:do not|never)\b[^.;]{0,40}\b(?:drop|forget)\b|\bkeep (?:this )?verbatim\b`)
	for text, want := range map[string]bool{
		"never drop":         true,
		"we never met":       false,
		"do forget":          false,
		"keep this verbatim": true,
		"keep verbatim":      true,
		"keep it":            false,
	} {
		if got := q.metBy(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestRequiredLiterals(t *testing.T) {
	for expr, want := range map[string][]string{
		`pass(?:word|phrase)`:     {"passphrase", "password"},
		`(?i)Send`:                {"send", "ſend"}, // s has a partner outside of ASCII
		`(?i)Send.*evil`:          {"evil"},
		`(?i)forward.*x`:          {"forward"},
		`\b(?:send|set)\b`:        {"send", "set"},
		`(?i)xkskskskyz`:          {"kyz", "\u212Ayz"},
		`alpha[ -]beta`:           {"alpha beta", "alpha-beta"},
		`a|bcd`:                   nil,
		`.*`:                      nil,
		`(?:foo)+bar?`:            {"foo"},
		`colou?r`:                 {"color", "colour"},
		`[xy]abc\d+`:              {"xabc", "yabc"},
		`no .{0,20}instructions?`: {"instruction"},
	} {
		if got := requiredLiterals(expr); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// Every literal that strings.Contains finds, the index finds, and no other.
func TestLiteralsFindWhatContainsFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := "abcAB. "
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for round := range 400 {
		var lits []literal
		n := 50
		letters = "abcAB. "
		if round%4 == 0 {
			letters, n = "abA-9. ", 1+r.IntN(3) // few, which may be looked for by a mark
		}
		for i := range n {
			lits = append(lits, literal{text: lowerASCII(random(3 + r.IntN(14))), atoms: [contentFields]int32{int32(i)}})
		}
		l := newLiterals(lits)
		for range 20 {
			s := random(r.IntN(200)) + lits[r.IntN(n)].text + random(r.IntN(9))
			found := make(map[int32]bool)
			l.scan(s, func(l *literal) bool { return found[l.atoms[0]] }, func(l *literal, at int) {
				if !strings.HasPrefix(lowerASCII(s[at:]), l.text) {
					t.Fatalf("%q in %q is not at %d", l.text, s, at)
				}
				found[l.atoms[0]] = true
			})
			for _, lit := range lits {
				if want := strings.Contains(lowerASCII(s), lit.text); want != found[lit.atoms[0]] {
					t.Fatalf("%q in %q: %v, want %v", lit.text, s, found[lit.atoms[0]], want)
				}
			}
		}
	}
}
