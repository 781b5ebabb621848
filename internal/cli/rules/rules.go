package rules

import (
	"fmt"

	"github.com/spf13/cobra"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/rules"
)

func init() { Verbs.Add("", rulesCommand) }

func rulesCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var ships bool
	ls := &cobra.Command{Use: "ls [DIR]", Short: "List the active rules, or those in a folder",
		Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			set, err := listed(a, cmd, args, ships)
			if err != nil {
				return err
			}
			type row struct {
				ID       string `json:"id"`
				Pack     string `json:"pack"`
				Severity string `json:"severity"`
				Effect   string `json:"effect"`
				Mode     string `json:"mode"`
				Title    string `json:"title"`
			}
			var items []row
			for _, r := range set.Rules() {
				items = append(items, row{r.ID, r.Pack, r.Severity, r.Effect, r.Mode, r.Title})
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"RULE", "PACK", "SEVERITY", "EFFECT", "MODE", "TITLE"},
				func(r row) []string {
					return []string{r.ID, r.Pack, r.Severity, r.Effect, r.Mode, r.Title}
				})
		}}
	f.Bind(ls.Flags())
	ls.Flags().BoolVar(&ships, "shipped", false, "list the shipped rules")
	return verb.Group("rules", "Sentinel rules",
		ls)
}

// listed returns the rule set in a folder, the shipped one, or the current one.
func listed(a *verb.App, cmd *cobra.Command, args []string, ships bool) (*rules.Set, error) {
	if ships || len(args) > 0 {
		return compileRules(args)
	}
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return nil, fmt.Errorf("asking for the rules in force: %w; lazaret rules ls --shipped needs no pipeline", err)
	}
	defer nc.Close()
	ctx, cancel := a.Timeout(cmd.Context())
	defer cancel()
	return backtest.Active(ctx, nc)
}
