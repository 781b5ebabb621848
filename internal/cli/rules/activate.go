package rules

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/policy"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

func init() { Verbs.Add("rules", activateCommand) }

func activateCommand(a *verb.App) *cobra.Command {
	var key string
	var watch, yes, untested bool
	c := &cobra.Command{
		Use:   "activate [DIR]",
		Short: "Sign and activate a rule set",
		Long: `Check the rules in a folder (default the shipped ones), run their tests, compare them
with the active set, and sign and publish the set.

A set replaces the active one completely. To add rules to the shipped ones, write
"extends: shipped" into the folder's groups.yaml. If active rules would be removed, the
command lists them and asks for confirmation; without a terminal it needs --yes. A set
that lacks a group required by the active policy is refused.

Exit codes: 0 in force in all partitions; 1 could not run; 2 not activated, and nothing has
changed; 3 in force in some partitions, or the result is not known: the output names the partitions and what to do.`,
		Example: "  lazaret rules activate my-rules\n  lazaret rules activate my-rules --watch",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch && len(args) == 0 {
				return fmt.Errorf("--watch needs a folder: lazaret rules activate DIR --watch")
			}
			o, err := a.OpenOperator(key, watch)
			if err != nil {
				return err
			}
			defer o.Nc.Close()
			b, _, err := loadRules(args)
			if err != nil && !watch {
				return cli.Invalid(err)
			}
			if err == nil {
				if err := compare(o, cmd, b, yes); err != nil {
					return err
				}
			}
			if watch {
				return watchRules(cmd.Context(), cmd.OutOrStdout(), args[0], o)
			}
			dir := "rules"
			if len(args) == 1 {
				dir = args[0]
			}
			if !untested {
				tests, ok := vet(cmd.Context(), cmd.OutOrStdout(), dir, b)
				if !ok {
					return &cli.Exit{Code: cli.ExitNegative, Text: "not activated; the set in force stays"}
				}
				fmt.Fprintln(cmd.ErrOrStderr(), tests)
			}
			return o.PutInForce(cmd, streams.DoActivateRules, b)
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "operator's key `FILE` (default the data folder's)")
	f.BoolVar(&watch, "watch", false,
		"watch the folder: after every change check, test and activate it, until interrupted")
	f.BoolVar(&yes, "yes", false, "do not ask before active rules are removed")
	f.BoolVar(&untested, "skip-tests", false, "do not run the tests of the rules")
	return c
}

// compare prints the differences of a rule set from the current one. It returns an error if the set lacks a required
// group. If the set removes rules, compare asks for confirmation, unless yes is set. If the current set cannot be
// read, compare returns an error, unless yes is set.
func compare(o *verb.Operator, cmd *cobra.Command, bundle []byte, yes bool) error {
	after, err := rules.CompileBundle(bundle)
	if err != nil {
		return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
	defer cancel()
	if missing, err := missingGroups(ctx, o.Nc, after); err != nil && !yes {
		return err
	} else if len(missing) > 0 {
		return cli.Negative("not activated: the policy in force requires the groups %s, which groups.yaml does not "+
			"list. Every proposal would be held: add them, or put \"extends: shipped\" into groups.yaml",
			strings.Join(missing, ", "))
	}
	old, err := backtest.InForce(ctx, o.Nc, streams.DoActivateRules)
	if err != nil && yes {
		return nil
	} else if err != nil {
		return fmt.Errorf("asking for the rules in force: %w; --yes activates without a comparison", err)
	}
	if old == nil {
		return nil
	}
	before, err := rules.CompileBundle(old)
	if err != nil && yes {
		return nil
	} else if err != nil {
		return fmt.Errorf("compiling the rules in force: %w; --yes activates without a comparison", err)
	}
	added, changed, lost := difference(before, after)
	w := cmd.ErrOrStderr()
	for _, d := range []struct {
		verb  string
		rules []string
	}{{"added", added}, {"changed", changed}, {"out of force", lost}} {
		if len(d.rules) > 0 {
			fmt.Fprintf(w, "%s: %d (%s)\n", d.verb, len(d.rules), some(d.rules, 6))
		}
	}
	if len(lost) == 0 || yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return cli.Negative("not activated: %d rules would go out of force. Put \"extends: shipped\" into groups.yaml "+
			"to keep the shipped ones, or confirm with --yes", len(lost))
	}
	return confirm(cmd.InOrStdin(), w, fmt.Sprintf("Deactivate %d rules?", len(lost)))
}

// some joins at most n names and adds the number of the others.
func some(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// confirm asks a question; any answer but y or yes is an error.
func confirm(in io.Reader, w io.Writer, question string) error {
	fmt.Fprintf(w, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return &cli.Exit{Code: cli.ExitNegative, Text: "not activated; the set in force stays"}
	}
	return nil
}

// difference lists the rules that differ between two sets, as PACK/ID.
func difference(before, after *rules.Set) (added, changed, lost []string) {
	old, now := judging(before), judging(after)
	for id, digest := range now {
		if was, ok := old[id]; !ok {
			added = append(added, id)
		} else if was != digest {
			changed = append(changed, id)
		}
	}
	for id := range old {
		if _, ok := now[id]; !ok {
			lost = append(lost, id)
		}
	}
	slices.Sort(added)
	slices.Sort(changed)
	slices.Sort(lost)
	return added, changed, lost
}

// judging maps the rules of all groups to the digests of their text.
func judging(set *rules.Set) map[string]string {
	m := make(map[string]string)
	for _, g := range set.Groups() {
		for _, r := range set.Group(g).Rules() {
			m[r.Pack+"/"+r.ID] = r.Digest
		}
	}
	return m
}

// missingGroups returns the groups that the current policy requires and the rule set lacks.
func missingGroups(ctx context.Context, nc *nats.Conn, set *rules.Set) ([]string, error) {
	b, err := backtest.InForce(ctx, nc, streams.DoActivatePolicy)
	if err != nil || b == nil {
		return nil, err
	}
	p, err := policy.Compile("the policy in force", b)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, g := range p.Groups {
		if g.Digest == "" && set.Group(g.Name) == nil {
			missing = append(missing, g.Name)
		}
	}
	return missing, nil
}
