package verb

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that only has subcommands. An unknown subcommand is an error; by default
// cobra would print help and succeed.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2,
		Args: cobra.ArbitraryArgs}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			return fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
		return fmt.Errorf("%w; `%s --help` lists its commands", err, c.CommandPath())
	}
	c.AddCommand(subs...)
	return c
}
