package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// preamble is the part of a policy that is the same in most tests.
const preamble = "version: 1\nname: test\ngroups: []\n"

func compile(t testing.TB, src string) *Policy {
	t.Helper()
	p, err := Compile("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicies(t *testing.T) {
	for _, file := range []string{"testdata/classify", "testdata/errors", "testdata/guard"} {
		var p *Policy
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "policy", "text": // text: without the preamble
				src := d.Input
				if d.Cmd == "policy" {
					src = preamble + src
				}
				var err error
				p, err = Compile("test.yaml", []byte(src))
				var at *Error
				if err != nil && !errors.As(err, &at) {
					t.Errorf("the error is a %T", err)
				}
				if err != nil {
					return err.Error()
				}
				return "ok"
			case "guard": // tool args, a line each: what the arguments add
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					tool, args, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
					c := p.Classify(tool, []byte(args), "p", "a")
					g := p.Guard(c, []byte(args))
					fmt.Fprintf(&out, "%s %s: %s, then %s\n", tool, args, c.Floor, g.Floor)
					for _, r := range g.Reasons[len(c.Reasons):] {
						fmt.Fprintf(&out, "  %s %s %s\n", r.Code, r.Verdict, r.Text)
					}
				}
				return out.String()
			case "classify": // tool [args], one per line
				project, agent := "p", "a"
				d.MaybeScanArgs(t, "project", &project)
				d.MaybeScanArgs(t, "agent", &agent)
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					tool, args, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
					c := p.Classify(tool, []byte(args), project, agent)
					fmt.Fprintf(&out, "%s: %s\n", tool, show(c))
					for _, r := range c.Reasons {
						fmt.Fprintf(&out, "  %s %s %s\n", r.Code, r.Verdict, r.Text)
					}
				}
				return out.String()
			}
			return "unknown command " + d.Cmd
		})
	}
}

