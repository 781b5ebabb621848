package memorytool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lazaret/client"
	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// meanwhile is a judge that allows everything, and changes files before it answers, like a concurrent
// call.
type meanwhile struct{ change func() error }

func (m *meanwhile) Remember(context.Context, beliefs.Origin, *streams.Memory) (*client.Reply, error) {
	return &client.Reply{Verdict: streams.Allow, Entry: new(streams.VerdictEntry)}, m.change()
}

func (m *meanwhile) Gate(context.Context, *streams.Recall) (*client.Reply, error) {
	return nil, context.Canceled
}

func TestAFileThatChangedAfterTheProposalIsNeitherDeletedNorRenamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "notes.md")
	put := func(text string) func() error {
		return func() error {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return err
			}
			return os.WriteFile(file, []byte(text), 0o600)
		}
	}
	var lock sync.Mutex
	for _, in := range []*Input{{Command: "delete", Path: "/memories/a/notes.md"},
		{Command: "delete", Path: "/memories/a"},
		{Command: "rename", OldPath: "/memories/a/notes.md", NewPath: "/memories/b"},
		{Command: "rename", OldPath: "/memories/a", NewPath: "/memories/b"}} {
		for _, changed := range []bool{true, false} {
			if err := put("old")(); err != nil {
				t.Fatal(err)
			}
			j := &meanwhile{put("old")}
			if changed {
				j.change = put("new, by another call")
			}
			tool := &Tool{Judge: j, Dir: dir, Held: memgate.Held(t.TempDir()), Head: streams.Head{Session: "s"}, Lock: &lock}
			res, err := tool.Call(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			_, gone := os.Stat(file)
			if res.IsError != changed || strings.Contains(res.Content, "changed meanwhile") != changed ||
				(gone == nil) != changed {
				t.Errorf("%s of %s%s, changed %t: %+v, there: %v", in.Command, in.Path, in.OldPath, changed, res, gone)
			}
			if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// allowing is a judge that allows everything and notes the ids of the proposals.
type allowing struct {
	meanwhile
	ids map[string]bool
}

func (a *allowing) Remember(ctx context.Context, o beliefs.Origin, m *streams.Memory) (*client.Reply, error) {
	if m.ID == "" {
		m.ID = client.NewID()
	}
	a.ids[m.ID] = true
	return a.meanwhile.Remember(ctx, o, m)
}

func TestEachChangeIsAProposalAlsoIfItWasMadeBefore(t *testing.T) {
	var lock sync.Mutex
	j := &allowing{meanwhile{func() error { return nil }}, map[string]bool{}}
	tool := &Tool{Judge: j, Dir: t.TempDir(), Held: memgate.Held(t.TempDir()),
		Head: streams.Head{Session: "s"}, Lock: &lock}
	in := []*Input{{Command: "create", Path: "/memories/a", Text: "tea"}}
	for range 2 {
		in = append(in, &Input{Command: "str_replace", Path: "/memories/a", Old: "tea", New: "coffee"},
			&Input{Command: "str_replace", Path: "/memories/a", Old: "coffee", New: "tea"})
	}
	for _, in := range in {
		if res, err := tool.Call(t.Context(), in); err != nil || res.IsError {
			t.Fatalf("%+v: %+v, %v", in, res, err)
		}
	}
	if len(j.ids) != len(in) {
		t.Errorf("%d changes were %d proposals", len(in), len(j.ids))
	}
}

// A rename makes the folders of its destination. They count as other folders do, and no path becomes longer than one
// that a call may name.
func TestRenamesKeepTheLimitsOfFolders(t *testing.T) {
	dir := t.TempDir()
	tool := &Tool{Judge: &allowing{meanwhile{func() error { return nil }}, map[string]bool{}}, Dir: dir,
		Held: memgate.Held(t.TempDir()), Lock: new(sync.Mutex)}
	call := func(in *Input) *Result {
		t.Helper()
		res, err := tool.Call(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for i := range maxEntries - 2 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("empty", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if res := call(&Input{Command: "create", Path: "/memories/a", Text: "x"}); res.IsError {
		t.Fatal(res.Content)
	}
	for _, in := range []*Input{{Command: "rename", OldPath: "/memories/a", NewPath: "/memories/b/c/a"},
		{Command: "create", Path: "/memories/b/a", Text: "x"}} {
		if res := call(in); !res.IsError || !strings.Contains(res.Content, "at most 512") {
			t.Errorf("%s to a folder beyond the limit: %+v", in.Command, res)
		}
	}
	for _, to := range []string{"/memories/b", "/memories/c/b"} {
		if res := call(&Input{Command: "rename", OldPath: "/memories/a", NewPath: to}); res.IsError {
			t.Errorf("a rename within the limit: %+v", res)
		}
		if res := call(&Input{Command: "rename", OldPath: to, NewPath: "/memories/a"}); res.IsError {
			t.Errorf("a rename within the limit: %+v", res)
		}
	}
	for _, name := range []string{"1/2/3/4/5", "empty1/x/y/z"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if res := call(&Input{Command: "rename", OldPath: "/memories/1", NewPath: "/memories/empty1/x/y/z/1"}); !res.IsError ||
		!strings.Contains(res.Content, "more than 8 parts") {
		t.Errorf("a rename to a longer path: %+v", res)
	}
	if res := call(&Input{Command: "rename", OldPath: "/memories/1/2", NewPath: "/memories/empty1/x/2"}); res.IsError {
		t.Errorf("a rename to a path of the same length: %+v", res)
	}
}
