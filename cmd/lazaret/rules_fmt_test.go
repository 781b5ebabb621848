package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/cli"
)

func TestRulesFmt(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		return name
	}
	bad := put("a.yaml", "rules:\n- id: x\n")
	put("b.yaml", "rules:\n  - id: x\n")
	put("c.txt", "rules:\n- id: x\n")
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := newRoot()
		c.SetArgs(append([]string{"rules", "fmt"}, args...))
		c.SetOut(&out)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}

	out, err := run(dir)
	if err != nil || !strings.Contains(out, "-- id: x\n+  - id: x\n") {
		t.Errorf("%s %v", out, err)
	}
	out, err = run("--check", dir)
	var exit *cli.Exit
	if !errors.As(err, &exit) || exit.Code != cli.ExitNegative || out != bad+"\n" {
		t.Errorf("%s %v", out, err)
	}
	if out, err = run("-w", dir); err != nil || out != bad+"\n" {
		t.Errorf("%s %v", out, err)
	}
	if b, _ := os.ReadFile(bad); string(b) != "rules:\n  - id: x\n" {
		t.Errorf("%s", b)
	}
	if info, _ := os.Stat(bad); info.Mode().Perm() != 0o640 {
		t.Error(info.Mode())
	}
	if out, err = run("--check", dir); err != nil || out != "" {
		t.Errorf("%s %v", out, err)
	}

	const broken = "rules:\n- id: x\n  when: a &&\n"
	name := put("broken.yaml", broken)
	out, err = run("-w", name)
	if err == nil || !strings.Contains(err.Error(), "broken.yaml:3:9") || out != "" {
		t.Errorf("%s %v", out, err)
	}
	if b, _ := os.ReadFile(name); string(b) != broken {
		t.Errorf("%s", b)
	}
	if _, err = run(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was formatted")
	}
}
