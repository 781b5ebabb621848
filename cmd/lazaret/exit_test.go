package main

import (
	"os"
	"path/filepath"
	"testing"

	"lazaret/internal/cli"
)

// The code is the same for each command that reads a file or a folder.
func TestAMissingFileExitsWith1AndAnInvalidOneWith2(t *testing.T) {
	dir := t.TempDir()
	invalid := filepath.Join(dir, "invalid.yaml")
	if err := os.WriteFile(invalid, []byte("mode: [unknown"), 0o600); err != nil {
		t.Fatal(err)
	}
	packs := filepath.Join(dir, "packs", "p")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(packs, "a.yaml"), []byte("rules: [unknown"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    []string
		invalid string
	}{
		{[]string{"rules", "check"}, filepath.Dir(packs)}, {[]string{"rules", "test"}, filepath.Dir(packs)},
		{[]string{"rules", "ls"}, filepath.Dir(packs)}, {[]string{"policy", "check"}, invalid},
		{[]string{"policy", "ls"}, invalid}, {[]string{"policy", "activate"}, invalid},
		{[]string{"notify", "check", "--config"}, invalid},
	} {
		if out, code := command(t, "", append(c.args, filepath.Join(dir, "missing"))...); code != cli.ExitFailed {
			t.Errorf("%v of a missing file: exit %d: %s", c.args, code, out)
		}
		if out, code := command(t, "", append(c.args, c.invalid)...); code != cli.ExitNegative {
			t.Errorf("%v of an invalid file: exit %d: %s", c.args, code, out)
		}
	}
}
