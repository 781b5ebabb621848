package probe

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"lazaret/internal/auditor"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// An auditor's reply names the folder of a snapshot. A false reply may name any folder of the user. The export must
// remove only a folder that is a snapshot beside the log.
func TestAnExportRemovesOnlySnapshotsBesideTheLog(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t)
	stop, err := query.Serve(srv.Connect(), "test", "", []int{0}, map[string]query.Handler{
		auditor.AskAudit: func(context.Context, int, []byte) (any, error) {
			return &auditor.Answer{LastSeq: 1, Checkpoint: "c", Dir: home}, nil
		}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s := &site{data: t.TempDir(), op: srv.Connect(),
		ledger: &ledger{of: map[string][]streams.Entry{"p": {{Seq: 1}}}}}
	if _, err := s.logTo(t.Context(), "p", beliefs.Internal); err == nil {
		t.Error("a folder that is no snapshot was exported")
	}
	if _, err := os.Stat(home); err != nil {
		t.Error(err)
	}
}