func TestSettingsHaveDefaultsAndAreRead(t *testing.T) {
	p := compile(t, preamble)
	if p.Name != "test" || p.Mode != Enforce || p.Learn() || p.OnSilent != streams.Hold ||
		p.HoldExpiry != DefaultHoldExpiry ||
		p.MaxOpenHolds != DefaultMaxOpenHolds || p.Deadline(beliefs.L4) != DefaultDeadline ||
		p.Deadline(beliefs.Level(99)) != DefaultDeadline ||
		p.Digest != streams.Digest([]byte(preamble)) || !reflect.DeepEqual(p.Context("planning"),
		beliefs.DefaultContext("planning")) {
		t.Errorf("%+v", p)
	}
	p = compile(t, `
version: 1
name: strict
mode: learn
groups: [core, {name: judge, digest: "external:judge-v1", deadline: 12s}]
on_silent: deny
deadline: {default: 1s, L4: 7s}
hold_expiry: 2h
max_open_holds: 3
context:
  default: {max_age: 24h, max_external: 0}
  explanation: {ceiling: confidential, context_only: false}
`)
	if p.Mode != Learn || !p.Learn() ||
		!slices.Equal(p.Groups, []Group{{Name: "core"}, {Name: "judge", Digest: "external:judge-v1",
			Deadline: 12 * time.Second}}) || p.OnSilent != streams.Deny ||
		p.Wait(p.Groups[0], beliefs.L4) != 7*time.Second || p.Wait(p.Groups[1], beliefs.L4) != 12*time.Second ||
		p.Deadline(beliefs.L0) != time.Second || p.Deadline(beliefs.L4) != 7*time.Second || p.HoldExpiry != 2*time.Hour ||
		p.MaxOpenHolds != 3 {
		t.Errorf("%+v", p)
	}
	want := beliefs.ContextPolicy{Purpose: "explanation", MaxAge: 24 * time.Hour, Ceiling: beliefs.Confidential}
	if got := p.Context("explanation"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := p.Context("anything"); got.MaxExternal != 0 || got.Ceiling != beliefs.Internal || !got.ContextOnly ||
		got.Purpose != "anything" || got.Privileged {
		t.Errorf("%+v", got)
	}
}

func TestADeclaredLevelOnlyRaises(t *testing.T) {
	p := shipped(t)
	for _, tool := range []string{"get_user", "write_file", "send_email", "frobnicate"} {
		c := p.Classify(tool, nil, "p", "a")
		for l := beliefs.L0; l <= beliefs.L5; l++ {
			r := c.Raise(l)
			if r.Level != max(c.Level, l) || r.Floor != c.Floor.Join(Floor(l)) {
				t.Errorf("%s raised to %s: %s", tool, l, show(r))
			}
			if l <= c.Level && !reflect.DeepEqual(r, c) {
				t.Errorf("%s raised to %s, which is no more: %s", tool, l, show(r))
			}
			if r.Floor > c.Floor && len(r.Reasons) != len(c.Reasons)+1 {
				t.Errorf("%s raised to %s without a reason", tool, l)
			}
		}
	}
	none := compile(t, preamble).Classify("x", nil, "p", "a")
	if r := none.Raise(beliefs.L0); r.Floor != streams.Deny || !r.Unmatched() {
		t.Errorf("what matched nothing was loosened: %s", show(r))
	}
}

func TestLevelsThatDoNotExistAreDenied(t *testing.T) {
	if Floor(beliefs.Level(6)) != streams.Deny || Floor(beliefs.Level(255)) != streams.Deny {
		t.Error("a level beyond L5 is not denied")
	}
}

func TestAnnotationsRaiseAndNeverLower(t *testing.T) {
	p := shipped(t)
	for _, c := range []struct {
		tool, annotations string
		level             beliefs.Level
		effect            string
	}{
		{"get_user", ``, beliefs.L1, EffectRead},
		{"get_user", `{}`, beliefs.L1, EffectRead},
		{"get_user", `{"title":"x","readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}`, beliefs.L1,
			EffectRead},
		{"get_user", `{"readOnlyHint":false}`, beliefs.L3, EffectWrite},
		{"get_user", `{"openWorldHint":true}`, beliefs.L2, EffectEgress},
		{"get_user", `{"openWorldHint":true,"readOnlyHint":false}`, beliefs.L4, EffectEgress},
		{"get_user", `{"destructiveHint":true,"readOnlyHint":true}`, beliefs.L4, EffectDelete},
		{"write_file", `{"readOnlyHint":true,"destructiveHint":false}`, beliefs.L3, EffectWrite},
		{"write_file", `{"openWorldHint":true}`, beliefs.L4, EffectEgress},
		{"delete_file", `{"readOnlyHint":true}`, beliefs.L4, EffectDelete},
		{"get_user", `{"destructiveHint":"no"}`, beliefs.L4, EffectDelete},
		{"get_user", `nonsense`, beliefs.L4, EffectDelete},
		{"get_user", `null`, beliefs.L1, EffectRead},
	} {
		before := p.Classify(c.tool, nil, "p", "a")
		got := before.RaiseByAnnotations([]byte(c.annotations))
		if got.Level != c.level || !got.Has(c.effect) || got.Floor != before.Floor.Join(Floor(c.level)) {
			t.Errorf("%s %s: %s, want %s with %s", c.tool, c.annotations, show(got), c.level, c.effect)
		}
		for _, e := range before.Effects {
			if !got.Has(e) {
				t.Errorf("%s %s lost the effect %s", c.tool, c.annotations, e)
			}
		}
		if again := got.RaiseByAnnotations([]byte(c.annotations)); again.Level != got.Level {
			t.Errorf("%s %s: a second time gives %s", c.tool, c.annotations, show(again))
		}
	}
}

var (
	someWords = []string{"get", "list", "send", "post", "order", "delete", "file", "user", "update", "email", "run"}
	someGlobs = []string{"get.*", "*user*", "send.email", "*", "fs.?et", "post_*", "deleteFile", "*.file"}
	someWhens = []string{
		"", "", "", `args.n > 1`, `agent == "a"`, `"file" in words`, `args.exists(k, k == "n")`, `args.missing == 1`,
		`args.list.all(x, x < 3)`, `tool.startsWith("g")`,
	}
	someLevels = []string{"L0", "L1", "L2", "L3", "L4", "L5"}
	someArgs   = []string{``, `{}`, `{"n":2}`, `{"n":"x","list":[1,2]}`, `[1]`, `{"n":`, `{"n":1,"n":2}`}
)

// drawEntry draws the text of an entry.
func drawEntry(t *rapid.T, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: %s\n  level: %s\n", name, rapid.SampledFrom(someLevels).Draw(t, "level"))
	list := func(key string, from []string) bool {
		values := rapid.SliceOfN(rapid.SampledFrom(from), 0, 3).Draw(t, key)
		if len(values) > 0 {
			fmt.Fprintf(&b, "  %s: ['%s']\n", key, strings.Join(values, "','"))
		}
		return len(values) > 0
	}
	verbs := list("verbs", someWords)
	verbs = list("ambiguous", someWords) || verbs
	if verbs && rapid.Bool().Draw(t, "with objects") {
		list("objects", someWords)
	}
	named := list("tools", someGlobs) || verbs
	when := rapid.SampledFrom(someWhens).Draw(t, "when")
	if when == "" && !named {
		when = "true"
	}
	if when != "" {
		fmt.Fprintf(&b, "  when: '%s'\n", when)
	}
	if rapid.Bool().Draw(t, "require") {
		b.WriteString("  require: deny\n")
	}
	list("effects", Effects[:])
	return b.String()
}

func drawCall(t *rapid.T) (tool string, args []byte) {
	words := rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(someWords), "and", "by", "fs", "x9", "é")), 1,
		4).Draw(t, "words")
	return strings.Join(words, rapid.SampledFrom([]string{"_", ".", "__"}).Draw(t,
		"separator")), []byte(rapid.SampledFrom(someArgs).Draw(t, "args"))
}

