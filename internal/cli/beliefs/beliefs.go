package beliefs

import (
	"context"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

func init() { Verbs.Add("", beliefsCommand) }

func beliefsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	ls := &cobra.Command{Use: "ls", Short: "List a project's beliefs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var items []ingest.Belief
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				items, err = ingest.AllBeliefs(ctx, nc, project)
				return err
			})
			if err != nil {
				return err
			}
			return printBeliefs(cmd.OutOrStdout(), f, items)
		}}
	f.Bind(ls.Flags())
	show := &cobra.Command{Use: "show ID", Short: "Show one belief", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ans ingest.BeliefsAnswer
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskBeliefs, streams.PartitionOf(project), ingest.BeliefsRequest{Project: project,
					ID: args[0]}, &ans)
			})
			if err != nil {
				return err
			}
			if len(ans.Beliefs) == 0 {
				return cli.Negative("project %s has no belief %s", project, verb.Quote(args[0], 64))
			}
			return cli.JSON(cmd.OutOrStdout(), ans.Beliefs[0])
		}}
	for _, c := range []*cobra.Command{ls, show} {
		c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	}
	return verb.Group("beliefs", "List, explain and correct beliefs", ls, show,
		lineageCommand(a, "lineage", "Show the origins of a belief and its consequences", true, true),
		lineageCommand(a, "impact", "Show the consequences of a belief", false, true),
		attestCommand(a, approval.Confirm, "confirm",
			"Sign that a belief is true, even if a rule found something in it; its truth becomes supported"),
		attestCommand(a, approval.RejectBelief, "reject",
			"Sign that a belief is rejected: it is quarantined now, and each time that it is written again"),
		attestCommand(a, approval.Supersede, "supersede", "Sign that another belief replaces a belief"))
}

func printBeliefs(w io.Writer, f cli.ListFlags, items []ingest.Belief) error {
	return cli.Print(w, f, items, []string{"BELIEF", "KIND", "TRUTH", "RETRIEVAL", "SECURITY", "ORIGIN", "CONF", "READ",
		"CONTENT"}, func(b ingest.Belief) []string {
		return []string{b.ID, b.Kind.String(), b.Axes.Truth.String(), b.Axes.Retrieval.String(), b.Axes.Security.String(),
			string(b.Origin),
			fmt.Sprintf("%.2f", b.Confidence), fmt.Sprint(b.Count), b.Content}
	})
}
