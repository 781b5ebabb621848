package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/inquiry"
	"lazaret/pkg/chain"
	"lazaret/pkg/text"
)

// verdictOn returns the exit code of a question: negative for findings or a failed verification,
// incomplete if the log was not checked as a whole, or if entries could not be read.
func verdictOn(cmd *cobra.Command, findings, unread int, i inquiry.Integrity) error {
	if err := told(cmd, i); err != nil {
		return err
	}
	switch {
	case findings > 0:
		return &cli.Exit{Code: cli.ExitNegative}
	case i.Status != chain.Verified || unread > 0:
		return &cli.Exit{Code: cli.ExitIncomplete}
	}
	return nil
}

// answer is the answer to a question about the whole log, as JSON and as text.
type answer struct {
	of        any
	findings  int
	unread    int // entries that could not be read
	integrity inquiry.Integrity
	words     func(w io.Writer)
}

// none returns the beginning of the answer to a question without findings. unread is the number of entries that
// could not be read.
func none(unread int) string {
	if unread == 0 {
		return "NONE"
	}
	return fmt.Sprintf("INCOMPLETE: the texts of %d entries were erased or are not in this log. In the others NONE",
		unread)
}

// questionCommand returns the command for a question about the whole log. Its exit code is 2 if there
// are findings.
func questionCommand(a *verb.App, c *cobra.Command,
	ask func(ctx context.Context, l *inquiry.Log, project string) (*answer, error)) *cobra.Command {
	var f LogFlags
	var project string
	var json bool
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return withLog(a, cmd.Context(), f, inquiry.Options{Whole: true}, func(l *inquiry.Log) error {
			r, err := ask(cmd.Context(), l, project)
			if err != nil {
				return err
			}
			if !json {
				r.words(cmd.OutOrStdout())
			} else if err := cli.JSON(cmd.OutOrStdout(), r.of); err != nil {
				return err
			}
			return verdictOn(cmd, r.findings, r.unread, r.integrity)
		})
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

func init() {
	Verbs.Add("audit", launderingCommand, irreversibleCommand)
	Verbs.Add("", reportCommand)
}

func launderingCommand(a *verb.App) *cobra.Command {
	return questionCommand(a, &cobra.Command{
		Use:   "laundering",
		Short: "Did untrusted input ever become trusted? (exit 0 no, 2 yes, 3 unknown: texts are missing)",
		Long: `Verify the whole log, then list each belief that was ever supported although it derives from
content from outside or from the model, and although no authorized person or policy had
confirmed it in the log. An honest log has no such belief.

The lineage is reconstructed from the origins of credentials, without relying on ingest's
classification.`,
	}, func(ctx context.Context, l *inquiry.Log, project string) (*answer, error) {
		r, err := l.Launder(ctx, project)
		if err != nil {
			return nil, err
		}
		return &answer{r, len(r.Findings), r.Unread, r.Integrity, func(w io.Writer) {
			if len(r.Findings) == 0 {
				fmt.Fprintf(w, "%s: of %d beliefs that were ever supported, none comes from untrusted content without a logged "+
					"promotion\n", none(r.Unread), r.Supported)
			} else {
				fmt.Fprintf(w, "%d of %d beliefs that were ever supported come from untrusted content\n", len(r.Findings),
					r.Supported)
			}
			for _, x := range r.Findings {
				fmt.Fprintf(w, "  %s in %s, leaf %d: %s\n    %s\n", x.Belief, text.InertLine(x.Project, 64), x.Index,
					text.InertLine(x.Content, 100), path(x.Path))
			}
			for _, x := range r.Promoted {
				fmt.Fprintf(w, "  promoted: %s in %s, by %s, %s, leaf %d\n    %s\n", x.Belief, text.InertLine(x.Project, 64),
					text.InertLine(x.Promotion.By, 64), text.InertLine(x.Promotion.How, 100), x.Promotion.Index, path(x.Path))
			}
		}}, nil
	})
}

func path(steps []string) string {
	out := ""
	for i, s := range steps {
		if i > 0 {
			out += " → "
		}
		out += s
	}
	return text.InertLine(out, 400)
}

func irreversibleCommand(a *verb.App) *cobra.Command {
	return questionCommand(a, &cobra.Command{
		Use:   "irreversible",
		Short: "Did anything irreversible run without approval? (exit 0 no, 2 yes, 3 unknown: texts are missing)",
		Long: `Verify the whole log, then list irreversible actions that went wrong. An action is
irreversible if the agent or the policy says so, or if its level is L4 or above. It is
listed if it was executed or released without an earlier signed approval or a standing
permission of the signed policy, if it was executed more than once, or if the executed
action differs from the one that was released or judged.`,
	}, func(ctx context.Context, l *inquiry.Log, project string) (*answer, error) {
		r, err := l.IrreversibleActs(ctx, project)
		if err != nil {
			return nil, err
		}
		return &answer{r, len(r.Findings), r.Unread, r.Integrity, func(w io.Writer) {
			if len(r.Findings) == 0 {
				fmt.Fprintf(w, "%s: of %d irreversible actions that were proposed, none ran or was released without an "+
					"approval, or otherwise than approved\n", none(r.Unread), r.Proposed)
			} else {
				fmt.Fprintf(w, "%d findings among %d irreversible actions that were proposed: these ran or were released "+
					"without an approval, or otherwise than approved\n",
					len(r.Findings), r.Proposed)
			}
			for _, x := range slices.Concat(r.Findings, r.Approved) {
				fmt.Fprintf(w, "  %s %s of %s/%s, leaf %d: %s\n", x.Level, text.InertLine(x.Tool, 64),
					text.InertLine(x.Project, 64), text.InertLine(x.ID, 64), x.Proposed.Index, text.InertLine(x.Why, 200))
				if x.Approval != nil {
					fmt.Fprintf(w, "    by %s at %s, leaf %d: %s\n", text.InertLine(x.Approval.By, 100),
						x.Approval.Time.Format(time.DateTime), x.Approval.Index, text.InertLine(x.Approval.Reason, 160))
				}
			}
		}}, nil
	})
}

func reportCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var sel inquiry.Select
	var out, format string
	c := &cobra.Command{
		Use:   "report SESSION",
		Short: "Report a session from the log: what was read, believed, decided, allowed and done",
		Long: `Verify the whole log, then report one session: observations, beliefs with their state,
decisions with the beliefs they depend on, verdicts with the policy, outcomes, every
alert, hold and approval with person and time, and the result of the verification.
Similar entries share a row, so that a report of any length can be read in a minute.

-o writes a folder: report.html and report.md, pages with every entry, entries.jsonl,
the signed checkpoint, and proofs. Without -o, Markdown is printed.`,
		Example: "  lazaret report s1 -o report-s1\n  lazaret report s1 --project acme --format html > s1.html",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sel.Session = args[0]
			return withLog(a, cmd.Context(), f, inquiry.Options{Whole: true}, func(l *inquiry.Log) error {
				s, err := l.Session(cmd.Context(), sel)
				var none *inquiry.NoSessionError
				if errors.As(err, &none) {
					return &cli.Exit{Code: cli.ExitNegative, Text: text.InertLine(err.Error(), 200)}
				}
				if err != nil {
					return err
				}
				r := inquiry.NewReport(s, l.Integrity())
				if out != "" {
					if err := l.Write(r, out); err != nil {
						return err
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", r.Status, filepath.Join(out, "report.html"))
				} else {
					var b []byte
					switch format {
					case "md":
						b = r.Markdown()
					case "html":
						if b, err = r.HTML(); err != nil {
							return err
						}
					default:
						return fmt.Errorf("unknown format %q: use md or html", text.InertLine(format, 20))
					}
					if _, err := cmd.OutOrStdout().Write(b); err != nil {
						return err
					}
				}
				return verdictOn(cmd, 0, 0, l.Integrity())
			})
		},
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&sel.Project, "project", "", "`PROJECT` of the session; needed if several projects have a "+
		"session of this name")
	c.Flags().StringVar(&sel.Agent, "agent", "", "only this `AGENT`'s part of the session")
	c.Flags().StringVarP(&out, "output", "o", "", "`FOLDER` to write the report, its detail and its proofs to")
	c.Flags().StringVar(&format, "format", "md", "`FORMAT` on standard output: md or html")
	return c
}
