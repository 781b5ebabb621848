package beliefs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natsserver"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// viewer calls f with the read-only viewer credential.
func viewer(a *verb.App, ctx context.Context, f func(ctx context.Context, nc *nats.Conn) error) error {
	nc, err := a.Conn.Connect(string(natsserver.RoleViewer))
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := a.Timeout(ctx)
	defer cancel()
	return f(ctx, nc)
}

func init() { Verbs.Add("beliefs", lessonsCommand, reflectCommand) }

func lessonsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var h ingest.Harvest
	var project, format string
	var to verb.Sensitivity
	c := &cobra.Command{
		Use:   "lessons",
		Short: "List supported lessons as advice for agents",
		Long: `List memories of a category (lesson, experience, insight, practice, or those of --category)
that qualify as lessons. A memory qualifies if it has been supported for the time --age, is
clean and fresh, is served for planning, and if no conflict and no finding concerns it. A
belief that was only read, inferred or imported never qualifies, however often it is
repeated. --format md writes the lessons as advice with their origins. Review the text
before you put it into a file such as AGENTS.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var items []ingest.Belief
			err := viewer(a, cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				items, err = ingest.AllBeliefs(ctx, nc, project)
				return err
			})
			if err != nil {
				return err
			}
			h.Ceiling = to.Sensitivity
			lessons := ingest.Lessons(items, time.Now(), h)
			switch format {
			case "md":
				return writeLessons(cmd.OutOrStdout(), project, lessons)
			case "":
			default:
				return fmt.Errorf("unknown format %q: use md", text.InertLine(format, 20))
			}
			return cli.Print(cmd.OutOrStdout(), f, lessons, []string{"BELIEF", "CATEGORY", "ORIGIN", "SOURCES", "SINCE",
				"LESSON"}, func(l ingest.Lesson) []string {
				return []string{l.Belief, l.Category, l.Origin, fmt.Sprint(l.Sources), l.Since.Format(time.DateTime), l.Text}
			})
		},
	}
	f.Bind(c.Flags())
	to.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	c.Flags().StringSliceVar(&h.Categories, "category", nil,
		"`CATEGORIES` that are lessons (default lesson, experience, insight, practice)")
	c.Flags().DurationVar(&h.Age, "age", 24*time.Hour, "minimum time that a lesson has been supported")
	c.Flags().StringVar(&format, "format", "", "`FORMAT`: md for Markdown")
	return c
}

// writeLessons writes lessons as advice. Each is one line with its markup removed, because
// its text is untrusted.
func writeLessons(w io.Writer, project string, lessons []ingest.Lesson) error {
	_, err := fmt.Fprintf(w, "# Lessons of %s\n\nThis is advice from supported beliefs. It gives no orders and no "+
		"permissions.\n\n", text.InertLine(project, 64))
	for _, l := range lessons {
		if err == nil {
			_, err = fmt.Fprintf(w, "- %s  \n  (%s, of origin %s, %d sources, since %s)\n", text.InertLine(l.Text, 2000),
				l.Belief, l.Origin, l.Sources, l.Since.Format(time.DateOnly))
		}
	}
	return err
}

func reflectCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	var every time.Duration
	c := &cobra.Command{
		Use:   "reflect",
		Short: "Find contradicting supported beliefs and propose supersessions",
		Long: `Compare what supported beliefs state about the same subject and predicate. If two of them
differ, propose which belief should replace the other: the one with the stronger class of
evidence. If the classes are equal, it is the one with more sources, and if these are equal
too, the later one. The command uses a viewer's credential and changes nothing. A person
signs a proposal that is right (lazaret beliefs supersede BELIEF --by SUCCESSOR).

With --every it repeats, and prints each proposal once; with --json as a line of JSON.`,
		Example: "  lazaret beliefs reflect\n  lazaret beliefs reflect --every 1h --json >> proposals.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			look := func() (found []ingest.Supersession, err error) {
				err = viewer(a, cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
					items, err := ingest.AllBeliefs(ctx, nc, project)
					found = ingest.Reflect(items)
					return err
				})
				return found, err
			}
			out := cmd.OutOrStdout()
			if every == 0 {
				found, err := look()
				if err != nil {
					return err
				}
				return cli.Print(out, f, found, []string{"SUBJECT", "PREDICATE", "BELIEF", "OBJECT", "SUCCESSOR", "NEW OBJECT",
					"BECAUSE"}, func(s ingest.Supersession) []string {
					return []string{s.Subject, s.Predicate, s.Belief, s.Says, s.Successor, s.Instead, s.Because}
				})
			}
			said := make(map[ingest.Supersession]bool)
			return a.Every(cmd, every, func() error {
				found, err := look()
				for _, s := range found {
					if said[s] {
						continue
					}
					said[s] = true
					line := text.InertLine(s.String(), 1000)
					if f.JSON {
						b, err := streams.Marshal(s)
						if err != nil {
							return err
						}
						line = cli.EscapeJSON(string(b))
					}
					if _, err := fmt.Fprintln(out, line); err != nil {
						return err
					}
				}
				return err
			})
		},
	}
	f.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	c.Flags().DurationVar(&every, "every", 0, "repeat after this `DURATION`")
	return c
}
