package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/query"
)

func init() {
	Verbs.Add("", calibrationCommand)
	Verbs.Add("calibration", calibrationShowCommand)
}

// calibrationCommand returns the command that compares agents' stated confidence with the outcomes of
// their actions.
func calibrationCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List the calibration classes of each agent",
		Long: `A class has the actions of one agent whose level comes from one policy entry. For each
class, the list has figures of its last 200 outcomes: their number, the mean confidence that
the agent stated, the success rate, the gap between these two (positive: over-confident),
the Brier score and the expected calibration error. Actions above L1 of an over-confident
class are held.`,
		Example: "  lazaret calibration ls --where over_confident",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := askCalibration(a, cmd.Context(), project)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"PROJECT", "AGENT", "CLASS", "N", "CONFIDENCE",
				"SUCCESS", "GAP", "BRIER", "ECE", "OVER-CONFIDENT"}, func(c arbiter.Calibration) []string {
				over := "no"
				if c.Over {
					over = "yes"
				}
				return []string{c.Project, c.Agent, c.Class, fmt.Sprint(c.N), two(c.Confidence), two(c.Success),
					fmt.Sprintf("%+.2f", c.Gap), two(c.Brier), two(c.ECE), over}
			})
		},
	}
	f.Bind(ls.Flags())
	ls.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
	return verb.Group("calibration", "Calibration: agents' stated confidence compared with outcomes", ls)
}

func two(x float64) string { return fmt.Sprintf("%.2f", x) }

func askCalibration(a *verb.App, ctx context.Context, project string) (items []arbiter.Calibration, err error) {
	err = a.Operator(ctx, func(ctx context.Context, nc *nats.Conn) error {
		for _, p := range query.Partitions(project) {
			var page []arbiter.Calibration
			if err := query.Ask(ctx, nc, arbiter.AskCalibration, p, arbiter.CalibrationRequest{Project: project},
				&page); err != nil {
				return err
			}
			items = append(items, page...)
		}
		return nil
	})
	return items, err
}

func calibrationShowCommand(a *verb.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show PROJECT AGENT CLASS",
		Short: "Show a class with the bins of its reliability diagram (exit 2 when it is over-confident)",
		Args:  cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			items, err := askCalibration(a, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, c := range items {
				if c.Agent != args[1] || c.Class != args[2] {
					continue
				}
				w := cmd.OutOrStdout()
				if asJSON {
					if err := cli.JSON(w, c); err != nil {
						return err
					}
				} else {
					fmt.Fprintf(w, "%s/%s, policy entry %s: %d outcomes, the last %d judged at %s\n", c.Project, c.Agent, c.Class,
						c.Total, c.N, c.Time.Format("2006-01-02 15:04:05"))
					fmt.Fprintf(w, "  mean confidence %s, success rate %s, gap %+.2f, Brier %s, ECE %s\n\n", two(c.Confidence),
						two(c.Success), c.Gap,
						two(c.Brier), two(c.ECE))
					for _, b := range c.Bins {
						fmt.Fprintf(w, "  from %s  %4d  confidence %s  success %s  %s\n", two(b.Low), b.N, two(b.Confidence),
							two(b.Success),
							strings.Repeat("#", int(40*b.Success+0.5)))
					}
				}
				if c.Over {
					return &cli.Exit{Code: cli.ExitNegative, Text: "the class is over-confident: its actions above L1 are held"}
				}
				return nil
			}
			return cli.Negative("nothing was computed for %s/%s under %s: a class needs 20 outcomes of actions with a "+
				"stated confidence", args[0], args[1], args[2])
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
