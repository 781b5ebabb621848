package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/rules/lint"
	"lazaret/pkg/rules/schema"
	"lazaret/pkg/signals"
	"lazaret/streams"
)

func init() { Verbs.Add("rules", checkCommand, schemaCommand, fieldsCommand) }

func checkCommand(a *verb.App) *cobra.Command {
	var format string
	var strict bool
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Check rule packs (default the shipped ones)",
		Long: `Check that a rule set loads, and find likely mistakes: rules that can never fire, that
have no test, or that are evaluated for each entry because no index can select them, unused
names, and expired exceptions. Each finding
has its position in the file.

An error prevents the set from loading, or is a rule without any effect. Exit codes:
0 no errors, 1 could not run, 2 errors; with --strict also warnings. Notes are never
counted. The format sarif is for code scanning.

The lints:

` + lintTable(),
		Example: "  lazaret rules check rules --strict\n  lazaret rules check rules --format sarif > rules.sarif",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if formats := []string{"text", "json", "sarif"}; !slices.Contains(formats, format) {
				return fmt.Errorf("the format %q is unknown: use one of %s", format, strings.Join(formats, ", "))
			}
			b, src, err := loadRules(args)
			if err != nil {
				return cli.Invalid(err)
			}
			found, err := lint.Run(src, time.Now())
			if err != nil {
				return err
			}
			base := ""
			if len(args) == 1 {
				base = folder(args[0])
			}
			w := cmd.OutOrStdout()
			switch format {
			case "json":
				err = cli.JSON(w, append([]lint.Finding{}, found...))
			case "sarif":
				err = cli.JSON(w, lint.ToSARIF(base, found))
			default:
				if err = lint.WriteFindings(w, base, found); err != nil {
					return err
				}
				if set, bad := rules.Compile(src); bad == nil {
					fmt.Fprintf(w, "%d rules load, groups %s, %s\n", len(set.Rules()), strings.Join(set.Groups(), " "),
						streams.Digest(b))
				}
				if len(found) > 0 {
					fmt.Fprintf(w, "%s, %s, %s\n", count(found, lint.LevelError), count(found, lint.LevelWarning),
						count(found, lint.LevelNote))
				}
			}
			if err != nil {
				return err
			}
			if lint.Count(found, lint.LevelError) > 0 || strict && lint.Count(found, lint.LevelWarning) > 0 {
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return nil
		},
	}
	c.Flags().StringVar(&format, "format", "text", "`FORMAT` of the findings: text, json or sarif")
	c.Flags().BoolVar(&strict, "strict", false, "exit 2 also on warnings")
	return c
}

func lintTable() string {
	var b strings.Builder
	for _, l := range lint.All() {
		fmt.Fprintf(&b, "  %-22s %-8s %s\n", l.ID, l.Level, l.Doc)
	}
	return b.String()
}

func count(found []lint.Finding, level string) string {
	n := lint.Count(found, level)
	if n == 1 {
		return "1 " + level
	}
	return fmt.Sprintf("%d %ss", n, level)
}

// folder returns a folder as printed in findings: relative to the working folder if the folder is inside the working
// folder.
func folder(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return filepath.ToSlash(filepath.Clean(dir))
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, abs); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(abs)
}

func schemaCommand(a *verb.App) *cobra.Command {
	names := slices.Sorted(maps.Keys(schema.Schemas()))
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a kind of file: " + strings.Join(names, ", "),
		Long: `Print the JSON Schema of a kind of file in a rule set, or list the kinds. NAME is one
of ` + strings.Join(names, ", ") + `, or a file such as pack.yaml.

The same schemas are in rules/schema. An editor with a YAML language server completes
keys and shows what each is for when a file begins with

  # yaml-language-server: $schema=../schema/rules.json`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, n := range names {
					fmt.Fprintln(cmd.OutOrStdout(), n)
				}
				return nil
			}
			name := args[0]
			if strings.HasSuffix(name, ".yaml") {
				name = schema.NameFor(filepath.ToSlash(name))
			}
			s, ok := schema.Schemas()[name]
			if !ok {
				return fmt.Errorf("there is no schema %q: use one of %s", name, strings.Join(names, ", "))
			}
			_, err := cmd.OutOrStdout().Write(s)
			return err
		},
	}
}

// ruleField is a name that expressions can use.
type ruleField struct {
	Kind   string `json:"kind"` // field, signal or function
	Name   string `json:"name"`
	Type   string `json:"type,omitempty"`
	Doc    string `json:"doc,omitempty"`
	Key    string `json:"key,omitempty"`
	Window string `json:"window,omitempty"`
	Bound  string `json:"bound,omitempty"`
	Cost   string `json:"cost,omitempty"`
}

func fieldsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	c := &cobra.Command{
		Use:   "fields",
		Short: "List the fields, signals and functions for rule expressions",
		Long: `List the names that rule expressions can use. A signal is computed from earlier events. For
each signal, the list has the key by which these events are stored, the time window, the limit
per project, and the number of look-ups that one reading costs.`,
		Example: "  lazaret rules fields --where 'kind == \"signal\"'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			byName := make(map[string]signals.Signal)
			for _, s := range signals.Signals() {
				byName[s.Name] = s
			}
			var items []ruleField
			for _, x := range compiled.Fields() {
				r := ruleField{Kind: "field", Name: x.Name, Type: x.Type, Doc: x.Doc}
				if s, ok := byName[x.Name]; ok {
					r.Kind, r.Key, r.Window, r.Bound, r.Cost = "signal", s.Key, s.Window, s.Bound, s.Cost
				}
				items = append(items, r)
			}
			for _, fn := range compiled.Functions() {
				items = append(items, ruleField{Kind: "function", Name: fn})
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"KIND", "NAME", "TYPE", "KEY", "WINDOW", "BOUND", "COST",
				"MEANING"}, func(r ruleField) []string {
				return []string{r.Kind, r.Name, r.Type, r.Key, r.Window, r.Bound, r.Cost, r.Doc}
			})
		},
	}
	f.Bind(c.Flags())
	return c
}
