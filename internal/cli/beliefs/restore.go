package beliefs

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/order"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func init() { Verbs.Add("beliefs", pointCommand, pointsCommand, restoreCommand) }

func pointCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	c := &cobra.Command{Use: "point NAME", Short: "Sign a restore point of the current beliefs",
		Args: cobra.ExactArgs(1),
		Long: `Create a restore point. Points are also created automatically before a session starts,
before a compaction's summary and before external writes, if anything has changed since the
last one.`,
		Example: "  lazaret beliefs point migration --key alice.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			o := approval.NewOrder(approval.TakePoint, s.Project, time.Now(), order.Life)
			o.Point = args[0]
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	return c
}

func pointsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	c := &cobra.Command{Use: "points", Short: "List a project's restore points", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var ans ingest.PointsAnswer
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskPoints, streams.PartitionOf(project), ingest.PointsRequest{Project: project},
					&ans)
			})
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, ans.Points, []string{"POINT", "WHY", "TAKEN", "BY", "INTAKE"},
				func(p ingest.Point) []string {
					return []string{p.Name, p.Why, p.At.Format(time.DateTime), p.By, fmt.Sprint(position.Sequence(p.Intake))}
				})
		}}
	f.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	return c
}

// restoreCommand returns `beliefs restore`. Without --to, it clears one belief that was suspected or quarantined
// by mistake. With --to, it rolls all beliefs back to a restore point.
func restoreCommand(a *verb.App) *cobra.Command {
	one := attestCommand(a, approval.ClearBelief, "restore",
		"Sign that a suspicion or quarantine was unfounded (the belief is context only until confirmed), or "+
			"roll back to a restore point")
	single, to, dry := one.RunE, "", false
	one.Use = "restore {ID | --to POINT}"
	one.Long += `

With --to, all beliefs of the project return to their state at a restore point. Beliefs that
are newer than the point are hidden. A belief that changed gets its old state, if a person
may make this change of state. Beliefs that became suspicious after the point stay
suspicious. A superseded belief cannot change any more, so it is stated again as a new
belief. Nothing is removed: each change is a revision in the ledger, and the rollback can be
rolled back. --dry-run changes nothing.`
	one.Example += "\n  lazaret beliefs restore --to migration --dry-run"
	one.Args = func(_ *cobra.Command, args []string) error {
		if (to == "") == (len(args) == 0) || len(args) > 1 {
			return fmt.Errorf("name either one belief or --to POINT")
		}
		return nil
	}
	f := one.Flags()
	f.StringVar(&to, "to", "", "roll back to this restore `POINT`")
	f.BoolVar(&dry, "dry-run", false, "with --to: print the changes, and sign nothing")
	one.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return single(cmd, args)
		}
		project, _ := f.GetString("project")
		key, _ := f.GetString("key")
		reason, _ := f.GetString("reason")
		a.Conn.Timeout = max(a.Conn.Timeout, 10*time.Minute)
		if dry {
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return tryRollback(ctx, cmd, nc, project, to)
			})
		}
		return rollback(a, cmd, &verb.SignedOrder{Project: project, Key: key, Reason: reason}, to)
	}
	return one
}

func tryRollback(ctx context.Context, cmd *cobra.Command, nc *nats.Conn, project, point string) error {
	req := ingest.RollbackRequest{Project: project, Point: point}
	for {
		var ans ingest.RollbackAnswer
		if err := query.Ask(ctx, nc, ingest.AskRollback, streams.PartitionOf(project), req, &ans); err != nil {
			return err
		}
		for _, rv := range ans.Revisions {
			belief, what := rv.Belief, ""
			if rv.Anew != "" { // the signed order gives the new belief its id
				belief, what = rv.Anew, "  would be stated again as a new belief:"
			}
			for _, m := range rv.Moves {
				what += fmt.Sprintf("  %s %s → %s", m.Axis, m.From, m.To)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", belief, what)
		}
		if ans.Run.Last {
			printRollback(cmd, "would be", &ans.Run)
			return nil
		}
		req.Run = &ans.Run
	}
}

func printRollback(cmd *cobra.Command, are string, r *streams.Rollback) {
	fmt.Fprintf(cmd.OutOrStdout(),
		"rollback to %s, beliefs: %d %s in their earlier state, %d newer ones hidden, %d repeated as new beliefs, %d left "+
			"in a stricter state\n", r.Point, r.Back, are, r.Out, r.Anew, r.Left)
}

// rollback signs a rollback and waits until it is complete.
func rollback(a *verb.App, cmd *cobra.Command, s *verb.SignedOrder, point string) error {
	a.Conn.Resolve()
	signer, err := keys.LoadSigner(s.Key)
	if err != nil {
		return err
	}
	return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
		o := approval.NewOrder(approval.Restore, s.Project, time.Now(), order.Life)
		o.Point, o.Reason = point, s.Reason
		rep, err := order.Send(ctx, nc, signer, o)
		if err != nil {
			return verb.RefusedExit(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "RESTORE  %s, ledger entry %s\n", rep.Hold, position.Text(rep.Entry))
		for {
			var ans ingest.PointsAnswer
			if err := query.Ask(ctx, nc, ingest.AskPoints, streams.PartitionOf(s.Project),
				ingest.PointsRequest{Project: s.Project}, &ans); err != nil {
				return err
			}
			if r := ans.Rollback; r != nil && r.Last {
				printRollback(cmd, "are", r)
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the rollback continues, but the command stopped waiting for its end: %w", ctx.Err())
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}
