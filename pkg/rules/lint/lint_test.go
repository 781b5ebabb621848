package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lazaret/pkg/internal/cleanrules"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/compiled"
)

var lintNow = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func lintOf(t testing.TB, files map[string]string) []Finding {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	b, err := rules.Pack(fsys)
	if err != nil {
		t.Fatal(err)
	}
	src, err := rules.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := Run(src, lintNow)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestEachLintFindsItsFault(t *testing.T) {
	if fs := lintOf(t, cleanrules.Files); len(fs) > 0 {
		t.Fatalf("the clean set has findings: %+v", fs)
	}
	when := func(x string) [3]string {
		return [3]string{"p/r.yaml", "macros.known\n      && signal.calls > 3",
			"macros.known\n      && signal.calls > 3\n      && " + x}
	}
	only := func(x string) [3]string {
		return [3]string{"p/r.yaml", "macros.known\n      && signal.calls > 3",
			"macros.known || signal.calls > 3\n      || " + x}
	}
	pack := func(old, new string) [3]string { return [3]string{"p/pack.yaml", old, new} }
	rule := func(old, new string) [3]string { return [3]string{"p/r.yaml", old, new} }
	seen := make(map[string]bool)
	for _, c := range []struct {
		lint   string
		change [3]string // file, old text, new text
		at     string
		says   string
	}{
		{"compile", when("action.levle > 2"), "p/r.yaml:12:16", "did you mean"},
		{"compile", when("action.tool = 'x'"), "p/r.yaml:12:22", "write == for ="},
		{"compile", when("action.level > 2 and action.level < 4"), "p/r.yaml:12:27", "write && for and"},
		{"compile", when("action.level > 2 or action.level < 1"), "p/r.yaml:12:27", "write || for or"},
		{"compile", when("action.tool > 2"), "p/r.yaml:12:22", "no matching overload"},
		{"compile", rule("when: >-", "wehn: x\n    when: >-"), "p/r.yaml:9:5", "did you mean when?"},
		{"compile", rule("severity: low", "severity: lwo"), "p/r.yaml:4:15", "did you mean low?"},
		{"compile", pack("key: event.agent", "key: event.agnet"), "p/pack.yaml:12:17", "event.agnet"},
		{"compile", pack("known: action", "known: actoin"), "p/pack.yaml:6:16", "actoin"},
		{"compile", [3]string{"p/r.test.yaml", "silent:", "silnet:"}, "p/r.test.yaml:6:5", "did you mean silent?"},
		{"compile", [3]string{"exceptions.yaml", "event.agent", "event.agnet"}, "exceptions.yaml:4:16", "event.agnet"},
		{"compile", [3]string{"groups.yaml", "[p]", "[p, q]"}, "groups.yaml:2:13", "no pack"},

		{"compile", when("action.text.matches('(')"), "p/r.yaml:12:29", "error parsing regexp"},

		{"never-matches", when("action.tool == 'x' && action.tool == 'y'"), "p/r.yaml:9:11", "never fires"},
		{"never-matches", when("event.external && !event.external"), "p/r.yaml:9:11", ""},
		{"never-matches", when("action.level > 3 && action.level < 4"), "p/r.yaml:9:11", ""},
		{"never-matches", when("action.tool != 'x' && action.tool == 'x'"), "p/r.yaml:9:11", ""},
		{"never-matches", when("action.tool.lowerAscii() == 'Alpha'"), "p/r.yaml:9:11", ""},
		{"never-matches", when("1 > 2"), "p/r.yaml:9:11", ""},
		{"never-matches", when("'abc'.startsWith('b')"), "p/r.yaml:9:11", ""},
		{"never-matches", when("event.kind == 'memory'"), "p/r.yaml:9:11", ""},
		{"never-matches", when("action.beliefs.exists(b, false)"), "p/r.yaml:9:11", ""},
		{"never-matches", pack("action.level > 0", "action.level in []"), "p/pack.yaml:13:13", "never counts anything"},
		{"never-matches", [3]string{"exceptions.yaml", "lists.agents", "lists.agents && event.agent == ''"},
			"exceptions.yaml:4:11", "exception"},

		{"always-matches", only("action.tool == 'x' || action.tool != 'x'"), "p/r.yaml:9:11", "every action"},
		{"always-matches", only("event.external || !event.external"), "p/r.yaml:9:11", ""},
		{"always-matches", only("action.level > 2 || action.level <= 2"), "p/r.yaml:9:11", ""},
		{"always-matches", only("event.kind == 'action'"), "p/r.yaml:9:11", ""},
		{"always-matches", only("size('abc') == 3"), "p/r.yaml:9:11", ""},

		{"giant-regex", when("action.text.matches('[0-9]{16}')"), "p/r.yaml:12:29", "nor ^"},
		{"giant-regex", when("action.text.matches('secret([a-z]xyz){900}')"), "p/r.yaml:12:29", "instructions"},
		{"giant-regex", rule("'m'", "action.text.matches('[0-9]{16}') ? 'm' : 'n'"), "p/r.yaml:15:34", "nor ^"},
		{"giant-regex", pack("action.tool in lists.words",
			"action.tool in lists.words && action.text.matches('[0-9]{16}')"), "p/pack.yaml:6:59", "nor ^"},
		{"giant-regex", when("['[0-9]{16}'].exists(p, action.text.matches(p))"), "p/r.yaml:12:53", "nor ^"},

		{"unindexed", only("action.text.matches('^x')"), "p/r.yaml:9:11", `rule "r1"`},
		{"missing-test", [3]string{"p/r.test.yaml", "fires: {r1: 1}", "fires: {r1: 0}"}, "p/r.yaml:2:9", "r1"},
		{"unknown-rule", [3]string{"p/r.test.yaml", "silent: [r1]", "silent: [r2]"}, "p/r.test.yaml:6:14",
			"did you mean r1?"},
		{"expired-exception", [3]string{"exceptions.yaml", "2027-01-01", "2026-06-01"}, "exceptions.yaml:7:14", "dana"},
		{"exception-soon", [3]string{"exceptions.yaml", "2027-01-01", "2026-06-30"}, "exceptions.yaml:7:14", "28 days"},
		{"over-budget", when("content.views.exists(v, v.matches('" + strings.Repeat("(?:abcdef|ghijkl)", 36) + "'))"),
			"p/r.yaml:9:11", "may cost"},
		{"unused", pack("words: [alpha, beta]", "words: [alpha, beta]\n  others: [x]"), "p/pack.yaml:5:11", "lists.others"},
		{"unused", pack("macros:", "macros:\n  other: action.level > 2"), "p/pack.yaml:6:10", "macros.other"},
		{"unused", rule("signal.calls", "action.level"), "p/pack.yaml:8:11", "signal.calls"},
		{"no-false-positives", rule("    false_positives: Some.\n", ""), "p/r.yaml:2:9", ""},
		{"deprecated-enforced", rule("status: stable", "status: deprecated"), "p/r.yaml:5:13", ""},
		{"experimental-enforced", rule("status: stable", "status: experimental"), "p/r.yaml:5:13", "hold"},
		{"tag-form", rule("cwe-94", "cwe94"), "p/r.yaml:7:42", "cwe94"},
		{"shadowed-name", pack("words: [alpha, beta]", "words: [alpha, beta]\n  agents: [x]"), "p/pack.yaml:5:11",
			"common.yaml"},
		{"shadowed-name", when("action.beliefs.exists(event, event.id == '')"), "p/r.yaml:12:31", "event"},
		{"shadowed-name", when("action.beliefs.exists(b, b.id == '' && action.beliefs.exists(b, b.id == 'a'))"),
			"p/r.yaml:12:70", "b hides"},
		{"capital-in-view", when("content.views.exists(v, v.contains('Wire'))"), "p/r.yaml:12:44", "has a capital"},
		{"capital-in-view", when("content.views.exists(v, v.matches('^Wire [0-9]'))"), "p/r.yaml:12:43", "has a capital"},
		{"absent-argument", when("action.args.path == '/etc'"), "p/r.yaml:12:21", "'path' in action.args"},
		{"absent-argument", when("action.args['path'] == '/etc'"), "p/r.yaml:12:21", "'path' in action.args"},
		{"absent-argument", rule("'m'", "string(action.args.path)"), "p/r.yaml:15:33", "'path' in action.args"},
		{"absent-argument", pack("action.level > 0", "action.args.path == '/etc'"), "p/pack.yaml:13:24", ""},
		{"foreign-field", when("(memory.key == 'a' || action.level > 2)"), "p/r.yaml:12:17", "memory.key"},
		{"unread-file", [3]string{"exception.yaml", "", "exceptions: []\n"}, "exception.yaml:0:0",
			"did you mean exceptions.yaml?"},
		{"unread-file", [3]string{"p/q/r.yaml", "", "rules: []\n"}, "p/q/r.yaml:0:0", "no pack"},
		{"ungrouped-pack", [3]string{"q/pack.yaml", "", "name: q\ntitle: Q\n"}, "q/pack.yaml:1:7", `"q"`},
	} {
		seen[c.lint] = true
		files := maps.Clone(cleanrules.Files)
		files[c.change[0]] = strings.Replace(files[c.change[0]], c.change[1], c.change[2], 1)
		if files[c.change[0]] == cleanrules.Files[c.change[0]] {
			t.Errorf("%s: %q is not in %s", c.lint, c.change[1], c.change[0])
			continue
		}
		fs := lintOf(t, files)
		i := slices.IndexFunc(fs, func(f Finding) bool {
			return f.Rule == c.lint && strings.Contains(f.Message, c.says) && fmt.Sprintf("%s:%d:%d", f.File, f.Line,
				f.Column) == c.at
		})
		if i < 0 {
			t.Errorf("%s at %s after %q is not found: %+v", c.lint, c.at, c.change[2], fs)
			continue
		}
		if f := fs[i]; f.Line > 0 && f.Source != strings.Split(files[f.File], "\n")[f.Line-1] {
			t.Errorf("%s: the line is %q", c.lint, f.Source)
		}
		for _, f := range fs {
			if f.Rule != c.lint && f.Rule != "unused" && f.Rule != "unindexed" {
				t.Errorf("%s after %q: also found %+v", c.lint, c.change[2], f)
			}
		}
	}
	for _, l := range All() {
		if !seen[l.ID] || l.Doc == "" || l.Help == "" || strings.Contains(l.Doc, "\n") {
			t.Errorf("lint %s has no test, or no text", l.ID)
		}
	}
}

func TestAllFaultsOfAnExpressionAreFindings(t *testing.T) {
	files := maps.Clone(cleanrules.Files)
	files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "macros.known\n", "macros.knwon && nobody\n", 1)
	fs := lintOf(t, files)
	var at []string
	for _, f := range fs {
		at = append(at, fmt.Sprintf("%s:%d:%d", f.Rule, f.Line, f.Column))
		if strings.Contains(f.Message, "\n") || !strings.HasPrefix(f.Message, `when of rule "r1": `) {
			t.Errorf("the message is %q", f.Message)
		}
	}
	if s := strings.Join(at, " "); s != "compile:10:13 compile:10:23" {
		t.Error(s)
	}
}

