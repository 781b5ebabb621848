package sentinel

import (
	"context"
	"log/slog"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Run runs a sentinel group until ctx ends.
func Run(ctx context.Context, cfg stage.Config, group string, pinned note.Verifiers) error {
	if err := streams.CheckID("sentinel group", group); err != nil {
		return err
	}
	cfg.Name = streams.SentinelStage(group)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return stage.RunLedger(ctx, cfg, New(group, pinned, cfg.Log), nil)
}
