package rules_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	shipped "lazaret/rules"

	"lazaret/pkg/rules"
	"lazaret/pkg/rules/lint"
	"lazaret/pkg/rules/ruletest"
)

func source(t *testing.T, fsys fstest.MapFS) *rules.Source {
	t.Helper()
	var b []byte
	var err error
	if fsys == nil {
		b, err = rules.Pack(shipped.FS())
	} else {
		b, err = rules.Pack(fsys)
	}
	if err != nil {
		t.Fatal(err)
	}
	src, err := rules.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestTheShippedPacksPassTheirTests(t *testing.T) {
	rep, err := ruletest.Run(context.Background(), source(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Failed > 0 {
		t.Error(rep)
	}
	set, err := rules.Compile(source(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range shipped.Groups() {
		if set.Group(g) == nil {
			t.Errorf("there is no group %s", g)
		}
	}
}

// The lints must find nothing in the shipped packs but notes and rules that are over budget. Rules that search every
// view of a content cost more than others.
func TestTheShippedPacksAreLinted(t *testing.T) {
	found, err := lint.Run(source(t, nil), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Rule != "over-budget" && f.Level != lint.LevelNote {
			t.Errorf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Rule, f.Message)
		}
	}
}

// Every rule is needed: if its mode is off, a test fails.
func TestEveryShippedRuleHasATestThatFailsWithoutIt(t *testing.T) {
	set, err := rules.Compile(source(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range set.Rules() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		fsys := copyFS(t)
		text := string(fsys[r.File].Data)
		off := strings.Replace(text, "  - id: "+r.ID+"\n", "  - id: "+r.ID+"\n    mode: \"off\"\n", 1)
		if r.Mode != "enforce" { // it has a mode of its own
			at := strings.Index(text, "  - id: "+r.ID+"\n")
			off = text[:at] + strings.Replace(text[at:], "    mode: "+r.Mode+"\n", "    mode: \"off\"\n", 1)
		}
		if off == text {
			t.Fatalf("rule %s is not found in %s", r.ID, r.File)
		}
		fsys[r.File] = &fstest.MapFile{Data: []byte(off)}
		rep, err := ruletest.Run(context.Background(), source(t, fsys))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Failed == 0 {
			t.Errorf("without rule %s all tests pass", r.ID)
		}
	}
}

func copyFS(t *testing.T) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := fs.WalkDir(shipped.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(shipped.FS(), name)
		out[name] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
