// Command ingest decides what every intake message is, and keeps what was read
// apart from what is believed.
package main

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/daemon"
	"lazaret/internal/ingest"
	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

func main() {
	var cfg ingest.Config
	daemon.Daemon{
		Name:  "ingest",
		Short: "Turn events into claims, beliefs and proposals",
		Flags: func(c *cobra.Command) {
			c.Flags().IntVar(&cfg.MaxEvent, "max-event", 0, "largest event in `BYTES` (default 1 MiB)")
		},
		Run: func(ctx context.Context, e *daemon.Env) error {
			trust, err := e.Trust()
			if err != nil {
				return err
			}
			cfg.Metrics = e.Metrics()
			cfg.Pinned = trust.Verifiers(keys.RoleOperator)
			sc, err := e.Stage(natsserver.RoleIngest)
			if err != nil {
				return err
			}
			svc, err := e.Connect(natsserver.RoleService)
			if err != nil {
				return err
			}
			return ingest.Run(ctx, sc, cfg, svc)
		},
	}.Main()
}
