package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lazaret/internal/cli/verb"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/internal/otel"
)

// otelFlags are the flags for sending spans.
type otelFlags struct {
	otel.Options
	endpoint, protocol, state string
	ceiling                   verb.Sensitivity
	all, once                 bool
}

func (o *otelFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "endpoint", "", "OTLP `URL` (default $OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318)")
	f.StringVar(&o.protocol, "protocol", "",
		"`PROTOCOL`: http/protobuf or grpc (default $OTEL_EXPORTER_OTLP_PROTOCOL, http/protobuf)")
	f.BoolVar(&o.Content, "content", false, "also send texts of agents and people, up to the sensitivity of --ceiling")
	o.ceiling.Bind(f)
	f.StringVar(&o.Project, "project", "", "only this `PROJECT`")
	f.BoolVar(&o.Synthetic, "synthetic", false, "include synthetic projects (syn-…)")
	f.BoolVar(&o.all, "all", false, "at the first start, begin with the first ledger entry instead of the next one")
	f.BoolVar(&o.once, "once", false, "stop at the end of the ledger")
	f.StringVar(&o.state, "state", "", "`FILE` that stores the progress (default DATA/state/otel.json)")
}

func init() { Verbs.Add("", otelCommand) }

func otelCommand(a *verb.App) *cobra.Command {
	var o otelFlags
	c := &cobra.Command{
		Use:   "otel",
		Short: "Send verdicts and tool executions to OpenTelemetry as spans",
		Long: `Follow the ledger and send spans over OTLP, after the semantic conventions for generative
AI: apply_guardrail for each verdict, with its findings as events, upsert_memory and
search_memory for memory writes and recalls, execute_tool for executions. Ids are
derived from project, agent, session and request, so the same ledger gives the same spans.

It uses the read-only credential of a viewer. Texts of agents are sent only with
--content, and never for entries above --ceiling: their spans have lazaret.redacted, and
lazaret.commitment to find the entry in the audit log. OpenTelemetry's environment
variables set endpoint, headers, certificates and timeouts.`,
		Example: "  lazaret otel --endpoint http://localhost:4318\n  OTEL_EXPORTER_OTLP_HEADERS=api-key=… lazaret otel " +
			"--endpoint https://otlp.example --content --ceiling public",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := verb.Log(false)
			nc, err := a.Conn.Connect(string(natsserver.RoleViewer), natsconn.Daemon(log)...)
			if err != nil {
				return err
			}
			defer nc.Close()
			sent := 0
			err = sendSpans(a, cmd.Context(), nc, &o, log, func(n int) { sent += n })
			fmt.Fprintf(cmd.OutOrStdout(), "%d spans sent\n", sent)
			return err
		},
	}
	o.bind(c.Flags())
	return c
}

// sendSpans follows the ledger and sends spans until ctx ends.
func sendSpans(a *verb.App, ctx context.Context, nc *nats.Conn, o *otelFlags, log *slog.Logger, sent func(int)) error {
	client, err := otel.NewClient(o.endpoint, o.protocol)
	if err != nil {
		return err
	}
	res, err := otel.NewResource(ctx)
	if err != nil {
		return err
	}
	o.Ceiling = o.ceiling.Sensitivity
	o.state = cmp.Or(o.state, filepath.Join(a.Conn.Data, "state", "otel.json"))
	return otel.Run(ctx, otel.Config{Options: o.Options, Conn: nc, Client: client, State: o.state, All: o.all,
		Once: o.once, Resource: res, Log: log, Sent: sent})
}
