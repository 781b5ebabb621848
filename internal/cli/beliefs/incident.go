package beliefs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/order"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", incidentCommand) }

func incidentCommand(a *verb.App) *cobra.Command {
	return verb.Group("incident", "Cases: from a finding over quarantine and repair to a report",
		incidentOrderCommand(a, approval.RepairIncident, "repair ID", "Sign that what stands without what was poisoned comes back",
			`A belief that derives from the quarantined ones and has support from elsewhere by now, of a class
that may support a belief, or is stated anew by a belief that is not touched, comes back to
where it stood before. The beliefs that were ordered out stay out; beliefs restore ID is for them.`),
		incidentOrderCommand(a, approval.CloseIncident, "close ID --reason REPORT",
			"Sign that an incident is closed, with a report", ""))
}

// send signs an order and prints the ledger's answer.
func send(a *verb.App, cmd *cobra.Command, s *verb.SignedOrder, o *approval.Order) error {
	a.Conn.Resolve()
	signer, err := keys.LoadSigner(s.Key)
	if err != nil {
		return err
	}
	o.Reason = s.Reason
	return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
		rep, err := order.Send(ctx, nc, signer, o)
		if err != nil {
			return verb.RefusedExit(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, ledger entry %d\n", strings.ToUpper(rep.State), rep.Hold, rep.Entry)
		if strings.HasPrefix(string(o.Do), "incident-") {
			return showIncident(ctx, cmd.OutOrStdout(), nc, o.Project, rep.Hold)
		}
		return nil
	})
}

func allIncidents(ctx context.Context, nc *nats.Conn, project string) ([]ingest.IncidentView, error) {
	items := []ingest.IncidentView{}
	req := ingest.IncidentsRequest{Project: project}
	for {
		var ans ingest.IncidentsAnswer
		if err := query.Ask(ctx, nc, ingest.AskIncidents, streams.PartitionOf(project), req, &ans); err != nil {
			return nil, err
		}
		items = append(items, ans.Incidents...)
		if ans.Next == "" {
			return items, nil
		}
		req.After = ans.Next
	}
}

func init() { Verbs.Add("incident", incidentLsCommand) }

func incidentLsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	c := &cobra.Command{Use: "ls", Short: "List a project's incidents", Args: cobra.NoArgs,
		Example: "  lazaret incident ls --where 'state != \"closed\" && severity == \"critical\"'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var items []ingest.IncidentView
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				items, err = allIncidents(ctx, nc, project)
				return err
			})
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"INCIDENT", "STATE", "SEVERITY", "OPENED", "BY", "FINDINGS",
				"OUT", "BACK", "TITLE"}, func(i ingest.IncidentView) []string {
				return []string{i.ID, i.State.String(), i.Severity.String(), i.Opened.Format(time.DateTime), i.Who,
					fmt.Sprint(i.Findings),
					fmt.Sprint(i.Report.Quarantined), fmt.Sprint(i.Report.Recovered), i.Title}
			})
		}}
	f.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	return c
}

func init() { Verbs.Add("incident", incidentShowCommand) }

func incidentShowCommand(a *verb.App) *cobra.Command {
	var project string
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "Show one incident: its evidence, what it touched, and what came back",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				if !asJSON {
					return showIncident(ctx, cmd.OutOrStdout(), nc, project, args[0])
				}
				i, err := oneIncident(ctx, nc, project, args[0])
				if err != nil {
					return err
				}
				return cli.JSON(cmd.OutOrStdout(), i)
			})
		}}
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func oneIncident(ctx context.Context, nc *nats.Conn, project, id string) (*ingest.IncidentView, error) {
	var ans ingest.IncidentsAnswer
	if err := query.Ask(ctx, nc, ingest.AskIncidents, streams.PartitionOf(project),
		ingest.IncidentsRequest{Project: project, ID: id}, &ans); err != nil {
		return nil, err
	}
	if len(ans.Incidents) == 0 {
		return nil, &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("project %s has no incident %s", project,
			verb.Quote(id, 64))}
	}
	return &ans.Incidents[0], nil
}

func showIncident(ctx context.Context, w io.Writer, nc *nats.Conn, project, id string) error {
	i, err := oneIncident(ctx, nc, project, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "incident %s, %s, %s: %s\n", i.ID, i.State, i.Severity, text.InertLine(i.Title, 200))
	fmt.Fprintf(w, "  opened %s by %s %s, %d findings\n", i.Opened.Format(time.RFC3339), i.By,
		text.InertLine(i.Who, 120), i.Findings)
	for _, x := range i.Evidence {
		at := ""
		if x.Entry != 0 {
			at = fmt.Sprintf(", ledger entry %d", x.Entry)
		}
		said := ""
		if x.Text != "" {
			said = ": " + text.InertLine(x.Text, 200)
		}
		fmt.Fprintf(w, "  %s %s%s%s\n", text.InertLine(x.Kind, 40), text.InertLine(x.ID, 128), at, said)
	}
	if r := i.Report; r != (beliefs.IncidentReport{}) {
		fmt.Fprintf(w, "  %d found, %d derive from them; %d quarantined, of which %d were served to planners; %d spared "+
			"for support of their own\n",
			r.Found, r.Descendants, r.Quarantined, r.Served, r.Spared)
		fmt.Fprintf(w, "  %d recovered, %d collateral: served before, out now, and only derived from what was found\n",
			r.Recovered, r.Collateral)
	}
	for _, b := range i.Touched {
		how := "flagged stale"
		if b.Out {
			how = "quarantined"
		}
		if b.Back {
			how += ", recovered"
		}
		fmt.Fprintf(w, "  belief %s: %s; %s, %s, %s\n", b.Belief, how, b.Now.Truth, b.Now.Retrieval, b.Now.Security)
	}
	if i.State == beliefs.IncidentClosed {
		fmt.Fprintf(w, "  closed %s by %s: %s\n", i.Closed.Format(time.RFC3339), i.Closer, text.InertLine(i.Outcome, 500))
	}
	return nil
}

