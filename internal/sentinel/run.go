package sentinel

import (
	"context"
	"log/slog"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// Run runs a sentinel group until ctx ends. m may be nil.
func Run(ctx context.Context, cfg stage.Config, group string, pinned note.Verifiers, m *metrics.Process) error {
	if err := streams.CheckID("sentinel group", group); err != nil {
		return err
	}
	cfg.Name = streams.SentinelStage(group)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := New(group, pinned, cfg.Log)
	f.Metrics = m.Sentinel(group)
	return stage.RunLedger(ctx, cfg, f, nil)
}
