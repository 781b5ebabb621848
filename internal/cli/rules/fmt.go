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
	"lazaret/pkg/files"
	"lazaret/pkg/rulefmt"
)

func init() { Verbs.Add("rules", fmtCommand) }

func fmtCommand(_ *verb.App) *cobra.Command {
	var write, check bool
	c := &cobra.Command{
		Use:   "fmt FILE|DIR…",
		Short: "Format rule files (exit 2 with --check when a file is not formatted)",
		Long: `Format rule, pack, groups and test files, and all *.yaml files below a folder. The
changes are printed as a diff, or written with -w. Comments and the meaning of a file are
preserved. A file for which that is impossible, or with an expression that does not parse,
is reported and left unchanged, and the exit code is 1.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := yamlFiles(args)
			if err != nil {
				return err
			}
			changed := 0
			var bad []error
			for _, name := range names {
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
					if err := files.Replace(name, out); err != nil {
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
				return cli.Negative("%d of %d files are not formatted: use lazaret rules fmt -w", changed, len(names))
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

// yamlFiles returns the named files, and the *.yaml files of the named folders.
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
