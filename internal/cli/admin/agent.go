package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() {
	Verbs.Add("", agentCommand, sentinelCommand, viewerCommand)
	Verbs.Add("agent", agentLsCommand, agentRotateCommand, agentRevokeCommand)
}

func agentCommand(a *verb.App) *cobra.Command {
	var origins []string
	var expires time.Duration
	add := &cobra.Command{
		Use:   "add PROJECT AGENT",
		Short: "Make a credential for one agent",
		Long: `Make a credential for one agent of one project. With it, a program can publish only content
of the origins in --origins. Give it to the host program around the model, never to the
model. A front end needs the origin user; a program that runs tools needs tool, web,
document or email. If a credential has several origins, Lazaret trusts the program to label
each content with its true origin.`,
		Example: "  lazaret agent add acme support --origins tool,web,agent",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			ag := natsserver.Agent{Project: args[0], Name: args[1]}
			for _, o := range origins {
				org, err := verb.Origin(o)
				if err != nil {
					return err
				}
				ag.Origins = append(ag.Origins, org)
			}
			return install(a, cmd, natsserver.Grant{Name: verb.AgentContext(ag.Project, ag.Name), Agent: &ag, Lasts: expires,
				Description: fmt.Sprintf("Lazaret: agent %s/%s, origins %v", ag.Project, ag.Name, ag.Origins)})
		},
	}
	add.Flags().StringSliceVar(&origins, "origins", []string{string(beliefs.OriginTool), string(beliefs.OriginAgent)},
		"`ORIGINS` of the content that the credential may publish")
	bindExpires(add, &expires)
	return verb.Group("agent", "Credentials of agents", add)
}

func sentinelCommand(a *verb.App) *cobra.Command {
	var expires time.Duration
	add := &cobra.Command{
		Use:   "add GROUP",
		Short: "Make a credential for a third-party sentinel group",
		Long: `Make a credential that can read the ledger of all projects and write the group's own
ledger subject and alerts. Verdicts wait for the group once the active policy lists it
under groups; see docs/sentinels.md.`,
		Example: "  lazaret sentinel add judge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.CheckID("group", args[0]); err != nil {
				return err
			}
			a.Conn.Resolve()
			r := natsserver.SentinelRole(args[0])
			return install(a, cmd, natsserver.Grant{Name: string(r), Role: r, Lasts: expires,
				Description: "Lazaret: sentinel group " + args[0]})
		},
	}
	bindExpires(add, &expires)
	return verb.Group("sentinel", "Third-party sentinel groups", add)
}

func viewerCommand(a *verb.App) *cobra.Command {
	var expires time.Duration
	add := &cobra.Command{
		Use:   "add PROJECT",
		Short: "Make a read-only credential for one project, with a durable consumer of its alerts",
		Long: `Make the credential viewer-PROJECT and the durable consumer of that name on LZ_LIVE. The consumer
delivers the project's new alerts until they are acknowledged. LZ_LIVE drops them after 30 days.
The credential can fetch from that consumer and subscribe to lz.live.PROJECT.>. It can change nothing and
read no other project. The command needs the operator's credential and the data folder's keys/.`,
		Example: "  lazaret viewer add acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			filter, err := streams.LiveSubject(args[0], "alert")
			if err != nil {
				return err
			}
			r := natsserver.ViewerOf(args[0])
			err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				js := wire.JetStream(nc)
				_, err = js.CreateConsumer(ctx, streams.LiveStream, jetstream.ConsumerConfig{Durable: string(r),
					Description: "alerts of project " + args[0], FilterSubject: filter + ".>",
					DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy,
					AckWait: 30 * time.Second, MaxDeliver: -1})
				if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
					return fmt.Errorf("making consumer %s: %w", r, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return install(a, cmd, natsserver.Grant{Name: string(r), Role: r, Lasts: expires,
				Description: "Lazaret: read-only viewer of project " + args[0]})
		},
	}
	bindExpires(add, &expires)
	return verb.Group("viewer", "Read-only credentials for one project", add)
}

