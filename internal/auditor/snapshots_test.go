package auditor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
