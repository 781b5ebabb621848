package bench

import (
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
)

func init() {
	Verbs.Add("", benchCommand)
	Verbs.Add("bench", rulesCommand, backtestCommand)
}

func benchCommand(a *verb.App) *cobra.Command {
	return verb.Group("bench", "Measure this program on this machine")
}

// printBench prints a report. It returns a negative exit if a budget is missed.
func printBench(cmd *cobra.Command, json bool, rep any, lines []bench.Line) error {
	if json {
		if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
			return err
		}
	} else {
		bench.Table(cmd.OutOrStdout(), lines)
	}
	if bench.Missed(lines) {
		return &cli.Exit{Code: cli.ExitNegative}
	}
	return nil
}

func rulesCommand(a *verb.App) *cobra.Command {
	var o bench.Options
	var json bool
	c := &cobra.Command{
		Use:   "rules",
		Short: "Measure the rule engine (exit 2 when a budget is missed)",
		Long: `Measure the cost of judging an event, with generated rules and events of 1 KiB. The
events are already decoded, so no figure includes decoding. Variants run alternately
for several rounds, and figures are medians, to reduce the noise of the machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := bench.Rules(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rules, "rules", 10_000, "rules of the large set")
	f.IntVar(&o.Events, "events", 3000, "different events")
	f.IntVar(&o.Rounds, "rounds", 7, "number of rounds; results are medians")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

func backtestCommand(a *verb.App) *cobra.Command {
	var o bench.Options
	var json bool
	c := &cobra.Command{
		Use:   "backtest",
		Short: "Measure back-tests of rules (exit 2 when a budget is missed)",
		Long: `Measure how many events per second a back-test judges, on all processors. The history
has events of 1 KiB and is already decoded in memory. The result is the median of
several rounds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := bench.Backtest(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Events, "events", 20_000, "events of the history")
	f.IntVar(&o.Rounds, "rounds", 5, "number of rounds; results are medians")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}
