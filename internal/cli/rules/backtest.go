package rules

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/position"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// rulesIn compiles the rule set in a folder, or the shipped one if dir is empty.
func rulesIn(dir string) (*rules.Set, error) {
	b, err := packRules(dir)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	set, err := rules.CompileBundle(b)
	if err != nil {
		return nil, &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
	}
	return set, nil
}

const (
	againstActive  = "active"
	againstShipped = "shipped"
)

func init() { Verbs.Add("rules", backtestCommand) }

func backtestCommand(a *verb.App) *cobra.Command {
	var o backtest.Options
	var against, export string
	var ledger, json bool
	var since verb.SinceFlag
	c := &cobra.Command{
		Use:   "backtest DIR [FILE|FOLDER…]",
		Short: "Compare a rule set with the active one on history (exit 2 when they differ)",
		Long: `Judge history by the rules in DIR and by other rules, and list the entries with different
judgments: newly held, no longer held, different alerts. History is a running pipeline's
ledger (--ledger, --since), or files: recorded sessions, which are played under the shipped
policy, or lines that --export wrote.

The command evaluates the rules that differ between the two sets, also by their lists,
macros or signals. It evaluates the other rules only in projects in which a verdict may have
changed. With --full it evaluates all rules. Signals are empty at the start of the history.
The sentinels' answers are compared, not the verdicts: the policy may hold proposals that no
rule holds.`,
		Example: "  lazaret rules backtest my-rules --since 7d\n  lazaret rules backtest my-rules --against old-rules " +
			"sessions.jsonl",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := args[1:]
			live := ledger || since != 0
			if live == (len(files) > 0) {
				return fmt.Errorf("name a history: --ledger, --since DURATION, or files")
			}
			if against == "" {
				if against = againstActive; !live {
					against = againstShipped
				}
			}
			after, err := rulesIn(args[0])
			if err != nil {
				return err
			}
			var nc *nats.Conn
			if live || against == againstActive {
				if nc, err = a.Conn.Connect("operator"); err != nil {
					return err
				}
				defer nc.Close()
			}
			before, err := againstSet(a, cmd, nc, against)
			if err != nil {
				return err
			}
			h := backtest.NewHistory()
			add := h.Add
			if export != "" {
				f, err := os.OpenFile(export, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				defer f.Close()
				w := bufio.NewWriter(f)
				defer w.Flush()
				add = func(e *streams.Entry) error {
					if err := backtest.Export(w, e); err != nil {
						return err
					}
					return h.Add(e)
				}
			}
			if live {
				err = backtest.Ledger(cmd.Context(), nc, backtest.Span{Since: since.Start()}, add)
			} else {
				err = backtest.Files(files, add)
			}
			if err != nil {
				return err
			}
			rep, err := backtest.Run(cmd.Context(), before, after, h, o)
			if err != nil {
				return err
			}
			if json {
				err = cli.JSON(cmd.OutOrStdout(), rep)
			} else {
				err = printBacktest(cmd.OutOrStdout(), rep)
			}
			if err == nil && len(rep.Flips) > 0 {
				err = &cli.Exit{Code: cli.ExitNegative}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&against, "against", "",
		"compare with the rules of `DIR`, or with the active or the shipped rules (default active; with files shipped)")
	f.BoolVar(&ledger, "ledger", false, "take the whole ledger of a running pipeline")
	f.Var(&since, "since", "take the ledger of the last `DURATION`, such as 7d")
	f.BoolVar(&o.Full, "full", false, "judge every rule, not only those that changed")
	f.IntVar(&o.Samples, "samples", 5, "number of listed entries per kind of difference")
	f.StringVar(&export, "export", "", "write the history to `FILE`, one line per entry")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// againstSet returns the rule set to compare with.
func againstSet(a *verb.App, cmd *cobra.Command, nc *nats.Conn, name string) (*rules.Set, error) {
	switch name {
	case againstActive:
		ctx, cancel := a.Timeout(cmd.Context())
		defer cancel()
		return backtest.Active(ctx, nc)
	case againstShipped:
		return rulesIn("")
	}
	return rulesIn(name)
}

func printBacktest(w io.Writer, r *backtest.Report) error {
	fmt.Fprintf(w, "%d events", r.Events)
	if r.Seconds > 0 {
		fmt.Fprintf(w, " in %.2f s, %.0f a second", r.Seconds, r.PerSec)
	}
	fmt.Fprintf(w, "\nrule set before %.19s, after %.19s: ", r.Before, r.After)
	if len(r.Changed) == 0 {
		fmt.Fprintln(w, "no rule differs")
	} else {
		fmt.Fprintf(w, "%d rules differ\n", len(r.Changed))
	}
	if len(r.Flips) == 0 {
		fmt.Fprintln(w, "no entry is judged differently")
	}
	for _, c := range []backtest.Change{backtest.NewlyHeld, backtest.Tightened, backtest.Loosened, backtest.NoLongerHeld,
		backtest.NewAlert, backtest.AlertGone, backtest.OtherAlert} {
		if n := r.Flips[c]; n > 0 {
			fmt.Fprintf(w, "%-16s %8d\n", strings.ReplaceAll(string(c), "_", " "), n)
		}
	}
	if len(r.Rules) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "\nRULE\tSTATUS\tALERTS BEFORE\tALERTS AFTER\tAFTER PER DAY\tNEWLY HELD\tNO LONGER HELD\t"+
			"EVALUATIONS\tNS PER EVALUATION")
		for _, x := range r.Rules {
			fmt.Fprintln(tw, strings.Join(cli.Cells([]string{x.Rule, x.Status, fmt.Sprint(x.Before), fmt.Sprint(x.After),
				fmt.Sprintf("%.1f", x.PerDay),
				fmt.Sprint(x.NewlyHeld), fmt.Sprint(x.NoLongerHeld), fmt.Sprint(x.Evaluated), fmt.Sprint(x.NS)}), "\t"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	samples := slices.Clone(r.Samples)
	slices.SortStableFunc(samples, func(a, b backtest.Flip) int { return cmp.Compare(a.Change, b.Change) })
	for i := range samples {
		if i == 0 {
			fmt.Fprintln(w)
		}
		printFlip(w, &samples[i])
	}
	return nil
}

// printFlip prints one entry with a changed judgment. Its untrusted text is already inert.
func printFlip(w io.Writer, f *backtest.Flip) {
	what := strings.ReplaceAll(string(f.Change), "_", " ")
	if f.Before != f.After {
		what += fmt.Sprintf(" (%s, was %s)", f.After, f.Before)
	}
	fmt.Fprintf(w, "%s  %s %s/%s %s %s: %s", f.Time.Format(time.DateTime), f.Type, f.Project, f.Agent, f.Event,
		"#"+position.Text(f.Position), what)
	for _, id := range f.New {
		fmt.Fprintf(w, " +%s", id)
	}
	for _, id := range f.Gone {
		fmt.Fprintf(w, " -%s", id)
	}
	fmt.Fprintf(w, "\n    %s\n    %q\n", f.Message, f.Content)
}
