package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/streams"
)

func init() { Verbs.Add("rules", shadowCommand) }

func shadowCommand(a *verb.App) *cobra.Command {
	var against string
	var json bool
	var since verb.SinceFlag
	var limit, samples int
	c := &cobra.Command{
		Use:   "shadow DIR",
		Short: "Judge new entries by a second rule set without effect",
		Long: `Follow a running pipeline's ledger, judge each entry by the rules in DIR and by the active
rules, and print differences; Ctrl-C ends with a summary. Nothing is published or held. The
signals of both sets are empty at the start; --since builds them up from earlier entries.`,
		Example: "  lazaret rules shadow my-rules --since 1h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			after, err := rulesIn(args[0])
			if err != nil {
				return err
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			before, err := againstSet(a, cmd, nc, against)
			if err != nil {
				return err
			}
			watch := backtest.NewWatch(before, after, samples)
			out, began := cmd.OutOrStdout(), time.Now()
			errLimit, seen := errors.New("limit"), 0
			span := backtest.Span{Since: since.Start(), Follow: true, Started: func() {
				fmt.Fprintf(cmd.ErrOrStderr(), "watching: comparing %d rules of %s with %d others; Ctrl-C ends\n",
					len(after.Rules()), args[0], len(before.Rules()))
			}}
			err = backtest.Ledger(cmd.Context(), nc, span, func(e *streams.Entry) error {
				// Report only new activations. Each partition records an activation, so report that of partition 0.
				if e.Partition == 0 && e.Stage == streams.StageIngest && e.Type == streams.TypeActivation && e.Time.After(began) {
					var act streams.ActivationEntry
					if err := streams.Unmarshal(e.Body, &act); err != nil {
						return err
					}
					if act.Do == streams.DoActivateRules {
						fmt.Fprintln(cmd.ErrOrStderr(), "other rules were put in force; still comparing with those at the start")
					}
				}
				f, err := watch.Add(e)
				if err != nil || f == nil {
					return err
				}
				if json {
					b, err := streams.Marshal(f)
					if err != nil {
						return err
					}
					fmt.Fprintln(out, cli.EscapeJSON(strings.TrimSpace(string(b))))
				} else {
					printFlip(out, f)
				}
				if seen++; seen == limit {
					return errLimit
				}
				return nil
			})
			if err != nil && !errors.Is(err, errLimit) {
				return err
			}
			if json {
				b, err := streams.Marshal(watch.Report())
				if err != nil {
					return err
				}
				fmt.Fprintln(out, cli.EscapeJSON(string(b)))
				return nil
			}
			fmt.Fprintln(out)
			return printBacktest(out, watch.Report())
		},
	}
	f := c.Flags()
	f.StringVar(&against, "against", againstActive, "compare with the rules of `DIR`, or with the active or the shipped "+
		"rules")
	f.Var(&since, "since", "begin with the ledger of the last `DURATION`, such as 7d")
	f.IntVar(&limit, "limit", 0, "end after `N` differences")
	f.IntVar(&samples, "samples", 0, "number of listed entries per kind of difference in the summary")
	f.BoolVar(&json, "json", false, "print a line of JSON for each difference, and one for the summary")
	return c
}
