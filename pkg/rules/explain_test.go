package rules_test

import (
	"strings"
	"testing"

	"lazaret/pkg/rules"
	"lazaret/pkg/rules/ruletest"
	"lazaret/pkg/signals/index"
)

func TestExplanationsSayWhichPartDecided(t *testing.T) {
	ev := evaluator(t, map[string]string{
		"p/pack.yaml": "name: p\ntitle: T\nlists:\n  words: [alpha, beta]\nmacros:\n  deep: action.level > 2\n",
		"p/r.yaml": `rules:
  - {id: r1, title: T, severity: low, subject: action, message: "'m ' + action.tool", on: [action], effect: hold, on_error: hold, when: "macros.deep && (action.tool == 'x' || action.text.contains('eve'))"}
  - {id: r2, title: T, severity: low, subject: action, message: "'m'", on: [action], effect: alert, when: "action.tool in lists.words && action.unseen"}
  - {id: r3, title: T, severity: low, subject: belief, message: "it.id", on: [action], effect: alert, for_each: action.beliefs, when: "it.confidence < 0.5"}
  - {id: r4, title: T, severity: low, subject: action, message: "'m'", on: [action], effect: alert, mode: "off", when: "true"}
  - {id: r5, title: T, severity: low, subject: action, message: "'m'", on: [memory], effect: alert, when: "true"}
  - {id: r6, title: T, severity: low, subject: action, message: "'m'", on: [action], effect: alert, when: "int(action.tool) > 3"}
`,
		"exceptions.yaml": "exceptions:\n  - {id: x1, rules: [r1], when: action.level == 3, owner: olga, reason: agreed, " +
			"expires: 2027-01-01}\n"})
	es, err := ruletest.Events("e.yaml",
		[]byte("- action: {tool: \"y\\e[31m\", level: 3, args: {to: eve}, beliefs: [{id: b1, confidence: 0.2}, {id: b2}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := ev.Eval(index.NewMemStore(), es[0])
	if err != nil {
		t.Fatal(err)
	}
	xs, res, err := ev.Explain(index.NewMemStore(), es[0])
	if err != nil || len(res.Alerts) != len(want.Alerts) || res.Verdict != want.Verdict {
		t.Fatalf("explaining gives %+v, judging %+v, %v", res, want, err)
	}
	var b strings.Builder
	outcomes := ""
	for _, x := range xs {
		b.WriteString(x.String())
		outcomes += x.Rule + " " + x.Outcome + "; "
	}
	if outcomes != "r1 fires; r2 not evaluated; r3 fires; r4 not evaluated; r6 failed; " {
		t.Error(outcomes)
	}
	for _, s := range []string{
		"    true   all of\n      true   macros.deep\n               macros.deep = true\n               action.level = 3\n " +
			"     true   any of\n        false  action.tool == 'x'\n                 action.tool = \"y",
		"        true   action.text.contains('eve')",
		"exception x1 of olga takes the effect away: its condition is true (agreed)",
		"effect hold, verdict allow, on action e1: m y",
		`because action.tool is "y\x1b[31m", none of "alpha", "beta"`,
		"because action.unseen is false",
		"    it = {id: \"b1\"", "    false  it.confidence < 0.5", "on belief e1: b1",
		"because its mode is off",
		"type conversion error",
	} {
		if !strings.Contains(b.String(), s) {
			t.Errorf("the explanation does not say %q:\n%s", s, b.String())
		}
	}
	if strings.ContainsRune(b.String(), '\x1b') {
		t.Error("foreign text reaches the terminal")
	}
}

func TestTheConsoleEvaluatesOnAnEvent(t *testing.T) {
	set, err := rules.Compile(source(t, map[string]string{
		"p/pack.yaml": "name: p\ntitle: T\nlists:\n  words: [alpha, beta]\nsignals:\n  - {name: n, doc: d, count: {on: " +
			"[action], key: event.agent, window: 1h}}\n",
		"p/r.yaml": head + "    on: [action]\n    when: signal.n > 1 && action.tool == 'x'\n    effect: alert\n"}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := set.Console("")
	if err != nil {
		t.Fatal(err)
	}
	es, err := ruletest.Events("e.yaml", []byte("given:\n  - action: {tool: a}\n  - action: {tool: x, level: 2}\n"))
	if err == nil {
		err = c.Load(es)
	}
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		"signal.n":                    "int 2",
		"action.tool in lists.words":  "bool false",
		"event.time":                  "google.protobuf.Timestamp 2026-01-01T00:00:00Z",
		"{'a': [1, 2.5]}":             "map(string, list(dyn)) {\"a\": [1, 2.5]}",
		"action.tool + '\\u001b[31m'": `string "x\x1b[31m"`,
	} {
		typ, v, err := c.Eval(src)
		if err != nil || typ+" "+v != want && !strings.HasPrefix(src, "{") {
			t.Errorf("%s: %s %s, %v", src, typ, v, err)
		}
	}
	if _, _, err := c.Eval("action.tol"); err == nil || !strings.Contains(err.Error(), "^") {
		t.Errorf("%v", err)
	}
	x, err := c.Rule("r1")
	if err != nil || x.Outcome != "fires" {
		t.Errorf("%+v, %v", x, err)
	}
	if need, err := c.Need("action.level > 2 && action.tool in lists.words"); err != nil ||
		need != "all of\n  action.level is > 2\n  any of\n    action.tool is \"alpha\"\n    action.tool is \"beta\"\n" {
		t.Errorf("%s%v", need, err)
	}
	if high, here, err := c.Cost("action.beliefs.all(b, b.found)"); err != nil || high == 0 || here == 0 || here > high {
		t.Errorf("%d, %d, %v", high, here, err)
	}
	if fs := c.Fields("signal.n"); len(fs) != 2 { // and novel
		t.Errorf("%v", fs)
	}
	if _, err := ruletest.Events("e.yaml", []byte("given:\n  - {}\n")); err == nil || !strings.Contains(err.Error(),
		"e.yaml:2:") {
		t.Errorf("%v", err)
	}
}
