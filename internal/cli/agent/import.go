package agent

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/internal/imported"
	"lazaret/streams"
)

// importRow is the result for one memory.
type importRow struct {
	imported.Item
	Verdict streams.Verdict `json:"verdict"`
	Belief  string          `json:"belief,omitzero"`
	Hold    string          `json:"hold,omitzero"`
	Why     string          `json:"why,omitzero"`
}

func init() { Verbs.Add("", importMemoriesCommand) }

func importMemoriesCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var f cli.ListFlags
	var from string
	var dry bool
	c := &cobra.Command{
		Use:   "import --from STORE FILE|-",
		Short: "Propose the memories in another store's export",
		Long: `Read an export of mem0, Letta, Zep (Graphiti), LangGraph or an MCP memory server, and
propose each memory as a write of origin document on the channel import. Imported
memories are external content: recalls return them as context only. Only a person can promote
them to beliefs. Held and denied memories are listed with the reason. A second import of
a memory is a repeat and changes nothing. Exit 0 when all were accepted, 10 when some
are held, 11 when some are denied.`,
		Example: `  lazaret import --from mem0 memories.json
  lazaret import --from letta agent.af --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in io.Reader = cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			items, empty, err := imported.Read(from, in)
			if err != nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: args[0] + ": " + err.Error()}
			}
			var rows []*importRow
			if dry {
				for _, i := range items {
					rows = append(rows, &importRow{Item: i, Verdict: streams.Hold, Why: "not proposed"})
				}
			} else if rows, err = proposeImport(a, cmd.Context(), &s, items); err != nil {
				return err
			}
			f.JSON = s.JSON
			return importReport(cmd.OutOrStdout(), f, rows, empty, dry)
		},
	}
	s.Bind(c)
	c.Flags().MarkHidden("id")
	// Each import uses the same session, so that a repeated import sends the same bytes.
	c.Flags().Lookup("session").DefValue, s.Session = "import", "import"
	c.Flags().StringVar(&f.Where, "where", "",
		"list only items for which this `EXPRESSION` over their JSON fields is true, in the language Expr (expr-lang.org)")
	c.Flags().StringVar(&from, "from", "", "the `STORE` that exported it: mem0, letta, zep, langgraph, mcp")
	c.Flags().BoolVar(&dry, "dry-run", false, "only print the proposals")
	c.MarkFlagRequired("from")
	return c
}

func proposeImport(a *verb.App, ctx context.Context, s *verb.Speaker, items []imported.Item) ([]*importRow, error) {
	cl, done, err := a.Client(s)
	if err != nil {
		return nil, err
	}
	defer done()
	var rows []*importRow
	for n, i := range items {
		row, err := importOne(a, ctx, cl, s.Session, i)
		if err != nil {
			return nil, fmt.Errorf("memory %d of %d (%s): %w: those before it were proposed; import the file again to continue",
				n+1, len(items), i.ID, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func importOne(a *verb.App, ctx context.Context, cl *client.Client, session string,
	i imported.Item) (*importRow, error) {
	ctx, cancel := a.Timeout(ctx)
	defer cancel()
	rep, err := cl.Remember(ctx, imported.Origin, i.Memory(session))
	if err != nil {
		return nil, err
	}
	row := &importRow{Item: i, Verdict: client.VerdictOf(rep, nil)}
	if rep.Entry == nil {
		return row, nil
	}
	if b := rep.Entry.Belief; b != nil {
		row.Belief = b.ID
	}
	if h := rep.Entry.Hold; h != nil {
		row.Hold = h.ID
	}
	if row.Verdict != streams.Allow {
		r := holds.TopReason(rep.Entry)
		row.Why = string(r.Code) + ": " + r.Text
	}
	return row, nil
}

func importReport(w io.Writer, f cli.ListFlags, rows []*importRow, empty int, dry bool) error {
	worst := streams.Allow
	counts := map[streams.Verdict]int{}
	for _, r := range rows {
		worst = worst.Join(r.Verdict)
		counts[r.Verdict]++
	}
	err := cli.Print(w, f, rows, []string{"VERDICT", "BELIEF", "KIND", "ID", "HOLD", "CONTENT", "WHY"},
		func(r *importRow) []string {
			return []string{r.Verdict.String(), r.Belief, r.Kind, streams.Clip(r.ID, 40), r.Hold, streams.Clip(r.Content, 60),
				streams.Clip(r.Why, 100)}
		})
	if err != nil || dry {
		return err
	}
	if !f.JSON {
		fmt.Fprintf(w, "%d admitted as unverified, %d held, %d denied, %d without text\n", counts[streams.Allow],
			counts[streams.Hold], counts[streams.Deny], empty)
	}
	switch worst {
	case streams.Hold:
		return &cli.Exit{Code: cli.ExitHold}
	case streams.Deny:
		return &cli.Exit{Code: cli.ExitDeny}
	}
	return nil
}
