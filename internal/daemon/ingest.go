package daemon

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/ingest"
	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

// Ingest returns the daemon that decides on every intake message. It keeps observed content apart from
// beliefs.
func Ingest() Daemon {
	var cfg ingest.Config
	return Daemon{
		Name:  "ingest",
		Short: "Convert events to claims, beliefs and proposals",
		Flags: func(c *cobra.Command) {
			c.Flags().IntVar(&cfg.MaxEvent, "max-event", 0, "largest event in `BYTES` (default 1 MiB)")
		},
		Run: func(ctx context.Context, e *Env) error {
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
	}
}
