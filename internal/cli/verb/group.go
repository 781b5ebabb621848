package verb

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group is a command that only holds others. By default cobra shows help for a
// word that is none of them, and a script goes on.
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
