package beliefs

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
)

func init() { Verbs.Add("", worldCommand) }

func worldCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	var current bool
	values := func(cmd *cobra.Command, subject, key string) error {
		var items []ingest.Belief
		err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
			items, err = ingest.AllBeliefs(ctx, nc, project)
			return err
		})
		if err != nil {
			return err
		}
		kept := []ingest.WorldValue{}
		for _, v := range ingest.World(items, time.Now()) {
			if (subject == "" || v.Subject == subject || v.Subject == "" && v.Key == subject) && (key == "" || v.Key == key) &&
				(!current || v.Current) {
				kept = append(kept, v)
			}
		}
		if subject != "" && len(kept) == 0 {
			of := ""
			if key != "" {
				of = ", key " + verb.Quote(key, 64)
			}
			if current {
				of += ", current"
			}
			return &cli.Exit{Code: cli.ExitNegative, Text: "no such value is in memory: subject or key " +
				verb.Quote(subject, 64) + of}
		}
		return cli.Print(cmd.OutOrStdout(), f, kept, []string{"SUBJECT", "KEY", "VALUE", "STATE", "ORIGIN", "BELIEF"},
			func(v ingest.WorldValue) []string {
				state := "current"
				if !v.Current {
					state = "withheld: " + v.Withheld
				}
				return []string{v.Subject, v.Key, v.Value, state, v.Origin, v.Belief}
			})
	}
	ls := &cobra.Command{Use: "ls", Short: "List the current values of every subject and key, and withheld " +
		"ones with the reason",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return values(cmd, "", "") }}
	get := &cobra.Command{Use: "get SUBJECT [KEY]", Short: "Show the values of a subject or a memory key",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := ""
			if len(args) == 2 {
				key = args[1]
			}
			return values(cmd, args[0], key)
		}}
	for _, c := range []*cobra.Command{ls, get} {
		f.Bind(c.Flags())
		c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
		c.Flags().BoolVar(&current, "current", false, "only current values")
	}
	return verb.Group("world", "Each subject's values in memory: current values, which recalls admit, and withheld "+
		"ones", ls, get)
}
