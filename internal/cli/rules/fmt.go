package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/durable"
	"lazaret/pkg/rulefmt"
)

func init() { Verbs.Add("rules", fmtCommand) }

func fmtCommand(_ *verb.App) *cobra.Command {
	var write, check bool
	c := &cobra.Command{
		Use:   "fmt FILE|DIR…",
		Short: "Write rule files in their one form (exit 2 with --check when one is not)",
		Long: `Format rule, pack, groups and test files; of a folder all
*.yaml files below it. Prints what would change as a diff, and changes it with
-w. Comments are kept, and what a file means stays what it is: one for which
that cannot be had, or with an expression that does not parse, is reported, left
as it is, and ends the command with exit 1.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := yamlFiles(args)
			if err != nil {
				return err
			}
			changed := 0
			var bad []error
			for _, name := range files {
				src, err := os.ReadFile(name)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				out, err := rulefmt.Format(name, src)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				if bytes.Equal(src, out) {
					continue
				}
				changed++
				switch {
				case write:
					if err := durable.Replace(name, out); err != nil {
						bad = append(bad, err)
						continue
					}
					fmt.Fprintln(cmd.OutOrStdout(), name)
				case check:
					fmt.Fprintln(cmd.OutOrStdout(), name)
				default:
					fmt.Fprint(cmd.OutOrStdout(), rulefmt.Diff(name, src, out))
				}
			}
			if len(bad) > 0 {
				return errors.Join(bad...)
			}
			if check && changed > 0 {
				return &cli.Exit{Code: cli.ExitNegative,
					Text: fmt.Sprintf("%d of %d files are not formatted: use lazaret rules fmt -w", changed, len(files))}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVarP(&write, "write", "w", false, "write the files, and print their names")
	f.BoolVar(&check, "check", false, "print the names of files that are not formatted, and exit 2 when there are any")
	c.MarkFlagsMutuallyExclusive("write", "check")
	return c
}

// yamlFiles gives the files that are named and the *.yaml files of the folders
// that are.
func yamlFiles(args []string) ([]string, error) {
	var out []string
	for _, arg := range args {
		err := filepath.WalkDir(arg, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if base := d.Name(); name != arg && len(base) > 1 && base[0] == '.' {
					return fs.SkipDir
				}
				return nil
			}
			if name == arg || filepath.Ext(name) == ".yaml" && d.Type().IsRegular() {
				out = append(out, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
