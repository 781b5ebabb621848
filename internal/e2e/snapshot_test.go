package e2e

import (
	"context"
	"errors"
	"os"
	"testing"

	"lazaret/internal/auditor"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
)

// An erasure removes every snapshot of the log, even if a command is reading it. The command must then take another
// snapshot.
func TestACommandTakesAnotherSnapshotIfAnErasureRemovedItsOwn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	nc := connect(t, data, "operator")
	for _, c := range []struct {
		name string
		// number of snapshots that an erasure removes, and of calls of the function that reads a snapshot
		removed, calls int
		fails          bool
	}{
		{"none is removed", 0, 1, false},
		{"the first is removed", 1, 2, false},
		{"all are removed", 3, 3, true},
	} {
		var dirs []string
		err := auditor.WithSnapshot(t.Context(), nc, datafolder.AuditDir(data), func(dir string) error {
			dirs = append(dirs, dir)
			if len(dirs) <= c.removed {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			return auditor.Gone(dir)
		})
		if (err != nil) != c.fails || len(dirs) != c.calls {
			t.Errorf("%s: %d calls, want %d: %v", c.name, len(dirs), c.calls, err)
		}
		for _, dir := range dirs {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: the snapshot stays: %v", c.name, err)
			}
		}
	}
	// Another error is returned at once.
	calls := 0
	err = auditor.WithSnapshot(t.Context(), nc, datafolder.AuditDir(data), func(string) error {
		calls++
		return context.Canceled
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
}
