package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lazaret/examples"
	"lazaret/internal/cli/audit"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", demoCommand) }

func demoCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play one poisoned session through a pipeline and show the results",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return throwaway(a, cmd.Context(), embedded.Config{}, func(demo *verb.App) error {
				return show(demo, cmd.Context(), cmd.OutOrStdout())
			})
		},
	}
}

// throwaway calls f with a pipeline in a temporary folder. Then it stops the pipeline and removes the folder.
func throwaway(a *verb.App, ctx context.Context, cfg embedded.Config, f func(*verb.App) error) error {
	dir, err := os.MkdirTemp("", "lazaret-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg.Data, cfg.Listen = dir, "127.0.0.1:0"
	p, err := embedded.Start(ctx, cfg)
	if err != nil {
		return err
	}
	own := new(verb.App)
	own.Conn.Data, own.Conn.Timeout = dir, a.Conn.Timeout
	err = f(own)
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return err
}

// show plays the session and prints its course from the ledger.
func show(a *verb.App, ctx context.Context, w io.Writer) error {
	scripts, err := replay.Read(bytes.NewReader(examples.PoisonedSession), "poisoned-session.jsonl")
	if err != nil {
		return err
	}
	totals, err := playAll(a, ctx, scripts, replay.Options{}, io.Discard)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "One real session of an attacked agent (examples/README.md), played through a real pipeline.")
	fmt.Fprintln(w)
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer nc.Close()
	last, err := LedgerEnd(ctx, nc)
	if err != nil {
		return err
	}
	err = replay.Entries(ctx, nc, 0, last, func(e *streams.Entry) error {
		if e.Project != scripts[0].Project {
			return nil
		}
		return tell(w, e)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d events with %d claims gave %d supported beliefs and %d that were only "+
		"read\n", totals.Events, totals.Claims,
		totals.Supported, totals.Unverified)
	rep, err := audit.VerifyLog(a, ctx, datafolder.AuditDir(a.Conn.Data), nil)
	if err != nil {
		return err
	}
	fmt.Fprint(w, "the log: ")
	audit.PrintReport(w, rep)
	if rep.Status != chain.Verified {
		return fmt.Errorf("the log does not verify")
	}
	return nil
}

// tell prints one ledger entry as one line.
func tell(w io.Writer, e *streams.Entry) error {
	switch e.Type {
	case streams.TypeObservation:
		var o streams.ObservationEntry
		if err := streams.Unmarshal(e.Body, &o); err != nil {
			return err
		}
		who := string(o.Origin)
		if o.Tool != "" {
			who = o.Tool
		}
		for _, b := range o.Blocks {
			fmt.Fprintf(w, "READ      %s: %s\n", who, verb.Quote(b.Text, 260))
		}
		for _, c := range o.Claims {
			what := "what it says"
			if c.Kind == beliefs.Envelope {
				what = "that it returned"
			}
			fmt.Fprintf(w, "  believed  %-17s %s, %s, confidence %.2f\n", what, c.Belief.Axes.Truth, c.Belief.Axes.Retrieval,
				c.Belief.Confidence)
		}
	case streams.TypeAction:
		var x streams.ActionEntry
		if err := streams.Unmarshal(e.Body, &x); err != nil {
			return err
		}
		fmt.Fprintf(w, "PROPOSED  %s %s %s\n", x.Level, x.Tool, text.InertLine(string(x.Args), 90))
	case streams.TypeAlerts:
		var al streams.AlertsEntry
		if err := streams.Unmarshal(e.Body, &al); err != nil {
			return err
		}
		for _, x := range al.Alerts {
			fmt.Fprintf(w, "  alert     %s %s: %s\n", x.Severity, x.Rule, text.InertLine(x.Message, 110))
		}
	case streams.TypeIncident:
		var x streams.IncidentEntry
		if err := streams.Unmarshal(e.Body, &x); err != nil {
			return err
		}
		fmt.Fprintf(w, "INCIDENT  %s %s, %s: %s\n", x.Incident.ID, x.Event, x.Incident.Severity,
			text.InertLine(x.Incident.Title, 110))
	case streams.TypeVerdict:
		var v streams.VerdictEntry
		if err := streams.Unmarshal(e.Body, &v); err != nil {
			return err
		}
		fmt.Fprintf(w, "  VERDICT   %s\n", strings.ToUpper(v.Verdict.String()))
		for _, r := range v.Reasons {
			why := string(r.Code)
			if r.Rule != "" {
				why = r.Rule
			}
			fmt.Fprintf(w, "            because %s: %s\n", why, text.InertLine(r.Text, 120))
		}
	}
	return nil
}
