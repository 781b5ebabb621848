package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpRefusesAGroupThatTheRulesDoNotHave(t *testing.T) {
	out, code := command(t, t.TempDir(), "up", "--listen", "127.0.0.1:0", "--groups", "core,nosuch")
	if code != 1 || !strings.Contains(out, `--groups names "nosuch", and the rules in force have the groups core only`) {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestActivateShowsTheDifferenceAndKeepsWhatThePolicyRequires(t *testing.T) {
	data := t.TempDir()
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0")
	defer up.interrupt()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string) {
		t.Helper()
		if out, code := command(t, data, "rules", "activate", dir); code != 2 || !strings.Contains(out, why) {
			t.Errorf("exit %d, want 2 and %q:\n%s", code, why, out)
		}
	}
	put("mine/pack.yaml", "name: mine\ntitle: Mine\n")
	put("mine/rules.yaml", "rules:\n  - id: mine-only\n    title: Mine\n    severity: low\n    on: [action]\n"+
		"    when: action.tool == 'x'\n    message: \"'x'\"\n    effect: hold\n    subject: action\n    on_error: hold\n")
	test := func(fires string) {
		put("mine/mine.test.yaml", "tests:\n  - name: x is held\n    given: [{action: {tool: x}}]\n    fires: {mine-only: "+
			fires+"}\n"+
			"  - name: y is not\n    given: [{action: {tool: y}}]\n    silent: [mine-only]\n")
	}
	test("1")

	put("groups.yaml", "groups:\n  core: [mine]\n")
	refused("rules would go out of force")
	put("groups.yaml", "groups:\n  ours: [mine]\n")
	refused("requires the groups core")
	put("groups.yaml", "extends: shipped\ngroups:\n  core: [mine]\n")
	test("2")
	refused("not activated; the set in force stays")
	if out := must(t, data, "rules", "ls"); strings.Contains(out, "mine-only") || !strings.Contains(out, "protected-key") {
		t.Errorf("in force after the refusals:\n%s", out)
	}

	test("1")
	if out := must(t, data, "rules", "activate", dir); !strings.Contains(out, "added: 1 (mine/mine-only)") ||
		strings.Contains(out, "out of force") {
		t.Errorf("activation says\n%s", out)
	}
	if out := must(t, data, "rules", "ls"); !strings.Contains(out, "mine-only") ||
		!strings.Contains(out, "protected-key") {
		t.Errorf("in force:\n%s", out)
	}
	put("groups.yaml", "groups:\n  core: [mine]\n")
	out := must(t, data, "rules", "activate", dir, "--yes")
	if !strings.Contains(out, "in force: sha256:") || !strings.Contains(out, "out of force: ") {
		t.Errorf("activation with --yes says\n%s", out)
	}
	put("groups.yaml", "groups:\n  ours: [mine]\n")
	if out, code := command(t, data, "rules", "activate", dir, "--yes"); code != 2 ||
		!strings.Contains(out, "requires the groups core") {
		t.Errorf("a set without a required group, with --yes: exit %d:\n%s", code, out)
	}
}
