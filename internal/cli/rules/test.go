package rules

import (
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/ruletest"
	shipped "lazaret/rules"
)

// packRules returns the bundle of the rules in a folder, or of the shipped rules if dir is empty.
func packRules(dir string) ([]byte, error) {
	if dir == "" {
		return rules.Pack(shipped.FS())
	}
	return rules.PackDir(dir, shipped.FS())
}

// loadRules reads the rule packs in a folder, or the shipped ones.
func loadRules(args []string) ([]byte, *rules.Source, error) {
	dir := verb.Arg(args)
	b, err := packRules(dir)
	if err != nil {
		return nil, nil, err
	}
	src, err := rules.Open(b)
	return b, src, err
}

// compileRules loads and compiles a rule set. Faults in the rules give a negative exit.
func compileRules(args []string) (*rules.Set, error) {
	_, src, err := loadRules(args)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	set, err := rules.Compile(src)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	return set, nil
}

func init() { Verbs.Add("rules", testCommand) }

func testCommand(a *verb.App) *cobra.Command {
	var run, format string
	var coverage bool
	var threshold float64
	c := &cobra.Command{
		Use:   "test [DIR]",
		Short: "Run the tests of rules (exit 2 when one fails)",
		Long: `Run the tests of a rule set (default the shipped one): its files *.test.yaml. A test has
events, and states which rules fire, which do not, and the verdict.

--coverage also lists untested parts: rules that never fire or always fire; and in macros and
in the conditions of rules, the operands of && and || and the conditions of ?: that are never
true or never false. With --threshold the command fails if less than this percentage is covered.`,
		Example: "  lazaret rules test ./rules --coverage --threshold 90\n  lazaret rules test --run 'write-path/.*canary'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := ruletest.Options{Coverage: coverage || threshold > 0}
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %s is unknown: use text or json", format)
			}
			if threshold < 0 || threshold > 100 {
				return fmt.Errorf("--threshold %g is not a percentage", threshold)
			}
			if run != "" {
				var err error
				if o.Run, err = regexp.Compile(run); err != nil {
					return fmt.Errorf("--run: %w", err)
				}
			}
			_, src, err := loadRules(args)
			if err != nil {
				return cli.Invalid(err)
			}
			rep, err := ruletest.RunWith(cmd.Context(), src, o)
			if err != nil {
				return cli.Invalid(err)
			}
			if format == "json" {
				err = cli.JSON(cmd.OutOrStdout(), rep)
			} else {
				err = printTests(cmd.OutOrStdout(), &rep)
			}
			switch {
			case err != nil:
				return err
			case rep.Failed > 0:
				return &cli.Exit{Code: cli.ExitNegative}
			case rep.Coverage != nil && rep.Coverage.Percent < threshold:
				return cli.Negative("coverage is %.1f %%, below the threshold of %g %%", rep.Coverage.Percent, threshold)
			}
			return nil
		},
	}
	c.Flags().StringVar(&run, "run", "", "only tests whose file/name matches `REGEX`")
	c.Flags().BoolVar(&coverage, "coverage", false, "list the untested parts of the rules")
	c.Flags().Float64Var(&threshold, "threshold", 0, "fail when less than `PCT` percent is covered")
	c.Flags().StringVar(&format, "format", "text", "`FORMAT` of the report: text or json")
	return c
}

func printTests(w io.Writer, rep *ruletest.Report) error {
	if _, err := fmt.Fprint(w, rep); err != nil || rep.Coverage == nil {
		return err
	}
	cov := rep.Coverage
	for _, g := range cov.Gaps {
		fmt.Fprintln(w, "uncovered", g)
	}
	fired, quiet := 0, 0
	for _, r := range cov.Rules {
		if r.Fired {
			fired++
		}
		if r.Quiet {
			quiet++
		}
	}
	_, err := fmt.Fprintf(w, "coverage %.1f %%: %d of %d cases; of %d rules %d fired and %d stayed quiet\n", cov.Percent,
		cov.Met, cov.Goals, len(cov.Rules), fired, quiet)
	return err
}
