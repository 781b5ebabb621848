package daemon

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

// Arbiter returns the daemon that decides on proposals: actions, memory writes and recalls.
func Arbiter() Daemon {
	var front arbiter.FrontConfig
	return Daemon{
		Name:  "arbiter",
		Short: "Decide on proposals once every required sentinel has judged the agent's observations",
		Flags: func(c *cobra.Command) {
			c.Flags().IntVar(&front.MaxSize, "max-event", 0,
				"largest event in `BYTES` (default 1 MiB). Set the same value for ingest")
			c.Flags().DurationVar(&front.Timeout, "answer-timeout", arbiter.DefaultAnswerTimeout,
				"how long a request waits for its verdict, at most 1m50s")
		},
		Run: func(ctx context.Context, e *Env) error {
			trust, err := e.Trust()
			if err != nil {
				return err
			}
			sc, err := e.Stage(natsserver.RoleArbiter)
			if err != nil {
				return err
			}
			if front.Intake, err = e.Connect(natsserver.RoleFront); err != nil {
				return err
			}
			if front.Service, err = e.Connect(natsserver.RoleService); err != nil {
				return err
			}
			return arbiter.Run(ctx, sc, trust.Verifiers(keys.RoleOperator), front, e.Metrics())
		},
	}
}
