package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/internal/notify"
	"lazaret/pkg/position"
)

func init() {
	Verbs.Add("", notifyCommand)
	Verbs.Add("notify", notifyDeadCommand, notifyAckCommand)
}

func notifyCommand(a *verb.App) *cobra.Command {
	var file string
	load := func() (*notify.Config, error) {
		a.Conn.Resolve()
		file = cmp.Or(file, filepath.Join(a.Conn.Data, "notify.yaml"))
		conf, err := notify.Load(file)
		return conf, cli.Invalid(err)
	}
	c := verb.Group(
		"notify",
		"Notifications of holds and alerts",
		notifyRunCommand(a, load),
		notifyInitCommand(a, load),
		notifyCheckCommand(load),
		notifyTestCommand(a, load),
	)
	c.PersistentFlags().StringVar(&file, "config", "", "configuration `FILE` (default DATA/notify.yaml)")
	return c
}

func notifyRunCommand(a *verb.App, load func() (*notify.Config, error)) *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Deliver notifications for a separate NATS server",
		Long: `Deliver notifications until it is stopped (as "lazaret up --notify FILE" does). Each route uses
the credential notify-ROUTE of "lazaret notify init", which can only read the ledger and fetch
from the route's consumer. Of the data folder, the command needs creds/, nats/ and notify/. Run
one process per data folder.`,
		Example: "  lazaret notify init && lazaret notify run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := load()
			if err != nil {
				return err
			}
			log := verb.Log(verbose)
			fmt.Fprintf(cmd.OutOrStdout(), "delivering notifications of %d routes\n", len(conf.Routes))
			return notify.Run(
				cmd.Context(),
				conf,
				notify.Options{Data: a.Conn.Data, Log: log, Connect: func(route string) (*nats.Conn, error) {
					f, role := a.Conn, string(natsserver.NotifyRole(route))
					if f.Server != "" && f.Creds == "" {
						f.Creds = natsserver.CredsFile(f.Data, role)
					}
					return f.Connect(role, natsconn.Daemon(log)...)
				}},
			)
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log what happens")
	return c
}

func notifyInitCommand(a *verb.App, load func() (*notify.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make missing credentials and consumers of routes",
		Long: `Make the credential notify-ROUTE and a durable consumer of the ledger with that name for each
route that lacks them. A new route starts with the next ledger entry. The command needs the
operator's credential and the data folder's keys/.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := load()
			if err != nil {
				return err
			}
			m, err := natsserver.OpenMinter(a.Conn.Data)
			if err != nil {
				return err
			}
			url := a.Conn.Server
			if url == "" {
				if url, err = natsserver.ContextURL(a.Conn.Data, "operator"); err != nil {
					return err
				}
			}
			for _, r := range conf.Routes {
				role := natsserver.NotifyRole(r.Name)
				if err := m.Install(natsserver.Grant{Name: string(role), Role: role, Lasts: natsserver.RoleExpires,
					Description: "Lazaret: notifications of route " + r.Name}, url, true); err != nil {
					return err
				}
			}
			err = a.Operator(
				cmd.Context(),
				func(ctx context.Context, nc *nats.Conn) error { return notify.Ensure(ctx, nc, conf) },
			)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d routes are ready: lazaret notify run\n", len(conf.Routes))
			}
			return err
		},
	}
}

func notifyCheckCommand(load func() (*notify.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := load()
			if err != nil {
				return err
			}
			for _, r := range conf.Routes {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", r.Name, r.Kind())
			}
			return nil
		},
	}
}

func notifyTestCommand(a *verb.App, load func() (*notify.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "test [ROUTE…]",
		Short: "Send a notification through routes, by default through all",
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := load()
			if err != nil {
				return err
			}
			want := make(map[string]bool)
			for _, s := range args {
				want[s] = true
			}
			failed := 0
			for _, r := range conf.Routes {
				if len(args) > 0 && !want[r.Name] {
					continue
				}
				delete(want, r.Name)
				ctx, cancel := a.Timeout(cmd.Context())
				err := r.Test(ctx, conf.Console)
				cancel()
				if err != nil {
					failed++
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: %v\n", r.Name, r.Kind(), err)
				} else {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: accepted by the receiver\n", r.Name, r.Kind())
				}
			}
			for s := range want {
				return fmt.Errorf("the configuration has no route %q", s)
			}
			if failed > 0 {
				return cli.Negative("%d routes do not deliver", failed)
			}
			return nil
		},
	}
}

func notifyDeadCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	c := &cobra.Command{
		Use:   "dead",
		Short: "List undelivered notifications",
		Long: `List the dead letters of the data folder: notifications that a receiver refused, or whose
delivery failed for longer than the route's give_up. They contain no texts; see the ledger
entry or the console.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			list, err := notify.DeadLetters(a.Conn.Data)
			if err != nil {
				return err
			}
			return cli.Print(
				cmd.OutOrStdout(),
				f,
				list,
				[]string{"TIME", "ROUTE", "KIND", "PROJECT", "ENTRY", "ERROR"},
				func(d notify.Dead) []string {
					entry := position.Text(d.Entry)
					if d.To != 0 {
						entry += "-" + position.Text(d.To)
					}
					return []string{d.Time.Format(time.DateTime), d.Route, string(d.Kind), d.Project, entry, d.Error}
				},
			)
		},
	}
	f.Bind(c.Flags())
	return c
}

