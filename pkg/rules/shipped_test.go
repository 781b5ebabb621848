package rules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/rules"

	shipped "lazaret/rules"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var ownPack = map[string]string{
	"mine/pack.yaml": "name: mine\ntitle: Mine\n",
	"mine/rules.yaml": "rules:\n  - id: mine-only\n    title: Mine\n    severity: low\n    on: [action]\n    when: " +
		"action.tool == 'x'\n    message: \"'x'\"\n    effect: hold\n    subject: action\n    on_error: hold\n",
}

func compileDir(dir string) (*rules.Set, error) {
	b, err := rules.PackDir(dir, shipped.FS())
	if err != nil {
		return nil, err
	}
	return rules.CompileBundle(b)
}

func TestAFolderThatExtendsTheShippedSetAddsToIt(t *testing.T) {
	base, err := rules.Pack(shipped.FS())
	if err != nil {
		t.Fatal(err)
	}
	src, err := rules.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	ships, err := rules.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, ownPack)
	write(t, dir, map[string]string{"groups.yaml": "extends: shipped\ngroups:\n  core: [mine]\n  ours: [mine]\n"})
	set, err := compileDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(set.Rules()), len(ships.Rules())+1; got != want {
		t.Errorf("%d rules, want %d", got, want)
	}
	if got, want := len(set.Group("core").Rules()), len(ships.Group("core").Rules())+1; got != want {
		t.Errorf("group core judges by %d rules, want %d", got, want)
	}
	if got := set.Groups(); !slices.Equal(got, []string{"core", "ours"}) {
		t.Errorf("groups %v", got)
	}

	write(t, dir, map[string]string{"groups.yaml": "groups:\n  core: [mine]\n"})
	if set, err = compileDir(dir); err != nil || len(set.Rules()) != 1 {
		t.Errorf("without extends: %d rules, %v", len(set.Rules()), err)
	}
}

func TestAnExtensionReplacesNothingThatIsShipped(t *testing.T) {
	for name, want := range map[string]string{
		"egress/more.yaml": "pack egress is shipped",
		"common.yaml":      "the shipped rules have a file of this name",
	} {
		dir := t.TempDir()
		write(t, dir, ownPack)
		write(t, dir, map[string]string{"groups.yaml": "extends: shipped\ngroups:\n  core: [mine]\n",
			name: "lists: {a: [b]}\n"})
		if _, err := compileDir(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"groups.yaml": "extends: shiped\ngroups: {}\n"})
	if _, err := compileDir(dir); err == nil || !strings.Contains(err.Error(), "only shipped can be extended") {
		t.Errorf("a set that extends something else: %v", err)
	}
}
