package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/ingest"
	"lazaret/internal/metrics"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/internal/status"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// nearlyFull is the fill level of a stream or subject above which doctor reports it, because publishers
// will soon be refused.
const nearlyFull = 0.8

// uncosignedFor is the time without a witness's cosignature above which doctor reports the auditor.
const uncosignedFor = 10 * time.Minute

// check is the result of one check of doctor.
type check struct {
	What string `json:"what"`
	Good bool   `json:"good"`
	Text string `json:"text"`
}

// checks collects results.
type checks []check

func (c *checks) add(what string, err error, good string, args ...any) {
	if err != nil {
		*c = append(*c, check{what, false, err.Error()})
		return
	}
	*c = append(*c, check{what, true, fmt.Sprintf(good, args...)})
}

func init() { Verbs.Add("", doctorCommand) }

func doctorCommand(a *verb.App) *cobra.Command {
	var asJSON bool
	var ports []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check server, streams, stages and their lag (exit 3 if a check fails)",
		Long: `Check the server's limits, the fill level of the streams, the active rules and policy,
whether the server refuses requests with unknown fields, the credentials in the data
folder, and each process of each stage: whether it answers, and how many ledger entries in
which partitions it has not processed. A lag of more than 5,000 entries, and a stream or
subject that is more than 80 % full, are failures. Exit code 3 if any check fails.

In a cluster, the command also tries to join as a server, at the ports for the cluster's
routes: unencrypted, without a certificate, and with a certificate of an unknown authority.
Each attempt must be refused, because a server in the cluster can impersonate every agent.
The ports are those of --cluster, of "lazaret server config", or 6222 on the hosts that the
connection knows.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			cs, err := diagnose(ctx, nc)
			if err != nil {
				return err
			}
			if len(ports) == 0 {
				if ports, err = clusterPorts(a.Conn.Data, nc); err != nil {
					return err
				}
			}
			cs.outside(cmd.Context(), ports)
			cs.credentials(a.Conn.Data, time.Now())
			w := cmd.OutOrStdout()
			if asJSON {
				err = cli.JSON(w, cs)
			}
			bad := false
			for _, c := range cs {
				bad = bad || !c.Good
				word := "good "
				if !c.Good {
					word = "WRONG"
				}
				if !asJSON {
					fmt.Fprintf(w, "%s  %-10s %s\n", word, c.What, c.Text)
				}
			}
			if err == nil && bad {
				err = &cli.Exit{Code: cli.ExitIncomplete}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringSliceVar(&ports, "cluster", nil,
		"`HOST:PORT` at which a server of the cluster accepts the other servers")
	return c
}

// clusterPorts returns the addresses of the cluster's routes, or none if the server is not clustered.
func clusterPorts(data string, nc *nats.Conn) ([]string, error) {
	ports, err := natsserver.ClusterPorts(data)
	if err != nil || len(ports) > 0 || nc.ConnectedClusterName() == "" {
		return ports, err
	}
	for _, s := range nc.Servers() {
		if u, err := url.Parse(s); err == nil && u.Hostname() != "" {
			ports = append(ports, net.JoinHostPort(u.Hostname(), "6222"))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// credentials reports credentials of the data folder that expire soon, or that expired in the last 30 days and have no
// valid successor. Soon is less than ExpiresSoon and less than a third of the credential's life. The pipeline renews
// its own credentials at half of their life, so they are not reported while it runs.
func (c *checks) credentials(data string, now time.Time) {
	issued, err := natsserver.Credentials(data)
	if err != nil {
		c.add("access", err, "")
		return
	}
	latest, expired := make(map[string]*natsserver.Issued), make(map[string]*natsserver.Issued)
	for _, i := range issued {
		switch i.State(now) {
		case "valid":
			latest[i.Name] = i
		case "expired":
			if now.Sub(i.Expires) < 30*24*time.Hour {
				expired[i.Name] = i
			}
		}
	}
	maps.DeleteFunc(expired, func(name string, _ *natsserver.Issued) bool { return latest[name] != nil })
	if len(latest)+len(expired) == 0 {
		return // the credentials are in another folder
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(expired)) {
		gone = append(gone, fmt.Sprintf("%s at %s", name, expired[name].Expires.UTC().Format(time.RFC3339)))
	}
	if len(gone) > 0 {
		c.add("access", fmt.Errorf("credentials expired, and the server refuses them: %s: replace each with lazaret agent "+
			"rotate NAME and bring the new one to its host, or remove it from this list with lazaret agent revoke NAME; the "+
			"pipeline renews its own at its next start", strings.Join(gone, ", ")), "")
	}
	var inside []string
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		if latest[name].Agent == nil {
			continue
		}
		in, err := latest[name].InAgentsAccount(data)
		if err != nil {
			c.add("access", err, "")
			return
		}
		if !in {
			inside = append(inside, name)
		}
	}
	if len(inside) > 0 {
		c.add("access", fmt.Errorf("credentials of agents that an older version made: %s: with such a credential, an "+
			"agent can make the server publish to the subjects of the stages, and stop the verdicts: restart the server "+
			"with this version, or configure it again with lazaret server config; then replace each credential with "+
			"lazaret agent rotate NAME, and bring the new one to its host", strings.Join(inside, ", ")), "")
	}
	var soon []string
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		i := latest[name]
		if !i.Expires.IsZero() && i.Expires.Sub(now) < min(natsserver.ExpiresSoon, i.Expires.Sub(i.Issued)/3) {
			soon = append(soon, fmt.Sprintf("%s at %s", name, i.Expires.UTC().Format(time.RFC3339)))
		}
	}
	if len(soon) > 0 {
		err = fmt.Errorf("credentials expire soon: %s: replace each with lazaret agent rotate NAME, and bring the new one "+
			"to its host", strings.Join(soon, ", "))
	}
	c.add("access", err, "%d credentials are valid for at least another %d days or are renewed in time", len(latest),
		int(natsserver.ExpiresSoon.Hours()/24))
}

// outside probes the route ports without valid credentials.
func (c *checks) outside(ctx context.Context, ports []string) {
	for _, p := range ports {
		expires, err := natsserver.ProbeRoute(ctx, p)
		switch {
		case errors.Is(err, natsserver.ErrNoPort):
			c.add("cluster", nil, "%s cannot be reached from here; name the port for the other servers with --cluster", p)
			continue
		case err == nil && time.Until(expires) < natsserver.RenewBefore:
			err = fmt.Errorf("the certificate of %s ends at %s: renew it with `lazaret server renew`", p,
				expires.UTC().Format(time.RFC3339))
		}
		c.add("cluster", err, "%s accepts no server without a certificate; its own certificate is valid until %s", p,
			expires.UTC().Format(time.DateOnly))
	}
}

// jsInvalidJSON is the code of nats-server's errors about requests that are not valid JSON of their kind. nats.go does
// not define it.
const jsInvalidJSON jetstream.ErrorCode = 10025

// strict returns an error if the server accepts requests to JetStream with unknown fields. An acknowledgement that an
// agent directs to a subject of JetStream would then be a request, for example to purge the ledger.
func strict(ctx context.Context, nc *nats.Conn) error {
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+streams.LedgerStream, []byte(`{"not_a_field":true}`))
	if err != nil {
		return fmt.Errorf("the server's answer to a request with an unknown field: %w", err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("the server's answer to a request with an unknown field: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jsInvalidJSON:
		return nil
	case answer.Error != nil:
		return fmt.Errorf("the server's answer to a request with an unknown field: %w", answer.Error)
	default:
		return errors.New("the server accepts requests with unknown fields, so an agent can direct an acknowledgement to " +
			"JetStream and purge a stream with it: remove \"strict: false\" from the section jetstream of each server's " +
			"configuration")
	}
}

func diagnose(ctx context.Context, nc *nats.Conn) (checks, error) {
	var cs checks
	cs.add("server", nil, "nats-server %s at %s, largest message %d bytes", nc.ConnectedServerVersion(),
		nc.ConnectedUrlRedacted(), nc.MaxPayload())
	if nc.MaxPayload() < streams.LedgerMsgSize {
		cs.add("server", fmt.Errorf(
			"max_payload is %d: events near the size limit will not fit into the ledger; set it to %d", nc.MaxPayload(),
			natsserver.MaxPayload), "")
	}
	js := wire.JetStream(nc)
	cs.add("streams", wire.Check(ctx, js), "as defined")
	cs.add("requests", strict(ctx, nc), "the server refuses requests with unknown fields")
	room, err := js.AccountInfo(ctx)
	if err == nil && room.Limits.MaxStore == 0 {
		err = fmt.Errorf("%w: publishers are refused and all verdicts are hold: free some space", natsserver.ErrNoRoom)
	}
	cs.add("room", err, "the streams take messages")
	rules, pol, mixed := "", "", false
	err = nil
	active, stop := half(ctx)
	defer stop()
	for p := range streams.Partitions {
		var ans ingest.ActiveAnswer
		if err = query.Ask(active, nc, ingest.AskActive, p, struct{}{}, &ans); err != nil {
			break
		}
		mixed = mixed || p > 0 && (ans.Rules != rules || ans.Policy != pol)
		rules, pol = ans.Rules, ans.Policy
	}
	cs.add("ingest", err, "answers in every partition")
	if err == nil {
		if mixed {
			err = errors.New("the partitions have different rules or policies in force: activate them again")
		}
		cs.add("in force", err, "rules %.19s, policy %.19s", rules, pol)
	}
	s, err := status.Collect(ctx, nc)
	if err != nil {
		cs.add("stages", err, "")
		return cs, nil
	}
	cs.fullness(s)
	cs.stages(s)
	ans, err := auditor.Ask(ctx, nc, auditor.Request{Do: "head"})
	if err == nil && ans.Gaps > 0 {
		err = fmt.Errorf("the ledger has %d gaps", ans.Gaps)
	}
	if err != nil {
		cs.add("log", err, "")
		return cs, nil
	}
	cs.add("log", nil, "the audit log has %d ledger entries; %d later ledger messages are not in it yet", ans.Entries,
		s.Ledger.Last-min(s.Ledger.Last, ans.LastSeq))
	return cs, nil
}

// half returns a context with half of the remaining time, so that the other stages are still checked if
// one does not reply.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// fullness reports streams that are nearly full.
func (c *checks) fullness(s *status.Snapshot) {
	var err error
	if s.Intake.Share() > nearlyFull {
		err = fmt.Errorf("%d messages wait, %s: publishers are about to be refused; a stage is behind; the lines below say "+
			"which", s.Intake.Messages, filled(s.Intake))
	}
	c.add("intake", err, "%d messages, %s; decided messages are purged every 2 s", s.Intake.Messages, filled(s.Intake))
	if s.PerSubject > 0 && float64(s.FullestHas) > nearlyFull*float64(s.PerSubject) {
		c.add("intake", fmt.Errorf(
			"%d of at most %d messages wait on %s: its messages will soon be refused; the agent of this subject sends too "+
				"much, or ingest is behind", s.FullestHas, s.PerSubject, s.Fullest), "")
	}
	err = nil
	if s.Ledger.Share() > nearlyFull {
		err = fmt.Errorf("%d entries, %s: when the ledger is full, the stages stop and publishers are refused; trim it or "+
			"enlarge it (docs/operations.md)", s.Ledger.Messages, filled(s.Ledger))
	}
	trimmed := ""
	if s.Trimmed > 0 {
		trimmed = fmt.Sprintf(", trimmed up to %d", s.Trimmed)
	}
	c.add("ledger", err, "%d entries up to %d%s, %s", s.Ledger.Messages, s.Ledger.Last, trimmed, filled(s.Ledger))
}

// stages reports how far each process has read.
func (c *checks) stages(s *status.Snapshot) {
	for _, p := range s.Processes {
		var err error
		switch where := partitionsText(p.Behind); {
		case !p.Ready:
			err = fmt.Errorf("%s has not yet read all entries from before its start: %d entries behind", p.Process, p.Lag)
		case p.Lag > metrics.ReadyLag:
			err = fmt.Errorf("%s is %d entries behind, more than %d, in partitions %s", p.Process, p.Lag, metrics.ReadyLag,
				where)
		case p.Pending > metrics.ReadyPending.Seconds():
			err = fmt.Errorf("%s has not written an entry that has been due for %.0f s: %s", p.Process, p.Pending, p.Why)
		case p.Log != nil && p.Log.Uncosigned > uncosignedFor.Seconds():
			err = fmt.Errorf("a witness has not cosigned a checkpoint of %s for %.0f s: the process's log says which "+
				"witness and why; after a restore see docs/operations.md", p.Process, p.Log.Uncosigned)
		case p.Diverged > 0:
			err = fmt.Errorf("%s: another process of the stage wrote %d entries that differ from those that this process "+
				"computed: the two processes have different versions of Lazaret; run one version", p.Process, p.Diverged)
		}
		in := ""
		if len(p.Behind) > 0 {
			in = ", in partitions " + partitionsText(p.Behind)
		}
		wait := ""
		if p.Waiting > 0 {
			wait = fmt.Sprintf(", %d wait in it", p.Waiting)
		}
		c.add(p.Stage, err, "%s %s, partitions %s, %d entries behind%s%s", p.Process, status.Word(p),
			partitionsText(p.Partitions), p.Lag, in, wait)
	}
	for _, x := range s.Silent {
		switch {
		case x.Stage == status.StageAuditor:
			c.add(x.Stage, errors.New("no auditor reports its progress: none runs, or an earlier version made its credential "+
				"(then remove the credential from creds/ and start again)"), "")
		case x.Since > metrics.ReadyLag || strings.HasPrefix(x.Stage, streams.StageIngest) || x.Stage == streams.StageArbiter:
			c.add(x.Stage, fmt.Errorf("no process answers; the stage's last ledger entry is %d, %d messages before the "+
				"end of the ledger: the stage does not run, or its credential is of an earlier version and does not let it "+
				"answer (then remove the credential from creds/ and start again)", x.Last, x.Since), "")
		default:
			c.add(x.Stage, nil, "no process answers, as is usual for third parties' groups; last ledger entry %d, %d messages "+
				"before the end of the ledger",
				x.Last, x.Since)
		}
	}
	// Processes has the processes that answer, and Silent the stages that have written entries but do not answer. A
	// stage that has never run is in neither.
	heard := func(stage string) bool {
		return slices.ContainsFunc(s.Processes, func(p *status.Process) bool { return p.Stage == stage }) ||
			slices.ContainsFunc(s.Silent, func(x status.Silent) bool { return x.Stage == stage })
	}
	if !heard(streams.StageArbiter) {
		c.add(streams.StageArbiter, errors.New("no arbiter has run yet, so no proposal gets a verdict and every action is "+
			"held: start the arbiter"), "")
	}
	for _, what := range slices.Sorted(maps.Keys(s.Counts)) {
		if group, ok := strings.CutPrefix(what, "verdict.silent."); ok && s.Counts[what] > 0 &&
			!heard(streams.SentinelStage(group)) {
			c.add(streams.SentinelStage(group),
				fmt.Errorf("no sentinel of this group has run yet, and %d verdicts were given without the group's answer: "+
					"start a sentinel of the group, or activate a policy that does not name the group",
					s.Counts[what]), "")
		}
	}
}
