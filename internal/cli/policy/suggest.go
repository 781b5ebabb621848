package policy

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/backtest"
	"lazaret/internal/cli/verb"
	"lazaret/internal/suggest"
	"lazaret/streams"
)

func init() { Verbs.Add("policy", suggestCommand) }

func suggestCommand(a *verb.App) *cobra.Command {
	var since time.Duration
	var project, agent, name string
	c := &cobra.Command{
		Use:   "suggest",
		Short: "Write a policy for review from agents' actions",
		Long: `Read actions and their verdicts from the ledger, and write a policy that lists each tool
with its classification, the number of calls and the verdicts that they would have got. It
is meant for actions that ran under a policy in learn mode (mode: learn), but also reads
actions under an enforced policy. It notes for which tools a person may lower the level.`,
		Example: `  lazaret policy suggest --since 7d > policy.yaml && lazaret policy check policy.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := streams.CheckID("name", name); err != nil {
				return err
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			return suggestPolicy(cmd.Context(), cmd, nc, since, project, agent, name)
		},
	}
	f := c.Flags()
	f.Var((*verb.SinceFlag)(&since), "since", "only the last `DURATION`, such as 7d")
	f.StringVar(&project, "project", "", "only this `PROJECT`")
	f.StringVar(&agent, "agent", "", "only this `AGENT`")
	f.StringVar(&name, "name", "suggested", "`NAME` of the policy")
	return c
}

func suggestPolicy(ctx context.Context, cmd *cobra.Command, nc *nats.Conn, since time.Duration, project, agent,
	name string) error {
	var span backtest.Span
	if since > 0 {
		span.Since = time.Now().Add(-since)
	}
	seen := suggest.New()
	seen.Agent = agent
	err := backtest.Ledger(ctx, nc, span, func(e *streams.Entry) error {
		if project != "" && e.Project != project || streams.IsSynthetic(e.Project) && e.Project != project {
			return nil
		}
		return seen.Add(e)
	})
	if err != nil {
		return err
	}
	if all, learned := seen.Actions(); learned == 0 && all > 0 {
		fmt.Fprintln(os.Stderr, "lazaret: none of these actions were seen in learn mode: held actions were not carried out, "+
			"so the actions that would have followed them are not known")
	}
	return seen.Write(cmd.OutOrStdout(), name)
}
