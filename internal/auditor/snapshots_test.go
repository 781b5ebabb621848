package auditor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// An erasure removes all snapshots of its log, with what an interrupted removal left, and no other folder.
func TestAnErasureRemovesTheSnapshotsOfItsLogOnly(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"audit-1", "audit-2" + removed, "other-3"} {
		if err := os.MkdirAll(filepath.Join(dir, "snapshots", name, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := &Auditor{cfg: Config{Dir: filepath.Join(dir, "audit")}}
	if err := a.dropSnapshots(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || !slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "other-3" }) {
		t.Errorf("left: %v", left)
	}
}

// A killed client leaves its snapshot. It is removed a day later.
func TestOldSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"audit-1": 25 * time.Hour, "audit-2": time.Hour, "other-3": 25 * time.Hour} {
		path := filepath.Join(dir, "snapshots", name)
		if err := os.MkdirAll(filepath.Join(path, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	a := &Auditor{cfg: Config{Dir: filepath.Join(dir, "audit")}}
	if err := a.dropOlder(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{"audit-2", "other-3"}; !slices.Equal(names, want) {
		t.Errorf("left %q, want %q", names, want)
	}
}
