package audit

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
)

func init() {
	Verbs.Add("", auditCommand)
	Verbs.Add("audit", headCommand)
}

func auditCommand(a *verb.App) *cobra.Command {
	return verb.Group("audit", "The tamper-evident log")
}

func headCommand(a *verb.App) *cobra.Command {
	var json bool
	c := &cobra.Command{Use: "head", Short: "Show the log's head and its last checkpoint", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var ans *auditor.Answer
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				ans, err = auditor.Ask(ctx, nc, auditor.Request{Do: "head"})
				return err
			})
			if err != nil {
				return err
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), ans)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "leaves %d, entries %d, gaps %d, last ledger sequence %d\nroot   %s\n\n", ans.Size,
				ans.Entries, ans.Gaps, ans.LastSeq, ans.Root)
			_, err = fmt.Fprint(cmd.OutOrStdout(), ans.Checkpoint)
			return err
		}}
	c.Long = `Show the log's head and its last checkpoint. Only the checkpoint is written to standard
output: keep it, to verify later that the log extends it.`
	c.Example = "  lazaret audit head > checkpoint-of-monday\n  lazaret audit verify --against checkpoint-of-monday"
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}
