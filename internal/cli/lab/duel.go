package lab

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/duel"
	"lazaret/pkg/text"
)

func init() { Verbs.Add("", duelCommand) }

func duelCommand(a *verb.App) *cobra.Command {
	var o duel.Options
	var json bool
	var breaks int
	c := &cobra.Command{
		Use:   "duel",
		Short: "Attack the rules with knowledge of their source, and count what passes",
		Long: `Rewrite known attacks, called seeds, in many ways. Each rewritten attack runs against
ingest, the shipped sentinels and the arbiter, in this process and without a server. The
simulated agent obeys everything that it reads. Each seed has a goal: a call that changes
or sends something. The seed is broken once this call is allowed. A rewriting that broke
one seed is tried on the others.

The command prints the share of broken seeds by number of tries. A second curve shows the
seeds whose user asks for the same kind of act with another object. The same flags give
the same result. Nobody approves a call, and levels are capped at L3, so that no policy
holds a call for its level alone. The command needs no running pipeline. It exits 0
whether or not a seed is broken. If it is interrupted, it prints the curve so far.`,
		Example: "  lazaret duel --seeds 50 --tries 500\n  lazaret duel --tries 10000 --breaks 20 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = func(broken, seeds, tries int) {
				if tries%1000 == 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d tries: %d of %d seeds broken\n", tries, broken, seeds)
				}
			}
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // a run allocates much memory and keeps little of it
			r, stopped := duel.Run(cmd.Context(), o)
			if r == nil {
				return stopped
			}
			if json {
				return errors.Join(stopped, cli.JSON(cmd.OutOrStdout(), r))
			}
			return errors.Join(stopped, printDuel(cmd.OutOrStdout(), r, breaks))
		},
	}
	f := c.Flags()
	f.IntVar(&o.Seeds, "seeds", 0, "play only the first `N` seeds of each kind")
	f.IntVar(&o.Tries, "tries", 500, "tries for each seed")
	f.Uint64Var(&o.Random, "random", 1, "`SEED` of the random numbers")
	f.IntVar(&o.Parallel, "parallel", 0, "number of seeds played at once; 0 means one for each processor")
	f.IntVar(&breaks, "breaks", 0, "print up to `N` breaks")
	f.BoolVar(&json, "json", false, "print JSON, with all breaks")
	return c
}

func printDuel(w io.Writer, r *duel.Report, breaks int) error {
	fmt.Fprintf(w, "%d seeds, and %d with a related task; up to %d tries for each, %d tries "+
		"played\n", r.Seeds, r.RelatedSeeds, r.Tries,
		r.Played)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TRIES\tSEEDS BROKEN\tSHARE\tRELATED SEEDS BROKEN\tSHARE")
	for i, p := range r.Curve {
		q := r.Related[i]
		fmt.Fprintf(tw, "%d\t%d\t%.1f%%\t%d\t%.1f%%\n", p.Tries, p.Broken, 100*p.Share, q.Broken, 100*q.Share)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, b := range r.Breaks[:min(breaks, len(r.Breaks))] {
		fmt.Fprintf(w, "%s, try %d: %+v\n  %s\n", b.Seed, b.Try, b.Recipe, text.InertLine(b.Text, 300))
	}
	return nil
}