func notifyAckCommand(a *verb.App) *cobra.Command {
	var by string
	c := &cobra.Command{
		Use:   "ack PROJECT/HOLD | PROJECT/RULE",
		Short: "Acknowledge notifications, which ends their repetition",
		Long: `Acknowledge the notifications sent so far of a hold, or of a rule in a project. No route
repeats them. A hold stays open: resolve it with "lazaret holds" or in the console.

Exit codes: 0 acknowledged; 1 could not run; 2 no route would have repeated a notification,
for example because it was acknowledged before.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if by == "" {
				if u, err := user.Current(); err == nil {
					by = u.Username
				}
			}
			routes, before, err := notify.Acknowledge(a.Conn.Data, notify.Ack{Thread: args[0], By: by, Time: time.Now().UTC()})
			if err != nil {
				return err
			}
			if len(routes) == 0 && before != nil {
				return cli.Negative("%s was acknowledged before, by %s at %s, and no notification of it was sent since",
					verb.Quote(args[0], 200), verb.Quote(before.By, 64), before.Time.Format(time.RFC3339))
			}
			if len(routes) == 0 {
				return cli.Negative("no route would have repeated a notification of %s: the hold or alert is settled, no "+
					"notification of it was sent, it was repeated as often as the routes say, or no route has the key repeat",
					verb.Quote(args[0], 200))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "acknowledged %s: not repeated by %s\n", args[0], strings.Join(routes, ", "))
			return nil
		},
	}
	c.Flags().StringVar(&by, "by", "", "`NAME` of the person (default the user of this machine)")
	return c
}

// notifications delivers notifications while the pipeline runs, if file names a configuration. stop may
// be called more than once.
func notifications(
	ctx context.Context,
	p *embedded.Pipeline,
	cfg embedded.Config,
	file, console string,
) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	conf, err := notify.Load(file)
	if err != nil {
		return nil, err
	}
	conf.Console = cmp.Or(conf.Console, strings.TrimSuffix(console, "/"))
	op, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		return nil, err
	}
	err = notify.Ensure(ctx, op, conf)
	op.Close()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := notify.Run(
			ctx,
			conf,
			notify.Options{Data: cfg.Data, Log: cfg.Log, Connect: func(route string) (*nats.Conn, error) {
				return p.Server.Connect(natsserver.NotifyRole(route))
			}},
		)
		if err != nil && !errors.Is(err, context.Canceled) {
			cfg.Log.Error("no notifications are delivered", "err", err)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done }), nil
}