// install creates a credential, writes it and its context to the data folder, and prints the paths.
func install(a *verb.App, cmd *cobra.Command, g natsserver.Grant) error {
	m, err := natsserver.OpenMinter(a.Conn.Data)
	if err != nil {
		return err
	}
	file := natsserver.CredsFile(a.Conn.Data, g.Name)
	if _, err := os.Stat(file); err == nil {
		return fmt.Errorf("the credential %s exists already: to replace it, run lazaret agent rotate %s; to change its "+
			"rights, revoke it and remove the file first", file, g.Name)
	}
	url := a.Conn.Server
	if url == "" {
		if url, err = natsserver.ContextURL(a.Conn.Data, "operator"); err != nil {
			return err
		}
	}
	if err := m.Install(g, url, false); err != nil {
		return err
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "credential   %s\ninbox prefix %s\ncontext      %s\nexpires      %s\n", abs,
		g.Inbox(), natsserver.ContextFile(a.Conn.Data, g.Name), expiresText(time.Now().Add(g.Lasts), g.Lasts))
	return nil
}

func bindExpires(c *cobra.Command, d *time.Duration) {
	c.Flags().DurationVar(d, "expires", natsserver.AgentExpires, "`TIME` until the credential expires; 0: never")
}

// expiresText formats the expiry of a credential.
func expiresText(t time.Time, lasts time.Duration) string {
	if t.IsZero() || lasts == 0 {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// credentialName returns the credential name for the arguments PROJECT AGENT or NAME.
func credentialName(args []string) string {
	if len(args) == 2 {
		return natsfiles.AgentContext(args[0], args[1])
	}
	return args[0]
}

func agentLsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var all bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List credentials with their expiry and state",
		Long: `List the valid agent credentials of this data folder. --all adds the credentials of
the pipeline's roles, and expired and revoked ones. A credential that an older version
made is listed if its file is still in DATA/creds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			issued, err := natsserver.Credentials(a.Conn.Data)
			if err != nil {
				return err
			}
			type row struct {
				Name    string           `json:"name"`
				Project string           `json:"project"`
				Agent   string           `json:"agent"`
				Role    string           `json:"role"`
				Origins []beliefs.Origin `json:"origins"`
				State   string           `json:"state"`
				Issued  string           `json:"issued"`
				Expires string           `json:"expires"`
				User    string           `json:"user"`
			}
			var rows []row
			for _, i := range issued {
				r := row{Name: i.Name, Role: string(i.Role), State: i.State(time.Now()), Issued: i.Issued.Format(time.RFC3339),
					Expires: expiresText(i.Expires, 1), User: i.User}
				if i.Agent != nil {
					r.Project, r.Agent, r.Origins = i.Agent.Project, i.Agent.Name, i.Agent.Origins
				}
				if all || i.Agent != nil && r.State == "valid" {
					rows = append(rows, r)
				}
			}
			return cli.Print(cmd.OutOrStdout(), f, rows, []string{"NAME", "STATE", "ISSUED", "EXPIRES", "ORIGINS", "KEY"},
				func(r row) []string {
					return []string{r.Name, r.State, r.Issued, r.Expires, strings.Trim(fmt.Sprint(r.Origins), "[]"), r.User}
				})
		},
	}
	f.Bind(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "also list the credentials of the pipeline's roles, and expired and revoked "+
		"ones")
	return c
}

func agentRotateCommand(a *verb.App) *cobra.Command {
	var lasts time.Duration
	var keepOld bool
	c := &cobra.Command{
		Use:   "rotate PROJECT AGENT | NAME",
		Short: "Replace a credential by a new one with the same rights",
		Long: `Make a credential with a new key and the same rights, write it to the same file, and
revoke the old one. A host that uses the file in the data folder continues to work: its
client reads the file again when the server refuses the old credential. For a host with
a copy of the file, use --keep-old, copy the new file, and then revoke the old
credential with "lazaret agent revoke --old".

NAME is a credential as "lazaret agent ls --all" lists it, such as operator.`,
		Example: "  lazaret agent rotate acme support --keep-old\n  lazaret agent revoke acme support --old",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			m, err := natsserver.OpenMinter(a.Conn.Data)
			if err != nil {
				return err
			}
			var d *time.Duration
			if cmd.Flags().Changed("expires") {
				d = &lasts
			}
			name := credentialName(args)
			i, err := m.Rotate(name, d, keepOld)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "credential   %s\nexpires      %s\n", natsserver.CredsFile(a.Conn.Data, i.Name),
				expiresText(i.Expires, 1))
			if keepOld {
				fmt.Fprintf(cmd.OutOrStdout(),
					"the old credential is still valid. Once the host has the new one: lazaret agent revoke %s --old\n",
					strings.Join(args, " "))
				return nil
			}
			saySpread(a, cmd)
			return nil
		},
	}
	bindExpires(c, &lasts)
	c.Flags().Lookup("expires").DefValue = "the period for which the old credential was made; " +
		natsserver.AgentExpires.String() + " if it never expires"
	c.Flags().BoolVar(&keepOld, "keep-old", false, "leave the old credential valid, to be revoked with lazaret agent "+
		"revoke --old")
	return c
}

func agentRevokeCommand(a *verb.App) *cobra.Command {
	var old bool
	c := &cobra.Command{
		Use:   "revoke PROJECT AGENT | NAME | KEY",
		Short: "Revoke a credential: the server ends its connections and refuses it",
		Long: `Revoke the credentials of an agent, of a NAME as "lazaret agent ls --all" lists it, or
of a user's public KEY, even if it is not listed. Its HTTP tokens are revoked too, unless
another credential of the same name has replaced it. "lazaret up" applies it at once. For
separate servers, copy DATA/keys/accounts.conf to each and reload its configuration.`,
		Example: "  lazaret agent revoke acme support",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			m, err := natsserver.OpenMinter(a.Conn.Data)
			if err != nil {
				return err
			}
			r, err := m.Revoke(credentialName(args), old)
			if err != nil {
				return err
			}
			if r.Credentials == 0 {
				if err := revokedBefore(a, cmd, credentialName(args), old); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "revoked %d\n", r.Credentials)
			}
			if r.Tokens > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "revoked its HTTP tokens: %d\n", r.Tokens)
			}
			saySpread(a, cmd)
			if !old {
				return refusedNow(a, cmd, credentialName(args), r.Name)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&old, "old", false, "revoke only the earlier credentials that rotate --keep-old left valid, and "+
		"keep the latest one")
	return c
}

// revokedBefore prints that a name or key has no credential left to revoke. If old is set, the command was to revoke
// only the earlier credentials. Otherwise revokedBefore prints when the last one was revoked.
func revokedBefore(a *verb.App, cmd *cobra.Command, name string, old bool) error {
	if old {
		fmt.Fprintf(cmd.OutOrStdout(), "nothing to revoke: %s has no earlier credential that is still valid\n",
			name)
		return nil
	}
	all, err := natsserver.Credentials(a.Conn.Data)
	if err != nil {
		return err
	}
	var last time.Time
	for _, c := range all {
		if (c.Name == name || c.User == name) && c.Revoked.After(last) {
			last = c.Revoked
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(),
		"nothing to revoke: %s was revoked already, at %s; lazaret agent rotate %s makes a new one\n", name,
		last.Format(time.RFC3339), name)
	return nil
}

// saySpread prints how to apply a revocation on separately operated servers.
func saySpread(a *verb.App, cmd *cobra.Command) {
	file := natsserver.AccountsFile(a.Conn.Data)
	if _, err := os.Stat(file); err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "if you run separate servers: copy %s to each, then nats-server --signal "+
			"reload=PID\n", file)
	}
}

// refusedNow prints which servers refuse a credential that was just revoked. revoked is the name or the key that was
// revoked, and name is the name of the credential's file. If there is no such file, or it has another key, refusedNow
// prints nothing. It fails if a reachable server still accepts the credential.
func refusedNow(a *verb.App, cmd *cobra.Command, revoked, name string) error {
	file := natsserver.CredsFile(a.Conn.Data, name)
	user, _, err := natsfiles.User(file)
	if errors.Is(err, fs.ErrNotExist) || revoked != name && revoked != user {
		return nil
	}
	url, err := natsserver.ContextURL(a.Conn.Data, "operator")
	if err != nil || url == "" {
		return nil
	}
	var still []string
	for _, u := range strings.Split(url, ",") {
		refused, err := refuses(u, file)
		switch {
		case err != nil:
			fmt.Fprintf(cmd.OutOrStdout(), "%s cannot be reached: %v\n", u, err)
		case refused:
			fmt.Fprintf(cmd.OutOrStdout(), "%s refuses it\n", u)
		default:
			still = append(still, u)
		}
	}
	if len(still) > 0 {
		return &cli.Exit{Code: cli.ExitIncomplete, Text: strings.Join(still, ", ") +
			" still accepts the credential: make the server reload its configuration, then check again with the same command"}
	}
	return nil
}

// refuses reports whether a server refuses a credential. It waits up to 3 s for that.
func refuses(url, file string) (bool, error) {
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		nc, err := nats.Connect(url, nats.UserCredentials(file), nats.Timeout(2*time.Second), nats.IgnoreDiscoveredServers())
		if natsconn.Refused(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		nc.Close()
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}
