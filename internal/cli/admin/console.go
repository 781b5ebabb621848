package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lazaret/internal/cli/verb"
	"lazaret/internal/console"
	"lazaret/internal/embedded"
	"lazaret/internal/metrics"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
)

// consoleFlags are the flags of the console's addresses.
type consoleFlags struct{ listen, origin string }

func (o *consoleFlags) bind(f *pflag.FlagSet, name, usage string) {
	f.StringVar(&o.listen, name, o.listen, usage)
	f.StringVar(&o.origin, "origin", "", "`URL` that people open the console at, such as https://lazaret.example.org "+
		"(default http://localhost and the port)")
}

// serve starts the console of a pipeline in this process, and returns a one-time login link. If the
// default port is taken, it uses a free one.
func (o *consoleFlags) serve(p *embedded.Pipeline, cfg embedded.Config) (c *console.Console, link string, err error) {
	if o.listen == "off" {
		return nil, "", nil
	}
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		return nil, "", err
	}
	conf := console.Config{Data: cfg.Data, Listen: o.listen, Conn: nc, Origin: o.origin, Log: cfg.Log}
	if o.listen == "" {
		if _, port, err := net.SplitHostPort(cfg.Listen); err == nil && port == "0" {
			conf.Listen = "127.0.0.1:0"
		}
	}
	c, err = console.Start(conf)
	if o.listen == "" && errors.Is(err, syscall.EADDRINUSE) {
		conf.Listen = "127.0.0.1:0"
		c, err = console.Start(conf)
	}
	if err != nil {
		nc.Close()
		return nil, "", err
	}
	code, err := console.NewLogin(cfg.Data, console.User{Name: "operator", Role: console.RoleApprover,
		Ceiling: beliefs.Secret}, console.LoginExpires)
	if err != nil {
		c.Close()
		return nil, "", err
	}
	return c, c.LoginURL(code), nil
}

func init() {
	Verbs.Add("", consoleCommand)
	Verbs.Add("console", consoleLoginCommand)
}

func consoleCommand(a *verb.App) *cobra.Command {
	o := consoleFlags{listen: console.DefaultListen}
	h := verb.HTTPFlags{}
	var verbose bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Serve the console for a separate NATS server",
		Long: `Serve the console ("lazaret up" includes it): web pages to view, approve and audit. It
reads with the operator's credential. Each person signs in with a link from "lazaret
console login". Passkeys are bound to the host of --origin. They need a host name, not
an IP address, and TLS unless the name is localhost.`,
		Example: "  lazaret console --server tls://nats.example.org:4222\n  lazaret console --listen 0.0.0.0:4281 " +
			"--http-cert c.pem --http-key c.key --origin https://lazaret.example.org:4281",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			conf, err := h.TLS()
			if err != nil {
				return err
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			s, err := console.Start(console.Config{Data: a.Conn.Data, Listen: o.listen, Conn: nc, Origin: o.origin, TLS: conf,
				Log: verb.Log(verbose)})
			if err != nil {
				nc.Close()
				return err
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "console at %s; for a link to sign in: lazaret console login NAME\n", s.URL())
			if conf == nil && !metrics.Loopback(s.Addr) {
				fmt.Fprintln(w, "NOTE: other machines can reach the console, and it does not use TLS: sessions can be read in "+
					"transit")
			}
			<-cmd.Context().Done()
			s.Close()
			return nil
		},
	}
	o.bind(c.Flags(), "listen", "`HOST:PORT` to serve the console at; port 0 picks a free port")
	h.BindTLS(c.Flags())
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log what happens")

	return c
}

func consoleLoginCommand(a *verb.App) *cobra.Command {
	var u console.User
	var ceiling, origin string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Print a one-time link that signs a person in to the console",
		Long: `Print a one-time link that signs a person in to the console of this data folder. A viewer
can only read; an approver can also send signed decisions. A link can be limited to some
projects and to a sensitivity. The session ends after 12 hours, after two hours without a
page view, and when the console stops.`,
		Example: "  lazaret console login alice --role approver\n  lazaret console login bob --project acme --expires 1h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if err := u.Ceiling.UnmarshalText([]byte(ceiling)); err != nil {
				return fmt.Errorf("--sensitivity: %w", err)
			}
			if lasts <= 0 || lasts > console.MaxLogin {
				return fmt.Errorf("--expires is %v, but must be more than 0 and at most 24h, such as 1h", lasts)
			}
			u.Name = args[0]
			code, err := console.NewLogin(a.Conn.Data, u, lasts)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(),
				strings.TrimSuffix(cmp.Or(origin, console.LastURL(a.Conn.Data)), "/")+"/login?code="+code)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar((*string)(&u.Role), "role", string(console.RoleViewer), "viewer or approver")
	f.StringSliceVar(&u.Projects, "project", nil, "only these `PROJECTS` (default all)")
	f.StringVar(&ceiling, "sensitivity", beliefs.Internal.String(),
		"highest sensitivity that the person may read: public, internal, confidential or secret")
	f.DurationVar(&lasts, "expires", console.LoginExpires, "`TIME` until the link expires, at most 24h")
	f.StringVar(&origin, "origin", "", "`URL` that people open the console at (default that of the console that was "+
		"started\n"+
		"last with this data folder)")
	return c
}