func TestAnArgumentThatIsAskedForIsNoFault(t *testing.T) {
	for _, x := range []string{"has(action.args.path) && action.args.path == '/etc'",
		"'path' in action.args && action.args['path'] == '/etc'",
		"(!has(action.args.path) || action.args.path == '/etc')"} {
		files := maps.Clone(cleanrules.Files)
		files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "> 3\n", "> 3\n      && "+x+"\n", 1)
		files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "'m'", "'path' in action.args ? string(action.args.path) : ''", 1)
		for _, f := range lintOf(t, files) {
			t.Errorf("%s: %+v", x, f)
		}
	}
}

func TestSignalsOfOneNameAreShownWithBothPlaces(t *testing.T) {
	files := maps.Clone(cleanrules.Files)
	files["q/pack.yaml"] = strings.Replace(cleanrules.Files["p/pack.yaml"], "name: p\n", "name: q\n", 1)
	files["groups.yaml"] = "groups:\n  core: [p, q]\n"
	fs := lintOf(t, files)
	i := slices.IndexFunc(fs, func(f Finding) bool { return f.Rule == "compile" })
	if i < 0 || fs[i].File != "q/pack.yaml" || fs[i].Line != 8 ||
		!strings.Contains(fs[i].Message, "signal.calls is defined already, at p/pack.yaml:8:11") {
		t.Errorf("%+v", fs)
	}
	if fs := lintOf(t, map[string]string{"groups.yaml": "groups:\n  core: [p]\n",
		"p/pack.yaml": "name: p\ntitle: T\nsignals:\n  - {name: echo, doc: d, count: {on: [action], key: event.agent, " +
			"window: 1m}}\n"}); len(fs) == 0 || !strings.Contains(fs[0].Message, "as a built-in signal") {
		t.Errorf("%+v", fs)
	}
}

