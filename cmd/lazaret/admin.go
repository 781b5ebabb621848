package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/rules"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// pin adds a public key to the data folder's trust file.
func (a *app) pin(public, agent string, roles []string) error {
	a.conn.Resolve()
	t, err := keys.LoadTrust(embedded.TrustFile(a.conn.Data))
	if err != nil {
		return err
	}
	pin := keys.Pin{Key: public, Agent: agent}
	for _, r := range roles {
		pin.Roles = append(pin.Roles, keys.Role(r))
	}
	if err := t.Add(pin); err != nil {
		return err
	}
	if err := t.Write(embedded.TrustFile(a.conn.Data)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "pinned in", embedded.TrustFile(a.conn.Data)+"; it resolves holds once it is in force: "+
		"lazaret key activate. Operators' keys count from the daemons' next start")
	return nil
}

func (a *app) key() *cobra.Command {
	var roles, pinned []string
	var agent string
	gen := &cobra.Command{
		Use:   "gen NAME FILE",
		Short: "Make a signing key; prints the public half",
		Long: `Make an Ed25519 signing key. The private half is written to FILE, readable by its
owner only; the public half is printed. With --pin it is also pinned in the data
folder's trust file, for the roles named.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			private, public, err := keys.Generate(args[0])
			if err != nil {
				return err
			}
			if err := keys.WritePrivate(args[1], private); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), public)
			if len(roles) == 0 {
				return nil
			}
			return a.pin(public, agent, roles)
		},
	}
	pin := &cobra.Command{
		Use:   "pin KEY",
		Short: "Pin a public key that somebody else made, such as a passkey's",
		Long: `Pin a public key in the data folder's trust file. A passkey is registered in the
console, which prints this command. A passkey resolves holds and does nothing else.`,
		Example: "  lazaret key pin alice+1b2c3d4e+/2xhe… --role approver && lazaret key activate",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.pin(args[0], agent, pinned) },
	}
	pin.Flags().StringSliceVar(&pinned, "role", []string{string(keys.RoleApprover)},
		"`ROLES`: operator, approver, approver:NAME, auditor, probe")
	pin.Flags().StringVar(&agent, "agent", "",
		"the agent whose key it is, as `PROJECT/AGENT`: it never resolves that agent's holds")
	gen.Flags().StringSliceVar(&roles, "pin", nil,
		"pin it for these `ROLES`: operator, approver, approver:NAME, auditor, probe")
	gen.Flags().StringVar(&agent, "agent", "",
		"the agent whose key it is, as `PROJECT/AGENT`: it never resolves that agent's holds")
	activate := a.activate("activate [FILE]",
		"Sign the trust file and put its approvers in force (default the data folder's)", streams.DoActivateTrust,
		func(args []string) ([]byte, error) {
			a.conn.Resolve()
			file := embedded.TrustFile(a.conn.Data)
			if len(args) == 1 {
				file = args[0]
			}
			if _, err := keys.LoadTrust(file); err != nil {
				return nil, err
			}
			return os.ReadFile(file)
		})
	return group("key", "Signing keys", gen, pin, activate)
}

// agentContext is the name of an agent's credential and context.
func agentContext(project, agent string) string { return project + "." + agent }

func (a *app) agent() *cobra.Command {
	var origins []string
	var expires time.Duration
	add := &cobra.Command{
		Use:   "add PROJECT AGENT",
		Short: "Make a credential for one agent",
		Long: `Make a credential that speaks for one agent of one project and publishes content
of the origins named, and nothing else. It belongs to the host program around the
model, never to the model. A front end needs user; a tool runner needs tool, web,
document or email. A program that holds both is trusted to keep them apart.`,
		Example: "  lazaret agent add acme support --origins tool,web,agent",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.conn.Resolve()
			ag := natsserver.Agent{Project: args[0], Name: args[1]}
			for _, o := range origins {
				org, err := origin(o)
				if err != nil {
					return err
				}
				ag.Origins = append(ag.Origins, org)
			}
			return a.install(cmd, natsserver.Grant{Name: agentContext(ag.Project, ag.Name), Agent: &ag, Lasts: expires,
				Description: fmt.Sprintf("Lazaret: agent %s/%s, origins %v", ag.Project, ag.Name, ag.Origins)})
		},
	}
	add.Flags().StringSliceVar(&origins, "origins", []string{string(beliefs.OriginTool), string(beliefs.OriginAgent)},
		"`ORIGINS` whose content it may publish")
	bindExpires(add, &expires)
	return group("agent", "Credentials of agents", add, a.agentLs(), a.agentRotate(), a.agentRevoke(), a.agentToken())
}

func (a *app) sentinel() *cobra.Command {
	var expires time.Duration
	add := &cobra.Command{
		Use:   "add GROUP",
		Short: "Make a credential for a sentinel group of your own",
		Long: `Make a credential that reads the ledger, all projects of it, and writes the group's
own ledger subject and alerts, and nothing else. The group is waited for once a
policy in force names it under groups; see docs/sentinels.md.`,
		Example: "  lazaret sentinel add judge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.CheckID("group", args[0]); err != nil {
				return err
			}
			a.conn.Resolve()
			r := natsserver.SentinelRole(args[0])
			return a.install(cmd, natsserver.Grant{Name: string(r), Role: r, Lasts: expires,
				Description: "Lazaret: sentinel group " + args[0]})
		},
	}
	bindExpires(add, &expires)
	return group("sentinel", "Sentinel groups of your own", add)
}

// install mints a credential, writes it and its context to the data folder, and prints
// where.
func (a *app) install(cmd *cobra.Command, g natsserver.Grant) error {
	m, err := natsserver.OpenMinter(a.conn.Data)
	if err != nil {
		return err
	}
	file := natsserver.CredsFile(a.conn.Data, g.Name)
	if _, err := os.Stat(file); err == nil {
		return fmt.Errorf("%s is there already: lazaret agent rotate %s makes a new one; to change its rights, revoke it "+
			"and remove the file first", file, g.Name)
	}
	url := a.conn.Server
	if url == "" {
		if url, err = natsserver.ContextURL(a.conn.Data, "operator"); err != nil {
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
		g.Inbox(), natsserver.ContextFile(a.conn.Data, g.Name), expiresText(time.Now().Add(g.Lasts), g.Lasts))
	return nil
}

func (a *app) rules() *cobra.Command {
	var f cli.ListFlags
	var ships bool
	ls := &cobra.Command{Use: "ls [DIR]", Short: "List the rules in force, or those of a folder",
		Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.listed(cmd, args, ships)
			if err != nil {
				return err
			}
			type row struct {
				ID       string `json:"id"`
				Pack     string `json:"pack"`
				Severity string `json:"severity"`
				Effect   string `json:"effect"`
				Mode     string `json:"mode"`
				Title    string `json:"title"`
			}
			var items []row
			for _, r := range set.Rules() {
				items = append(items, row{r.ID, r.Pack, r.Severity, r.Effect, r.Mode, r.Title})
			}
			return cli.Print(cmd.OutOrStdout(), f, items, []string{"RULE", "PACK", "SEVERITY", "EFFECT", "MODE", "TITLE"},
				func(r row) []string {
					return []string{r.ID, r.Pack, r.Severity, r.Effect, r.Mode, r.Title}
				})
		}}
	f.Bind(ls.Flags())
	ls.Flags().BoolVar(&ships, "shipped", false, "list the shipped rules")
	return group("rules", "Sentinel rules", a.rulesCheck(), a.rulesTest(), rulesFmt(), a.rulesExplain(), a.rulesRepl(),
		ls, a.rulesBacktest(), a.rulesShadow(), a.rulesFields(), a.rulesSchema(), a.rulesActivate())
}

// listed is the rule set of a folder, the shipped one, or the one in force.
func (a *app) listed(cmd *cobra.Command, args []string, ships bool) (*rules.Set, error) {
	if ships || len(args) > 0 {
		return compileRules(args)
	}
	nc, err := a.conn.Connect("operator")
	if err != nil {
		return nil, fmt.Errorf("asking for the rules in force: %w; lazaret rules ls --shipped needs no pipeline", err)
	}
	defer nc.Close()
	ctx, cancel := a.timeout(cmd.Context())
	defer cancel()
	return backtest.Active(ctx, nc)
}

func (a *app) policy() *cobra.Command {
	load := func(args []string) ([]byte, error) {
		b, name := policy.Default, policy.DefaultName
		if len(args) == 1 {
			var err error
			if b, err = os.ReadFile(args[0]); err != nil {
				return nil, err
			}
			name = args[0]
		}
		_, err := policy.Compile(name, b)
		return b, err
	}
	show := &cobra.Command{Use: "show", Short: "Print the shipped policy, to start one's own from", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmd.OutOrStdout().Write(policy.Default)
		}}
	return group("policy", "The arbiter's policy", policyCheck(load), policyLs(load), policyExplain(load), show,
		a.policySuggest(), a.activate("activate [FILE]", "Sign a policy and put it in force", streams.DoActivatePolicy, load))
}

// activate signs a bundle and puts it in force.
func (a *app) activate(use, short, do string, load func(args []string) ([]byte, error)) *cobra.Command {
	var key string
	c := &cobra.Command{Use: use, Short: short, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := load(args)
			if err != nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
			}
			o, err := a.openOperator(key, false)
			if err != nil {
				return err
			}
			defer o.nc.Close()
			return o.putInForce(cmd, do, b)
		}}
	c.Flags().StringVar(&key, "key", "", "operator's key `FILE` (default the data folder's)")
	return c
}

// operator signs and publishes commands.
type operator struct {
	nc         *nats.Conn
	signer     note.Signer
	timeout    time.Duration
	rejections *nats.Subscription // ingest's rejections of commands
}

// openOperator connects with the operator's key and credential. A lasting
// connection survives the server's restarts.
func (a *app) openOperator(key string, lasting bool) (*operator, error) {
	a.conn.Resolve()
	if key == "" {
		key = embedded.OperatorKey(a.conn.Data)
	}
	signer, err := keys.LoadSigner(key)
	if err != nil {
		return nil, err
	}
	var opts []nats.Option
	if lasting {
		opts = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	}
	nc, err := a.conn.Connect("operator", opts...)
	if err != nil {
		return nil, err
	}
	return &operator{nc: nc, signer: signer, timeout: a.conn.Timeout}, nil
}

// publish signs the command that puts a bundle in force, and publishes both.
func (o *operator) publish(ctx context.Context, do string, bundle []byte) error {
	if o.rejections == nil {
		sub, err := o.nc.SubscribeSync("lz.live." + streams.SystemProject + ".rejected")
		if err != nil {
			return err
		}
		o.rejections = sub
	}
	o.refusals() // of what came before
	return embedded.Activate(ctx, o.nc, o.signer, do, bundle)
}

// putInForce publishes a bundle and waits until it is in force in every partition. An
// interrupted wait is not a failed activation.
func (o *operator) putInForce(cmd *cobra.Command, do string, bundle []byte) error {
	if err := o.publish(cmd.Context(), do, bundle); err != nil {
		return err
	}
	if err := o.await(cmd.Context(), do, bundle, cmd.ErrOrStderr()); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "in force:", streams.Digest(bundle))
	return nil
}

// silent is how long a partition may not answer before await stops waiting for it.
const silent = 30 * time.Second

// await waits until a published bundle is in force in every partition, for as long as
// that takes, and writes the progress to w. Its error is a refusal, or a partition that
// does not answer.
func (o *operator) await(ctx context.Context, do string, bundle []byte, w io.Writer) error {
	digest := streams.Digest(bundle)
	said, heard := time.Now(), time.Now()
	for p := 0; p < streams.Partitions; {
		var now ingest.ActiveAnswer
		err := query.Ask(ctx, o.nc, ingest.AskActive, p, struct{}{}, &now)
		if err == nil {
			heard = time.Now()
		}
		if is := map[string]string{streams.DoActivateRules: now.Rules, streams.DoActivatePolicy: now.Policy,
			streams.DoActivateTrust: now.Trust}[do]; is == digest {
			p++
			continue
		}
		if refused := o.refusals(); refused != "" {
			return &cli.Exit{Code: cli.ExitNegative, Text: "refused: " + refused}
		}
		switch {
		case ctx.Err() != nil:
			return &cli.Exit{Code: cli.ExitIncomplete,
				Text: fmt.Sprintf("published, and in force in %d of %d partitions; the others follow when ingest reaches it: "+
					"lazaret doctor tells", p, streams.Partitions)}
		case time.Since(heard) > silent:
			return &cli.Exit{Code: cli.ExitIncomplete,
				Text: fmt.Sprintf("published, and in force in %d of %d partitions; ingest does not answer for partition %d (%v): "+
					"it takes it up when it runs again", p, streams.Partitions, p, err)}
		case time.Since(said) > 2*time.Second:
			said = time.Now()
			fmt.Fprintf(w, "in force in %d of %d partitions; ingest works on what came before it\n", p, streams.Partitions)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// refusals are ingest's rejections of commands since the bundle was published: the first,
// and their number.
func (o *operator) refusals() string {
	said, n := "", 0
	for {
		m, err := o.rejections.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		var r streams.RejectedEntry
		if streams.Unmarshal(m.Data, &r) != nil {
			continue
		}
		if n++; n == 1 {
			said = fmt.Sprintf("%s: %s", r.Code, text.InertLine(r.Reason, 600))
		}
	}
	if n > 1 {
		said += fmt.Sprintf(" (and %d more)", n-1)
	}
	return said
}
