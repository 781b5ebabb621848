package daemon

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/natsserver"
	"lazaret/internal/sentinel"
	"lazaret/pkg/keys"
)

// Sentinels returns the daemon that judges ledger entries by the rules of one sentinel group.
func Sentinels() Daemon {
	group := "core"
	return Daemon{
		Name:  "sentinels",
		Short: "Judge observations and proposals by the rules of one group",
		Flags: func(c *cobra.Command) {
			c.Flags().StringVar(&group, "group", group, "sentinel `GROUP`")
		},
		Run: func(ctx context.Context, e *Env) error {
			trust, err := e.Trust()
			if err != nil {
				return err
			}
			sc, err := e.Stage(natsserver.SentinelRole(group))
			if err != nil {
				return err
			}
			return sentinel.Run(ctx, sc, group, trust.Verifiers(keys.RoleOperator), e.Metrics())
		},
	}
}