func drawPolicy(t *rapid.T, entries []string) *Policy {
	src := preamble
	if len(entries) > 0 {
		src += "tools:\n" + strings.Join(entries, "")
	}
	if rapid.Bool().Draw(t, "with otherwise") {
		src += "otherwise: {level: L4, effects: [egress]}\n"
	}
	p, err := Compile("test.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return p
}

func TestTheOrderOfEntriesMeansNothing(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		var entries []string
		for i := range rapid.IntRange(0, 6).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, fmt.Sprintf("e%d", i)))
		}
		tool, args := drawCall(t)
		src := func(e []string) string { return preamble + "tools:\n" + strings.Join(e, "") }
		if len(entries) == 0 {
			return
		}
		a, err := Compile("a", []byte(src(entries)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile("b", []byte(src(rapid.Permutation(entries).Draw(t, "order"))))
		if err != nil {
			t.Fatal(err)
		}
		if x, y := a.Classify(tool, args, "p", "a"), b.Classify(tool, args, "p", "a"); !reflect.DeepEqual(x, y) {
			t.Fatalf("%s %s\n%s %v\n%s %v", tool, args, show(x), x.Reasons, show(y), y.Reasons)
		}
	})
}

func TestAnAddedEntryNeverLoosensWhatAnotherMatched(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		var entries []string
		for i := range rapid.IntRange(1, 6).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, fmt.Sprintf("e%d", i)))
		}
		tool, args := drawCall(t)
		before := drawPolicy(t, entries).Classify(tool, args, "p", "a")
		if before.Unmatched() || before.Entry == Otherwise {
			return
		}
		after := drawPolicy(t, append(entries, drawEntry(t, "added"))).Classify(tool, args, "p", "a")
		if after.Level < before.Level || after.Floor < before.Floor || after.Blast < before.Blast ||
			after.Reversibility < before.Reversibility {
			t.Fatalf("%s %s: %s became %s", tool, args, show(before), show(after))
		}
		for _, e := range before.Effects {
			if !after.Has(e) {
				t.Fatalf("%s %s lost the effect %s", tool, args, e)
			}
		}
	})
}

func TestTheFloorIsNeverBelowTheLadder(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		p := drawPolicy(t, []string{drawEntry(t, "a"), drawEntry(t, "b")})
		tool, args := drawCall(t)
		c := p.Classify(tool, args, "p", "a")
		if c.Floor < Floor(c.Level) || (c.Floor > streams.Allow) != (len(c.Reasons) > 0) {
			t.Fatalf("%s %s: %s, %d reasons", tool, args, show(c), len(c.Reasons))
		}
		join := streams.Allow
		for _, r := range c.Reasons {
			join = join.Join(r.Verdict)
		}
		if join != c.Floor {
			t.Fatalf("%s %s: the reasons say %s, the floor is %s", tool, args, join, c.Floor)
		}
	})
}

func TestConditionsCostTheSameOnEveryEvaluation(t *testing.T) {
	// The order of the map decides how early the comprehension meets the key that ends it. The cost
	// must not depend on that order.
	p := compile(t, preamble+
		"tools:\n- {name: x, level: L4, when: 'args.exists(k, k == \"k0500\")'}\n- {name: y, level: L1, tools: ['*']}\n")
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, ",\"k%04d\":%d", i, i)
	}
	args := []byte("{" + b.String()[1:] + "}")
	first := p.Classify("t", args, "p", "a")
	for range 20 {
		if c := p.Classify("t", args, "p", "a"); !reflect.DeepEqual(c, first) {
			t.Fatalf("%v, then %v", first.Reasons, c.Reasons)
		}
	}
}

