package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/order"
	"lazaret/internal/probe"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// probeService configures probes that run at an interval.
type probeService struct {
	every time.Duration
	key   string
}

// incidentProject is the project of the incidents of failed probes. It is synthetic, so it affects no
// real project.
const incidentProject = streams.SyntheticPrefix + "probe"

// runningPipeline connects to the pipeline of the data folder.
func runningPipeline(a *verb.App) (*probe.Running, error) {
	a.Conn.Resolve()
	op, err := a.Conn.Connect("operator")
	if err != nil {
		return nil, err
	}
	return &probe.Running{Data: a.Conn.Data, Operator: op}, nil
}

// round is the result of one round, as printed with --json.
type round struct {
	At      time.Time `json:"at"`
	Passed  int       `json:"passed"`
	Skipped int       `json:"skipped"`
	Took    int64     `json:"took_ms"`
	Failed  []failure `json:"failed"`
}

type failure struct {
	*probe.Result
	Incident string `json:"incident,omitzero"`
}

// probeEvery runs scenarios at an interval until the command is interrupted.
func probeEvery(a *verb.App, cmd *cobra.Command, scenarios []*probe.Scenario, o probe.Options, svc *probeService,
	json bool) error {
	if svc.every < time.Second {
		return fmt.Errorf("--every is %s, but must be at least 1s", svc.every)
	}
	signer, err := keys.LoadSigner(svc.key)
	if err != nil {
		return fmt.Errorf("reading the key that signs incidents about failures: %w", err)
	}
	return a.Every(cmd, svc.every, func() error {
		r, err := probeRound(a, cmd.Context(), scenarios, o, signer)
		if r == nil {
			return err
		}
		out := cmd.OutOrStdout()
		if json {
			b, jerr := streams.Marshal(r)
			if jerr == nil {
				_, jerr = fmt.Fprintln(out, cli.EscapeJSON(string(b)))
			}
			return errors.Join(err, jerr)
		}
		for _, f := range r.Failed {
			fmt.Fprintf(out, "%s  FAIL  %s  incident %s: %s\n", r.At.Format(time.RFC3339), f.Name, f.Incident,
				text.InertLine(strings.Join(f.Result.Failed, "; "), 400))
		}
		fmt.Fprintf(out, "%s  %d passed, %d failed, %d skipped; %s\n", r.At.Format(time.RFC3339), r.Passed, len(r.Failed),
			r.Skipped, time.Duration(r.Took)*time.Millisecond)
		return err
	})
}

// probeRound runs the scenarios once and opens an incident for each that fails. If it could not run them, it returns
// a nil round and an error. If it could not open an incident, it returns the round and an error.
func probeRound(a *verb.App, ctx context.Context, scenarios []*probe.Scenario, o probe.Options,
	signer note.Signer) (*round, error) {
	var err error
	if o.Running, err = runningPipeline(a); err != nil {
		return nil, err
	}
	defer o.Running.Operator.Close()
	r := &round{At: time.Now().UTC().Truncate(time.Second), Failed: []failure{}}
	began := time.Now()
	results, err := probe.Run(ctx, scenarios, o)
	if err != nil || ctx.Err() != nil {
		return nil, err
	}
	r.Took = time.Since(began).Milliseconds()
	var errs []error
	for _, x := range results {
		switch x.Verdict {
		case probe.Pass:
			r.Passed++
		case probe.Skipped:
			r.Skipped++
		case probe.Fail:
			f := failure{Result: x}
			// Open a new connection, because the run has closed its connections.
			err := a.Operator(ctx, func(ctx context.Context, nc *nats.Conn) (err error) {
				f.Incident, err = openProbeIncident(ctx, nc, signer, x)
				return err
			})
			if err != nil {
				errs = append(errs, fmt.Errorf("no incident was opened for %s: %w", x.Name, err))
			}
			r.Failed = append(r.Failed, f)
		}
	}
	return r, errors.Join(errs...)
}

func openProbeIncident(ctx context.Context, nc *nats.Conn, signer note.Signer, x *probe.Result) (string, error) {
	var found []beliefs.IncidentFinding
	for _, f := range x.Failed {
		if len(found) < approval.MaxOrderEvidence {
			found = append(found, beliefs.IncidentFinding{Kind: "probe", ID: x.Name, Text: streams.Clip(text.InertLine(f, 400),
				400)})
		}
	}
	return order.OpenIncident(ctx, nc, signer, incidentProject, "probe/"+x.Name, beliefs.Critical,
		"probe "+x.Name+" fails", found...)
}
