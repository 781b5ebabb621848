package auditor_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lazaret/internal/auditor"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
)

// The caller removes the folder that the reply names. So AskSnapshot must refuse a folder that is not a snapshot of
// this log in the folder snapshots beside the log.
func TestASnapshotIsTakenOnlyFromBesideTheLog(t *testing.T) {
	data, home := t.TempDir(), t.TempDir()
	folder := func(path ...string) string {
		dir := filepath.Join(path...)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	own := folder(data, "snapshots", "audit-2")
	sibling := folder(data, "snapshots", "copy-1")
	foreign := folder(home, "snapshots", "audit-1")
	kept := folder(data, "snapshots", "notes")
	s := natstest.Start(t)
	var said []string
	stop, err := query.Serve(s.Connect(), "test", "", []int{0}, map[string]query.Handler{
		auditor.AskAudit: func(context.Context, int, []byte) (any, error) {
			ans := &auditor.Answer{Dir: said[0]}
			if len(said) > 1 {
				said = said[1:]
			}
			return ans, nil
		}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nc := s.Connect()
	refused := []string{home, foreign, data, filepath.Join(data, "snapshots"), data + "/snapshots/..", kept}
	for _, dir := range refused {
		said = []string{dir}
		if ans, err := auditor.AskSnapshot(t.Context(), nc, filepath.Join(data, "audit")); err == nil {
			t.Errorf("%s is accepted as %s", dir, ans.Dir)
		}
	}
	said = slices.Concat(refused, []string{sibling, own})
	ans, err := auditor.AskSnapshot(t.Context(), nc, filepath.Join(data, "audit"))
	if err != nil || ans.Dir != own {
		t.Fatalf("%+v: %v", ans, err)
	}
	for _, dir := range []string{own, foreign, kept} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(sibling); !os.IsNotExist(err) {
		t.Errorf("the snapshot of another auditor in the folder stays: %v", err)
	}
}
