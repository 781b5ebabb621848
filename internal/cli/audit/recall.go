package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/order"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("audit", recallCommand) }

// recallCommand returns the command for privileged access to beliefs.
func recallCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	var r approval.Recall
	var asJSON bool
	c := &cobra.Command{Use: "recall [QUERY]",
		Short: "Sign a privileged recall, which shows every belief and is recorded in the ledger",
		Args:  cobra.MaximumNArgs(1),
		Long: `Show all matching beliefs of every user and session of the project, including hidden,
blocked, quarantined and secret ones and those kept only for audit. The result is for
people and must not enter a context. The signer's key needs the role auditor or approver,
and a reason is required. The ledger records signer, reason and result.`,
		Example: `  lazaret audit recall "vault code" --key auditor.key --reason "case 7"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Query = verb.Arg(args)
			a.Conn.Resolve()
			signer, err := keys.LoadSigner(s.Key)
			if err != nil {
				return err
			}
			o := approval.NewOrder(approval.Disclose, s.Project, time.Now(), order.Life)
			o.Recall, o.Reason = &r, s.Reason
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				rep, err := order.Send(ctx, nc, signer, o)
				if err != nil {
					return verb.RefusedExit(err)
				}
				e, err := disclosure(ctx, nc, rep.Entry)
				if err != nil {
					return err
				}
				if asJSON {
					return cli.JSON(cmd.OutOrStdout(), e)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "ledger entry %s, signed by %s: %s\n", position.Text(rep.Entry), e.Signed.Signer,
					text.InertLine(e.Text, 400))
				err = cli.Print(cmd.OutOrStdout(), cli.ListFlags{}, e.Admitted, []string{"BELIEF", "TRUTH", "RETRIEVAL",
					"SECURITY", "SENSITIVITY", "ORIGIN", "HOLDS IN", "CONTENT"}, func(i streams.RecallItem) []string {
					return []string{i.ID, i.Axes.Truth.String(), i.Axes.Retrieval.String(), i.Axes.Security.String(),
						i.Sensitivity.String(), string(i.Origin), i.Namespace.String(), i.Content}
				})
				for _, x := range e.Refused {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", verb.Quote(x.ID, 64), x.Text)
				}
				return err
			})
		}}
	s.Bind(c)
	f := c.Flags()
	f.StringSliceVar(&r.Beliefs, "belief", nil, "these `IDS`")
	f.StringVar(&r.Key, "memory-key", "", "only beliefs with this memory `KEY`")
	f.IntVar(&r.Limit, "limit", 0, "maximum number of beliefs, 1 to 100 (default 10)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// disclosure reads the entry of a privileged recall.
func disclosure(ctx context.Context, nc *nats.Conn, seq uint64) (*streams.DisclosureEntry, error) {
	js := wire.JetStream(nc)
	read, err := stage.ReadEntry(ctx, js, seq)
	if err != nil {
		return nil, fmt.Errorf("reading ledger entry %s: %w", position.Text(seq), err)
	}
	e := new(streams.DisclosureEntry)
	if err := streams.Unmarshal(read.Body, e); err != nil {
		return nil, fmt.Errorf("ledger entry %s: %w", position.Text(seq), err)
	}
	if e.Signed == nil {
		return nil, fmt.Errorf("ledger entry %s is not a privileged recall", position.Text(seq))
	}
	return e, nil
}