func TestARunawayConditionCountsAsMet(t *testing.T) {
	p := compile(t, preamble+
		"tools:\n- {name: x, level: L1, when: 'args.l.exists(a, args.l.exists(b, args.l.exists(c, a + b + c < 0)))'}\n")
	args := []byte(`{"l":[` + strings.Repeat("1,", 300) + `1]}`)
	c := p.Classify("t", args, "p", "a")
	if c.Level != beliefs.L4 || c.Floor != streams.Hold || !strings.Contains(c.Reasons[0].Text, "cost limit") {
		t.Errorf("%s %v", show(c), c.Reasons)
	}
}

func TestOverlongNamesMatchNothing(t *testing.T) {
	p := shipped(t)
	if c := p.Classify("get_"+strings.Repeat("x", MaxTool), nil, "p", "a"); !c.Unmatched() || c.Floor != streams.Deny ||
		c.Reasons[0].Code != streams.CodeUnmatched {
		t.Error(show(c))
	}
}

func TestManyEntriesAreTold(t *testing.T) {
	var b strings.Builder
	b.WriteString(preamble + "tools:\n")
	for i := range 200 {
		fmt.Fprintf(&b, "- {name: e%d, level: L1, tools: ['t%d.*', 'exact%d'], verbs: [v%s]}\n", i, i, i,
			strings.Repeat("x", i))
	}
	p := compile(t, b.String())
	for i := range 200 {
		for _, tool := range []string{fmt.Sprintf("t%d.x", i), fmt.Sprintf("exact%d", i), "v" + strings.Repeat("x", i)} {
			if c := p.Classify(tool, nil, "p", "a"); c.Entry != fmt.Sprintf("e%d", i) && len(tool) < MaxTool {
				t.Errorf("%s: %s, want e%d", tool, show(c), i)
			}
		}
	}
}

func TestClassifyByWordsDoesNotAllocateWhenItAllows(t *testing.T) {
	p := shipped(t)
	if n := testing.AllocsPerRun(100, func() { p.Classify("get_order_details", nil, "p", "a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(preamble+"tools:\n- {name: x, level: L1, when: 'args.n > 1'}\notherwise: {level: L4}\n"), "x",
		[]byte(`{"n":2}`))
	f.Add([]byte(preamble+"deadline: {default: 1s, L9: 2s}\ncontext: {default: {max_age: 1h}}\n"), "é", []byte(`[`))
	f.Add([]byte(preamble+"tools: [{name: x, level: L1, tools: ['a*b?c*'], verbs: [get], objects: [x]}]\n"), "aXbYc",
		[]byte(nil))
	f.Fuzz(func(t *testing.T, src []byte, tool string, args []byte) {
		p, err := Compile("f", src)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		c := p.Classify(tool, args, "p", "a")
		if c.Floor < Floor(c.Level) || p.OnSilent < streams.Hold {
			t.Fatal(show(c))
		}
		g := p.Guard(c, args)
		if g.Floor < c.Floor || g.Level != c.Level || len(g.Reasons) < len(c.Reasons) ||
			!reflect.DeepEqual(g, p.Guard(c, args)) {
			t.Fatalf("%s, guarded %s", show(c), show(g))
		}
		if d := p.Classify(tool, args, "p", "a"); !reflect.DeepEqual(c, d) {
			t.Fatalf("%s, then %s", show(c), show(d))
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	p := shipped(b)
	for _, tool := range []string{"get_order_details", "send_email", "mcp__github__create_pull_request", "frobnicate"} {
		b.Run(tool, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Classify(tool, nil, "p", "a")
			}
		})
	}
	when := compile(b, preamble+"tools: [{name: x, level: L1, tools: ['*'], when: 'args.path.startsWith(\"/tmp/\")'}]\n")
	b.Run("condition", func(b *testing.B) {
		args := []byte(`{"path":"/tmp/x","mode":"r"}`)
		b.ReportAllocs()
		for b.Loop() {
			when.Classify("read_file", args, "p", "a")
		}
	})
}

func TestAPolicyNamesSystemsOfRecord(t *testing.T) {
	p, err := Compile("p.yaml", []byte(string(Default)+"  records: [\"crm.get*\", ledger_lookup]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]bool{"crm.get_customer": true, "ledger_lookup": true, "crm.set": false,
		"web.fetch": false, "сrm.get": false} {
		if p.Record(tool) != want {
			t.Errorf("Record(%q) is %v", tool, !want)
		}
	}
	if _, err := Compile("p.yaml", []byte(string(Default)+"  records: [\"*\"]\n")); err == nil {
		t.Error("every tool is a system of record")
	}
}
