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
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	Verbs.Add("", incidentCommand)
	Verbs.Add("incident", incidentLsCommand, incidentShowCommand, incidentOpenCommand, incidentEvidenceCommand,
		incidentQuarantineCommand)
}

func incidentCommand(a *verb.App) *cobra.Command {
	return verb.Group("incident", "Handle incidents, from the finding to quarantine, recovery and report",
		incidentOrderCommand(a, approval.RepairIncident, "repair ID", "Sign the recovery of beliefs that "+
			"have other support",
			`Restore the earlier state of beliefs that derive from the quarantined beliefs, if they now have other
support by evidence of a class that may support beliefs, or if an unaffected belief states the same. The beliefs
that the quarantine named stay quarantined; restore those with beliefs restore ID.`),
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
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, ledger entry %s\n", strings.ToUpper(rep.State), rep.Hold,
			position.Text(rep.Entry))
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

func incidentShowCommand(a *verb.App) *cobra.Command {
	var project string
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "Show one incident: its evidence, affected and recovered beliefs",
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
		return nil, cli.Negative("project %s has no incident %s", project, verb.Quote(id, 64))
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
			at = fmt.Sprintf(", ledger entry %s", position.Text(x.Entry))
		}
		said := ""
		if x.Text != "" {
			said = ": " + text.InertLine(x.Text, 200)
		}
		fmt.Fprintf(w, "  %s %s%s%s\n", text.InertLine(x.Kind, 40), text.InertLine(x.ID, 128), at, said)
	}
	if r := i.Report; r != (beliefs.IncidentReport{}) {
		fmt.Fprintf(w, "  beliefs: %d found, %d derive from them; %d quarantined, of which %d were served to planners; %d "+
			"spared because other evidence supports them\n",
			r.Found, r.Descendants, r.Quarantined, r.Served, r.Spared)
		fmt.Fprintf(w, "  %d recovered; %d collateral, which only derive from those found, were served before, and are now "+
			"out of service or stale\n", r.Recovered, r.Collateral)
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

// findingsFlag parses pieces of evidence: KIND:ID, optionally followed by a space and a note.
func findingsFlag(all []string) (out []beliefs.IncidentFinding, err error) {
	for _, s := range all {
		head, words, _ := strings.Cut(s, " ")
		kind, id, ok := strings.Cut(head, ":")
		if !ok || kind == "" || id == "" {
			return nil, fmt.Errorf("evidence %q: write KIND:ID, or KIND:ID and a text about it", s)
		}
		out = append(out, beliefs.IncidentFinding{Kind: kind, ID: id, Text: words})
	}
	return out, nil
}

func incidentOpenCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	var severity, key string
	var found []string
	c := &cobra.Command{Use: "open TITLE", Short: "Sign that there is an incident", Args: cobra.ExactArgs(1),
		Long: `Open an incident. Serious alerts open one automatically (see incidents in the policy). If
one with the same --case is open, the evidence is added to it. The signer's key needs the
role approver, operator, auditor or probe.`,
		Example: `  lazaret incident open "poisoned page" --severity high \
    --evidence "source:https://shop.example" --key alice.key`,
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
	c.Flags().StringVar(&key, "case", "", "incidents with the same `NAME` are one incident")
	c.Flags().StringArrayVar(&found, "evidence", nil,
		"`KIND:ID` and, after a space, a note; may be repeated")
	return c
}

func incidentEvidenceCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	c := &cobra.Command{Use: "evidence ID KIND:ID…", Short: "Sign additional evidence for an incident",
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

// scopeFlags are the options that select the beliefs to quarantine.
type scopeFlags struct {
	beliefs.IncidentScope
	since, until string
	dry          bool
}

func (s *scopeFlags) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Source, "source", "", "beliefs from this `SOURCE`")
	f.StringVar(&s.Session, "session", "", "beliefs introduced in this `SESSION`")
	f.StringVar(&s.Agent, "agent", "", "beliefs introduced by this `AGENT`")
	f.StringVar(&s.Tool, "tool", "", "beliefs from results of this `TOOL`")
	f.StringVar(&s.since, "since", "", "beliefs introduced at this `TIME` or later")
	f.StringVar(&s.until, "until", "", "beliefs introduced before this `TIME`")
	f.BoolVar(&s.Descendants, "descendants", false, "also quarantine derived beliefs")
	f.BoolVar(&s.All, "all", false, "also quarantine beliefs that other evidence supports")
	f.BoolVar(&s.dry, "dry-run", false, "only print the beliefs, and sign nothing")
}

// times reads the options --since and --until.
func (s *scopeFlags) times() (err error) {
	if s.Since, err = when(s.since); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	if s.Until, err = when(s.until); err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	return nil
}

// request returns the request to ingest that finds the selected beliefs of a project.
func (s *scopeFlags) request(project string) *ingest.PinpointRequest {
	return &ingest.PinpointRequest{Project: project, Beliefs: s.Beliefs, Agent: s.Agent, Session: s.Session,
		Source: s.Source, Tool: s.Tool, Since: s.Since, Until: s.Until, Descendants: s.Descendants}
}

func incidentQuarantineCommand(a *verb.App) *cobra.Command {
	var s verb.SignedOrder
	var sc scopeFlags
	c := &cobra.Command{Use: "quarantine ID",
		Short: "Sign one order that quarantines the beliefs of an incident", Args: cobra.ExactArgs(1),
		Long: `Quarantine the beliefs that match all conditions. Beliefs that derive from them become
stale, so recalls serve them as context only; with --descendants, they are quarantined too.
If other sources support a belief by evidence of a class that may support beliefs, it is not
quarantined, unless --all is given. The order takes effect at its ledger entry. --dry-run
lists the beliefs and signs nothing.`,
		Example: "  lazaret incident quarantine i4f1c2a9be0d75c31 --source https://shop.example --descendants " +
			"--key alice.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sc.times(); err != nil {
				return err
			}
			if sc.dry {
				return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
					return quarantineAll(ctx, cmd, nc, &attestation{project: s.Project}, nil, sc.request(s.Project), sc.All, false)
				})
			}
			o := approval.NewOrder(approval.QuarantineIncident, s.Project, time.Now(), order.Life)
			o.Incident, o.Scope = args[0], &sc.IncidentScope
			return send(a, cmd, &s, o)
		}}
	s.Bind(c)
	c.Flags().StringSliceVar(&sc.Beliefs, "belief", nil, "these `IDS`")
	sc.bind(c)
	return c
}

// incidentOrderCommand returns a command that signs an order whose only option is a reason.
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