// A condition that YAML cannot read without quotes must give an error that shows how to quote it.
func TestAConditionThatIsNoYAMLIsShownHowToQuote(t *testing.T) {
	for _, when := range []string{`'x' in action.acts`, `"x" == action.tool`, `action.tool == 'a: b'`,
		`action.level > 2 ? true : false`, `!action.asked`, `[1] == [1]`} {
		files := maps.Clone(cleanrules.Files)
		files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], ">-\n      macros.known\n      && signal.calls > 3", when, 1)
		fs := lintOf(t, files)
		if !slices.ContainsFunc(fs, func(f Finding) bool {
			return f.Rule == "compile" && f.Line == 9 && strings.Contains(f.Message, "quote")
		}) {
			t.Errorf("%s: %+v", when, fs)
		}
	}
}

func TestAStepThatNeverHappensIsFound(t *testing.T) {
	files := maps.Clone(cleanrules.Files)
	files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "signal.calls", "signal.calls.size()", 1)
	before, _, _ := strings.Cut(files["p/pack.yaml"], "    count:")
	files["p/pack.yaml"] = before + "    sequence:\n      key: event.agent\n      window: 1m\n      steps:\n        - " +
		"on: [action]\n          when: action.level > 0\n        - on: [action]\n          when: event.kind == 'memory'\n"
	fs := lintOf(t, files)
	if len(fs) != 1 || fs[0].Rule != "never-matches" || fs[0].Line != 17 || fs[0].Column != 17 {
		t.Errorf("%+v", fs)
	}
}

