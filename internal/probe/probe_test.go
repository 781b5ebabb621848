package probe

import (
	"context"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"lazaret/probes"
)

var update = flag.Bool("update", false, "write docs/probes.md")

func shippedScenarios(t *testing.T) []*Scenario {
	t.Helper()
	all, err := Load(probes.Threats(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryProbeHoldsAndFailsWithoutItsDefence runs the threat model. With -short it omits contrasts
// and scenarios that need a separate pipeline.
func TestEveryProbeHoldsAndFailsWithoutItsDefence(t *testing.T) {
	all, contrast := shippedScenarios(t), !testing.Short()
	if !contrast {
		all = slices.DeleteFunc(all, func(s *Scenario) bool { return s.needsOwnPipeline() || s.Policy != nil })
	}
	results, err := Run(context.Background(), all, Options{Contrast: contrast})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Verdict != Pass {
			t.Errorf("%s: %s: %s", r.Name, r.Verdict, strings.Join(r.Failed, "\n  "))
		}
		if contrast && r.Contrast != ContrastFailed {
			t.Errorf("%s, without %s: %s %v", r.Name, r.Off, r.Contrast, r.Shown)
		}
	}
}

const marker = "<!-- tables -->\n"

func TestThePageAboutProbesIsCurrent(t *testing.T) {
	const page = "../../docs/probes.md"
	elsewhere, err := ReadElsewhere(probes.Elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(b), marker)
	if !ok {
		t.Fatalf("%s has no line %q", page, marker)
	}
	want := head + marker + "\n" + Tables(shippedScenarios(t), elsewhere)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(b) {
		t.Error("docs/probes.md is not what probes/ says: go test ./internal/probe -run Page -update")
	}
}

func TestTheTestsNamedElsewhereExist(t *testing.T) {
	elsewhere, err := ReadElsewhere(probes.Elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	find := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range find.FindAllSubmatch(b, -1) {
			have[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elsewhere {
		for _, name := range e.Tests {
			if !have[name] {
				t.Errorf("%s: there is no test %s", e.Name, name)
			}
		}
	}
}

// TestEveryInvariantIsSomewhere compares the list of invariants with scenarios and tests, if the list
// is beside the repository.
func TestEveryInvariantIsSomewhere(t *testing.T) {
	b, err := os.ReadFile("../../../shared/probes.md")
	if err != nil {
		t.Skip("SKIPPED: the list of invariants is not beside the repository: ", err)
	}
	elsewhere, err := ReadElsewhere(probes.Elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range shippedScenarios(t) {
		have[s.Name] = true
	}
	for _, e := range elsewhere {
		if have[e.Name] {
			t.Errorf("%s is a scenario and also listed in probes/elsewhere.yaml", e.Name)
		}
		have[e.Name] = true
	}
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.Contains(cells[1], "---") || strings.TrimSpace(cells[1]) == "probe" {
			continue
		}
		names := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cells[1], "")
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "+"))
			if !have[name] {
				t.Errorf("%s is neither a scenario nor listed in probes/elsewhere.yaml", name)
			}
		}
	}
}

// The runner detects a failed assertion, and reports a contrast that does not affect its scenario.
func TestAProbeThatPassesWithoutItsDefenceIsFound(t *testing.T) {
	text := func(name, verdict, rule string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("name: " + name +
			"\nscenario: x\nasserts: x\ndoes_not_claim: x\nsteps: [{id: a, decide: {tool: send_report}, expect: {verdict: " +
			verdict + "}}]\n" +
			"contrast: {off: x, fails: a, rules: [" + rule + "]}\n")}
	}
	all, err := Load(fstest.MapFS{"idle.yaml": text("idle", "hold", "sleeper"), "wrong.yaml": text("wrong", "allow",
		"sleeper")}, ".")
	if err != nil {
		t.Fatal(err)
	}
	all[1].Contrast = nil
	results, err := Run(context.Background(), all, Options{Contrast: true})
	if err != nil {
		t.Fatal(err)
	}
	if idle := results[0]; idle.Verdict != Pass || idle.Contrast != ContrastPassed || !idle.Bad() {
		t.Errorf("%+v", idle)
	}
	if wrong := results[1]; wrong.Verdict != Fail || len(wrong.Failed) != 1 || !strings.Contains(wrong.Failed[0],
		`the verdict is "hold by LZ303", want "allow"`) || !wrong.Bad() {
		t.Errorf("%+v", wrong)
	}
}

func TestABadScenarioSaysWhatIsWrong(t *testing.T) {
	const good = "name: a\nscenario: x\nasserts: x\ndoes_not_claim: x\n"
	for text, want := range map[string]string{
		good + "steps: [{decide: {tool: t}, expect: {verdict: hold}}]": "",
		good + "stops: []":                                        "unknown field",
		good + "steps: []":                                        "no steps",
		good + "steps: [{decide: {tool: t}}]":                     "no step expects",
		good + "steps: [{decide: {tool: t}, recall: {query: q}}]": "one kind",
		good + "steps: [{id: x, decide: {tool: t}, expect: {}}, {id: x, decide: {tool: t}}]":               "not the first",
		good + "steps: [{observe: {origin: nobody, content: c}, expect: {}}]":                              "origin",
		good + "steps: [{decide: {tool: t}, after: soon, expect: {}}]":                                     "duration",
		good + "steps: [{resolve: {hold: h}, expect: {}}]":                                                 "is not a step before it",
		good + "steps: [{decide: {tool: t}, expect: {}}]\ncontrast: {fails: step1}":                        "off",
		strings.Replace(good, "name: a", "name: b", 1) + "steps: [{decide: {tool: t}, expect: {}}]":        "name",
		strings.Replace(good, "asserts: x", "asserts: ''", 1) + "steps: [{decide: {tool: t}, expect: {}}]": "are required",
	} {
		_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(text)}}, ".")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n  %v, want %q", text, err, want)
		}
	}
}

func TestPatchesMergeByName(t *testing.T) {
	doc := map[string]any{"a": 1, "tools": []any{map[string]any{"name": "x", "level": "L1"}, map[string]any{"name": "y"}}}
	got := Patch(doc, map[string]any{"a": nil, "b": 2, "tools": map[string]any{"x": map[string]any{"level": "L4"},
		"y": nil, "z": map[string]any{"level": "L0"}}}).(map[string]any)
	tools := got["tools"].([]any)
	if got["a"] != nil || got["b"] != 2 || len(tools) != 2 || !maps.Equal(tools[0].(map[string]any),
		map[string]any{"name": "x", "level": "L4"}) ||
		!maps.Equal(tools[1].(map[string]any), map[string]any{"name": "z", "level": "L0"}) {
		t.Errorf("%v", got)
	}
	if !maps.Equal(doc["tools"].([]any)[0].(map[string]any), map[string]any{"name": "x", "level": "L1"}) ||
		len(doc["tools"].([]any)) != 2 {
		t.Errorf("the document itself was changed: %v", doc)
	}
}

func TestARuleThatDoesNotExistCannotBeOff(t *testing.T) {
	s := &Scenario{Name: "a", Contrast: &Contrast{Rules: []string{"sleeper"}}}
	if _, err := rulesWithout([]*Scenario{s}); err != nil {
		t.Error(err)
	}
	s.Contrast.Rules[0] = "no-such-rule"
	if _, err := rulesWithout([]*Scenario{s}); err == nil {
		t.Error("no error")
	}
}
