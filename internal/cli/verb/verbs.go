package verb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// List holds the commands of a package. Each file of the package adds the commands that it defines.
type List []entry

type entry struct {
	parent string // the command above it, such as "agent token"; "" for none
	make   func(*App) *cobra.Command
}

// Add adds commands below the parent command; "" adds them to lazaret itself.
func (l *List) Add(parent string, makes ...func(*App) *cobra.Command) {
	for _, make := range makes {
		*l = append(*l, entry{parent, make})
	}
}

// Root returns the command lazaret with all commands of the lists.
func Root(lists ...List) *cobra.Command {
	a := new(App)
	root := &cobra.Command{
		Use:   "lazaret",
		Short: "Protects the memory of AI agents against poisoning",
		Long: `Lazaret records an agent's observations, keeps them apart from its beliefs, lets
sentinels detect poisoning, holds or denies actions that depend on suspicious content,
and keeps a log of all this that outsiders can verify.

Exit codes: 0 good, 1 could not run, 2 a negative result, 3 incomplete,
10 the verdict is hold, 11 the verdict is deny.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetFlagErrorFunc(flagError)
	a.Conn.Bind(root.PersistentFlags())
	all := slices.Concat(lists...)
	// Add parents before the commands below them.
	slices.SortStableFunc(all, func(x, y entry) int {
		return len(strings.Fields(x.parent)) - len(strings.Fields(y.parent))
	})
	for _, e := range all {
		parent, rest, err := root.Find(strings.Fields(e.parent))
		if c := e.make(a); err != nil || len(rest) > 0 {
			panic(fmt.Sprintf("the command %q is added below the command %q, which is in no list of commands", c.Name(),
				e.parent))
		} else {
			parent.AddCommand(c)
		}
	}
	explainArgs(root)
	return root
}