// The lints must not ask for a test of a rule that is off, nor report that a rule in shadow mode is experimental.
func TestLintsLeaveOutWhatIsNotInForce(t *testing.T) {
	files := maps.Clone(cleanrules.Files)
	files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "mode: enforce", "mode: \"off\"", 1)
	files["p/r.test.yaml"] = "tests: []\n"
	if fs := lintOf(t, files); len(fs) > 0 {
		t.Errorf("%+v", fs)
	}
	files = maps.Clone(cleanrules.Files)
	files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "status: stable\n    mode: enforce",
		"status: experimental\n    mode: shadow", 1)
	if fs := lintOf(t, files); len(fs) > 0 {
		t.Errorf("%+v", fs)
	}
}

func TestEveryNameHasItsKindsOfEvents(t *testing.T) {
	for _, v := range compiled.BaseVars().List {
		root, _, _ := strings.Cut(v.Name, ".")
		if root != "event" && root != "signal" && kindsOfRoot[root] == nil {
			t.Errorf("%s belongs to no kind of events", v.Name)
		}
	}
}

func FuzzLint(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(cleanrules.Files)) {
		f.Add(name, cleanrules.Files[name])
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(text) > 4<<10 || name == "" {
			return
		}
		files := maps.Clone(cleanrules.Files)
		files[name] = text
		bundle, err := rules.PackFiles(files)
		if err != nil {
			return
		}
		b, err := rules.Open(bundle)
		if err != nil {
			return
		}
		fs, err := Run(b, lintNow)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range fs {
			if x.File == "" || x.Message == "" {
				t.Errorf("an empty finding: %+v", x)
			}
		}
	})
}

func TestARegularExpressionHasACapitalOnlyInALiteralThatMindsCase(t *testing.T) {
	for re, want := range map[string]bool{`^Wire`: true, `a|(b Wire)+`: true, `(?i)^Wire`: false, `\S\Dwire`: false} {
		if got := hasCapital(re, true); got != want {
			t.Errorf("%s: %v, want %v", re, got, want)
		}
	}
}

func TestAnExpressionThatIsSlowOnEveryTextIsAnError(t *testing.T) {
	for pattern, level := range map[string]string{"secret([a-z]xyz){900}": LevelWarning,
		"secret.{0,1000}.{0,1000}.{0,1000}.{0,1000}.{0,1000}": LevelError} {
		files := maps.Clone(cleanrules.Files)
		files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "> 3\n",
			"> 3\n      && action.text.matches('"+pattern+"')\n", 1)
		fs := lintOf(t, files)
		if len(fs) != 1 || fs[0].Rule != "giant-regex" || fs[0].Level != level {
			t.Errorf("%s: %+v", pattern, fs)
		}
	}
}
