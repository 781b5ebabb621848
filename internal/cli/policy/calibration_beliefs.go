package policy

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/streams"
)

func init() { Verbs.Add("calibration", calibrationBeliefsCommand) }

// calibrationBeliefsCommand compares the confidence of beliefs with their later fate.
func calibrationBeliefsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	c := &cobra.Command{Use: "beliefs",
		Short: "List how the confidence of beliefs stood to what became of them, by class", Args: cobra.NoArgs,
		Long: `A class is what a claim is about, the class of evidence that it began with, and a memory's
category. Of its last 200 beliefs that a person or a probe confirmed or that were
contradicted: how many, mean confidence, the share that was confirmed, the gap between
them, the Brier score and the expected calibration error. It is for people: confidence
promotes nothing.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var ans ingest.ClassesAnswer
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskClasses, streams.PartitionOf(project),
					ingest.ClassesRequest{Project: project}, &ans)
			})
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, ans.Classes, []string{"CLASS", "N", "CONFIDENCE", "CONFIRMED", "GAP",
				"BRIER", "ECE"}, func(c ingest.ClassReport) []string {
				return []string{c.Class, fmt.Sprint(c.N), two(c.Confidence), two(c.Success), fmt.Sprintf("%+.2f", c.Gap),
					two(c.Brier), two(c.ECE)}
			})
		}}
	f.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	return c
}