// findingsFlag reads pieces of evidence: KIND:ID, and after a blank what there is
// to say of it.
func findingsFlag(all []string) (out []beliefs.IncidentFinding, err error) {
	for _, s := range all {
		head, words, _ := strings.Cut(s, " ")
		kind, id, ok := strings.Cut(head, ":")
		if !ok || kind == "" || id == "" {
			return nil, fmt.Errorf("evidence %q: write KIND:ID, or KIND:ID and what there is to say of it", s)
		}
		out = append(out, beliefs.IncidentFinding{Kind: kind, ID: id, Text: words})
	}
	return out, nil
}

func init() { Verbs.Add("incident", incidentOpenCommand) }

func incidentOpenCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	var severity, key string
	var found []string
	c := &cobra.Command{Use: "open TITLE", Short: "Sign that there is an incident", Args: cobra.ExactArgs(1),
		Long: `Open an incident. A serious alert opens one by itself (see incidents in the policy). While
one with the same --key is open, the evidence is added to that. The signer's key has the
role approver, operator, auditor or probe.`,
		Example: `  lazaret incident open "poisoned page" --severity high --evidence "source:https://shop.example" --key alice.key`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o := approval.NewOrder(approval.OpenIncident, s.Project, time.Now(), order.Life)
			o.Incident, o.Title, o.Severity, o.Key = approval.IncidentID(o.Nonce), args[0], severity, key
			if o.Finding, err = findingsFlag(found); err != nil {
				return err
			}
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	c.Flags().StringVar(&severity, "severity", "high", "info, low, medium, high or critical")
	c.Flags().StringVar(&key, "case", "", "what belongs together has the same `NAME`")
	c.Flags().StringArrayVar(&found, "evidence", nil,
		"`KIND:ID` and, after a blank, what there is to say of it; may be repeated")
	return c
}

func init() { Verbs.Add("incident", incidentEvidenceCommand) }

func incidentEvidenceCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	c := &cobra.Command{Use: "evidence ID KIND:ID…", Short: "Sign that something more was found",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o := approval.NewOrder(approval.AddEvidence, s.Project, time.Now(), order.Life)
			o.Incident = args[0]
			if o.Finding, err = findingsFlag(args[1:]); err != nil {
				return err
			}
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	return c
}

func init() { Verbs.Add("incident", incidentQuarantineCommand) }

func incidentQuarantineCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	var sc beliefs.IncidentScope
	var since, until string
	var dry bool
	c := &cobra.Command{Use: "quarantine ID",
		Short: "Sign that what an incident has touched is taken out of service, in one order", Args: cobra.ExactArgs(1),
		Long: `Take out of service the beliefs that match all conditions. A belief that derives from one
is stale, and with it context at most, or with --descendants out of service too. A belief that has
support of its own, of a class that may support a belief and from elsewhere, is spared
unless --all is given. It is in force at the order's ledger entry. --dry-run signs nothing.`,
		Example: "  lazaret incident quarantine i4f1c2a9be0d75c31 --source https://shop.example --descendants " +
			"--key alice.key",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if sc.Since, err = when(since); err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			if sc.Until, err = when(until); err != nil {
				return fmt.Errorf("--until: %w", err)
			}
			if dry {
				q := ingest.PinpointRequest{Project: s.Project, Beliefs: sc.Beliefs, Agent: sc.Agent, Session: sc.Session,
					Source: sc.Source, Tool: sc.Tool,
					Since: sc.Since, Until: sc.Until, Descendants: sc.Descendants}
				return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
					return quarantineAll(ctx, cmd, nc, &word{project: s.Project}, nil, &q, sc.All, false)
				})
			}
			o := approval.NewOrder(approval.QuarantineIncident, s.Project, time.Now(), order.Life)
			o.Incident, o.Scope = args[0], &sc
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	f := c.Flags()
	f.StringSliceVar(&sc.Beliefs, "belief", nil, "these `IDS`")
	f.StringVar(&sc.Source, "source", "", "what came from this `SOURCE`")
	f.StringVar(&sc.Session, "session", "", "what came in in this `SESSION`")
	f.StringVar(&sc.Agent, "agent", "", "what this `AGENT` brought in")
	f.StringVar(&sc.Tool, "tool", "", "what this `TOOL` returned")
	f.StringVar(&since, "since", "", "what came in at this `TIME` or later")
	f.StringVar(&until, "until", "", "what came in before this `TIME`")
	f.BoolVar(&sc.Descendants, "descendants", false, "take out what derives from it, too")
	f.BoolVar(&sc.All, "all", false, "spare nothing")
	f.BoolVar(&dry, "dry-run", false, "only show")
	return c
}

// incidentOrderCommand is a command that signs an order with nothing but a reason.
func incidentOrderCommand(a *verb.App, do approval.Do, use, short, long string) *cobra.Command {
	var s verb.SignedOrder
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := approval.NewOrder(do, s.Project, time.Now(), order.Life)
			o.Incident = args[0]
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	return c
}
