package holds

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// projectToken returns a project as a subject token; "*" stands for all.
func projectToken(project string) (string, error) {
	if project == "" {
		return "*", nil
	}
	return project, streams.CheckID("project", project)
}

func init() { Verbs.Add("", alertsCommand, verdictsCommand, holdsCommand) }

func alertsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	bind := func(c *cobra.Command) *cobra.Command {
		f.Bind(c.Flags())
		c.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
		c.Flags().Var((*verb.SinceFlag)(&f.Since), "since", "only the last `DURATION`, such as 7d")
		return c
	}
	filter := func() (string, error) {
		p, err := projectToken(project)
		return "lz.live." + p + ".alert.>", err
	}
	ls := bind(&cobra.Command{Use: "ls", Short: "List alerts of the live feed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			subject, err := filter()
			if err != nil {
				return err
			}
			items, err := readFeed[streams.Alert](cmd, a, subject, f.Since)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"TIME", "SEVERITY", "RULE", "EFFECT", "PROJECT", "SUBJECT",
				"COUNT", "MESSAGE"}, func(x streams.Alert) []string {
				return []string{x.Time.Format(time.DateTime), x.Severity, x.Rule, x.Effect, x.Project,
					x.Subject.Kind + " " + x.Subject.ID, fmt.Sprint(x.Count), x.Message}
			})
		}})
	tail := bind(&cobra.Command{Use: "tail", Short: "Follow alerts as they come", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			subject, err := filter()
			if err != nil {
				return err
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			where, err := cli.NewFilter(f.Where, streams.Alert{})
			if err != nil {
				return err
			}
			show := func(_ string, x streams.Alert, body []byte) error {
				if ok, err := where.Match(x); err != nil || !ok {
					return err
				}
				if f.JSON {
					fmt.Fprintln(cmd.OutOrStdout(), cli.EscapeJSON(strings.TrimSpace(string(body))))
					return nil
				}
				fmt.Fprintln(cmd.OutOrStdout(),
					strings.Join(cli.Cells([]string{x.Time.Format(time.DateTime), x.Severity, x.Rule, x.Project,
						x.Subject.Kind + " " + x.Subject.ID, x.Message}), "  "))
				return nil
			}
			return cli.ReadLive(cmd.Context(), nc, subject, f.Since, true, cmd.ErrOrStderr(), show)
		}})
	return verb.Group("alerts", "Alerts of the sentinels", ls, tail)
}

func readFeed[T any](cmd *cobra.Command, a *verb.App, subject string, since time.Duration) ([]T, error) {
	var items []T
	err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
		return cli.ReadLive(ctx, nc, subject, since, false, cmd.ErrOrStderr(), func(_ string, x T, _ []byte) error {
			items = append(items, x)
			return nil
		})
	})
	return items, err
}

func verdictsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	ls := &cobra.Command{Use: "ls", Short: "List verdicts of the live feed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := projectToken(project)
			if err != nil {
				return err
			}
			items, err := readFeed[streams.VerdictEntry](cmd, a, "lz.live."+p+".verdict.>", f.Since)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"TIME", "VERDICT", "AGENT", "ID", "TYPE", "LEVEL", "TOOL",
				"REASONS"}, func(v streams.VerdictEntry) []string {
				var why []string
				for _, r := range v.Reasons {
					w := string(r.Code)
					if r.Rule != "" {
						w = r.Rule
					}
					why = append(why, w)
				}
				return []string{v.Time.Format(time.DateTime), v.Verdict.String(), v.Agent, v.ID, string(v.Type), v.Level, v.Tool,
					strings.Join(why, " ")}
			})
		}}
	f.Bind(ls.Flags())
	ls.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
	ls.Flags().Var((*verb.SinceFlag)(&f.Since), "since", "only the last `DURATION`, such as 7d")
	c := verb.Group("verdicts", "Verdicts of the arbiter", ls)
	c.Aliases = []string{"verdict"}
	return c
}

func holdsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var req arbiter.HoldsRequest
	var each bool
	ls := &cobra.Command{Use: "ls", Short: "List holds, similar ones together", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := req
			if ask.State == "all" {
				ask.State = ""
			}
			var items []arbiter.Hold
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				for _, p := range query.Partitions(req.Project) {
					var page []arbiter.Hold
					if err := query.Ask(ctx, nc, arbiter.AskHolds, p, ask, &page); err != nil {
						return err
					}
					items = append(items, page...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if !each && !f.JSON {
				return printHoldGroups(cmd.OutOrStdout(), f, items)
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"HOLD", "STATE", "PROJECT", "AGENT", "LEVEL", "TOOL",
				"EXPIRES", "WHY"}, func(h arbiter.Hold) []string {
				why := ""
				if len(h.Verdict.Reasons) > 0 {
					why = h.Verdict.Reasons[0].Text
				}
				return []string{h.ID, h.State, h.Project, h.Agent, h.Verdict.Level, h.Verdict.Tool,
					h.Expires.Format(time.DateTime), why}
			})
		}}
	f.Bind(ls.Flags())
	ls.Flags().StringVar(&req.Project, "project", "", "only this `PROJECT`")
	ls.Flags().StringVar(&req.State, "state", "open", "open, approved, rejected, expired, cancelled, denied or all")
	ls.Flags().BoolVar(&each, "each", false, "one line per hold, without grouping")
	return verb.Group("holds", "Holds: proposals that wait for a person", ls, resolveCommand(a, approval.Approve),
		resolveCommand(a, approval.Reject))
}
