package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/cli"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/rules/lint"
	"lazaret/pkg/signals"
)

func TestRulesCheckSaysWhatItFoundByItsExitCode(t *testing.T) {
	if out, code := command(t, "", "rules", "check"); code != cli.ExitOK ||
		!strings.Contains(out, "rules load, groups core, sha256:") {
		t.Errorf("the shipped rules: exit %d\n%s", code, out)
	}
	dir := filepath.Join(t.TempDir(), "packs")
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	if _, code := command(t, "", "rules", "check", dir); code != cli.ExitFailed {
		t.Errorf("no folder: exit %d", code)
	}
	put("groups.yaml", "groups:\n  core: [p]\n")
	put("p/pack.yaml", "name: p\ntitle: P\nlists:\n  idle: [a]\n")
	if _, code := command(t, "", "rules", "check", dir, "--format", "xml"); code != cli.ExitFailed {
		t.Errorf("unknown format: exit %d", code)
	}
	out, code := command(t, "", "rules", "check", dir)
	if code != cli.ExitOK || !strings.Contains(out,
		"p/pack.yaml:4:9: warning: nothing mentions lists.idle [unused]\n    4 |   idle: [a]\n      |         ^\n") ||
		!strings.Contains(out, "0 errors, 1 warning, 0 notes\n") {
		t.Errorf("a warning: exit %d\n%s", code, out)
	}
	if _, code := command(t, "", "rules", "check", dir, "--strict"); code != cli.ExitNegative {
		t.Errorf("a warning, strictly: exit %d", code)
	}

	put("p/pack.yaml", "name: p\ntitle: P\nlits: {}\n")
	t.Chdir(filepath.Dir(dir))
	out, code = command(t, "", "rules", "check", "./packs/")
	if code != cli.ExitNegative ||
		!strings.HasPrefix(out, "packs/p/pack.yaml:3:1: error: unknown field \"lits\" (did you mean lists?) [compile]\n") ||
		strings.Contains(out, "load") {
		t.Errorf("an error: exit %d\n%s", code, out)
	}
	out, code = command(t, "", "rules", "check", "packs", "--format", "json")
	var found []lint.Finding
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != cli.ExitNegative || len(found) != 1 ||
		found[0].Line != 3 {
		t.Errorf("json: exit %d, %v\n%s", code, err, out)
	}
	out, code = command(t, "", "rules", "check", "packs", "--format", "sarif")
	if !json.Valid([]byte(out)) || code != cli.ExitNegative || !strings.Contains(out, `"uri": "packs/p/pack.yaml"`) {
		t.Errorf("sarif: exit %d\n%s", code, out)
	}
}

func TestRulesSchemaPrintsSchemas(t *testing.T) {
	out, code := command(t, "", "rules", "schema")
	if code != cli.ExitOK || out != "common\nexceptions\ngroups\npack\nrules\ntest\n" {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, name := range append(strings.Fields(out), "p/x.test.yaml") {
		if out, code := command(t, "", "rules", "schema", name); code != cli.ExitOK || !json.Valid([]byte(out)) {
			t.Errorf("%s: exit %d\n%s", name, code, out)
		}
	}
	if _, code := command(t, "", "rules", "schema", "nothing"); code != cli.ExitFailed {
		t.Errorf("exit %d", code)
	}
}

func TestRulesFieldsListsFieldsSignalsAndFunctions(t *testing.T) {
	out, code := command(t, "", "rules", "fields", "--json")
	var items []struct{ Kind, Name, Type, Key, Window, Bound, Cost string }
	if err := json.Unmarshal([]byte(out), &items); err != nil || code != cli.ExitOK {
		t.Fatalf("exit %d, %v", code, err)
	}
	count := make(map[string]int)
	for _, x := range items {
		count[x.Kind]++
		if x.Name == "signal.echo" && (x.Key == "" || x.Window == "" || x.Bound == "" || x.Cost == "" || x.Type == "") {
			t.Errorf("%+v", x)
		}
	}
	if count["signal"] != len(signals.Signals()) || count["function"] != len(compiled.Functions()) || count["field"] < 50 {
		t.Errorf("%v", count)
	}
	if out, _ := command(t, "", "rules", "fields", "--where", `name == "action.level"`); !strings.Contains(out,
		"action.level") || strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
}
