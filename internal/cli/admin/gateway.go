package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/gateway"
	"lazaret/internal/metrics"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/internal/token"
)

// serve starts the HTTP gateway of a pipeline in this process; it returns nil if the gateway is off. If
// the default port is taken, it uses a free one, so that the pipeline still starts.
func serve(h *verb.HTTPFlags, cmd *cobra.Command, p *embedded.Pipeline, cfg embedded.Config) (*gateway.Gateway, error) {
	if h.Listen == "off" {
		return nil, nil
	}
	if err := token.Ensure(cfg.Data, natsfiles.DefaultContext); err != nil {
		return nil, fmt.Errorf("making the token of the default agent: %w", err)
	}
	conf, err := h.TLS()
	if err != nil {
		return nil, err
	}
	g := gateway.Config{Data: cfg.Data, Listen: h.Listen, TLS: conf, Log: cfg.Log, Dial: p.Server.Dial}
	if h.Listen == "" {
		if _, port, err := net.SplitHostPort(cfg.Listen); err == nil && port == "0" {
			g.Listen = "127.0.0.1:0"
		}
	}
	gw, err := gateway.Start(g)
	if h.Listen == "" && errors.Is(err, syscall.EADDRINUSE) {
		cfg.Log.Warn("the default address of HTTP is taken: a free port is used; choose one with --http", "address",
			gateway.DefaultListen)
		g.Listen = "127.0.0.1:0"
		gw, err = gateway.Start(g)
	}
	return gw, err
}

func init() {
	Verbs.Add("", gatewayCommand)
	Verbs.Add("agent", agentTokenCommand)
	Verbs.Add("agent token", tokenNewCommand, tokenLsCommand, tokenRevokeCommand)
}

func gatewayCommand(a *verb.App) *cobra.Command {
	h := verb.HTTPFlags{Listen: gateway.DefaultListen}
	var verbose bool
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the HTTP gateway for a separate NATS server",
		Long: `Serve the HTTP gateway ("lazaret up" includes it): POST /v1/{observe,decide,remember,
recall,gate,outcome} and more, described by /v1/openapi.json. A bearer token maps to one
credential in DATA/creds, and its requests use a connection with that credential, so the
NATS server enforces the same permissions. Of the data folder, the gateway needs only
creds/ and nats/, never keys/.`,
		Example: "  lazaret agent token new acme support\n  lazaret gateway --server tls://nats.example.org:4222 " +
			"--http-cert gw.pem --http-key gw.key --listen 0.0.0.0:4280",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			log := verb.Log(verbose)
			conf, err := h.TLS()
			if err != nil {
				return err
			}
			g, err := gateway.Start(gateway.Config{Data: a.Conn.Data, Listen: h.Listen, TLS: conf, Log: log,
				Dial: func(name string, opts ...nats.Option) (*nats.Conn, error) {
					f := a.Conn
					f.Context, f.Creds, f.InboxPrefix = "", "", ""
					if f.Server != "" {
						f.Creds = natsfiles.Creds(f.Data, name)
					}
					return f.Connect(name, opts...)
				}})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "HTTP at %s/v1, described by %s/v1/openapi.json\n", g.URL(), g.URL())
			if conf == nil && !metrics.Loopback(g.Addr) {
				fmt.Fprintln(cmd.OutOrStdout(),
					"NOTE: other machines can reach the gateway, and it does not use TLS: tokens can be read in transit")
			}
			<-cmd.Context().Done()
			g.Close()
			return nil
		},
	}
	h.Bind(c.Flags(), "listen", "`HOST:PORT` to serve HTTP at; port 0 picks a free port")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log what happens")
	return c
}

func agentTokenCommand(a *verb.App) *cobra.Command {
	return verb.Group("token", "Bearer tokens for the HTTP gateway")
}

func tokenNewCommand(a *verb.App) *cobra.Command {
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "new PROJECT AGENT | NAME",
		Short: "Print a new bearer token for a credential",
		Long: `Print a new bearer token for an agent's credential, or for the credential NAME as
"lazaret agent ls --all" lists it, such as viewer. The token is printed once; the data
folder stores only its SHA-256. It has the rights of the credential and expires with it.
It stays valid when the credential is rotated. A token for a revoked or expired
credential is refused: rotate the credential first.`,
		Example: "  lazaret agent token new acme support\n  lazaret agent token new viewer --expires 24h",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			name := credentialName(args)
			if strings.ContainsAny(name, `/\`) {
				return fmt.Errorf("%q is not the name of a credential: see lazaret agent ls --all", name)
			}
			if err := usable(a.Conn.Data, name); err != nil {
				return err
			}
			secret, t, err := token.New(a.Conn.Data, name, lasts)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), secret)
			fmt.Fprintf(cmd.ErrOrStderr(), "token %s of credential %s, expires %s\n", t.ID, name, tokenExpires(t))
			return nil
		},
	}
	c.Flags().DurationVar(&lasts, "expires", natsserver.AgentExpires,
		"`TIME` until the token expires; 0: it expires with the credential")
	return c
}

// usable returns an error if the credential of that name is revoked or expired. If there is no such credential, it
// returns nil, and token.New returns the error.
func usable(data, name string) error {
	user, _, err := natsfiles.User(natsfiles.Creds(data, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the credential %s: %w", name, err)
	}
	all, err := natsserver.Credentials(data)
	if err != nil {
		return err
	}
	for _, i := range all {
		if state := i.State(time.Now()); i.User == user && state != "valid" {
			return fmt.Errorf("the credential %s is %s, so the server would refuse every request with the token: "+
				"replace it with lazaret agent rotate %s first", name, state, name)
		}
	}
	return nil
}

func tokenExpires(t *token.Token) string {
	if t.Expires.IsZero() {
		return "with its credential"
	}
	return t.Expires.Format(time.RFC3339)
}

func tokenLsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var all bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List tokens with their credentials",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			list, err := token.List(a.Conn.Data)
			if err != nil {
				return err
			}
			type row struct {
				ID         string `json:"id"`
				Credential string `json:"credential"`
				State      string `json:"state"`
				Issued     string `json:"issued"`
				Expires    string `json:"expires"`
			}
			var rows []row
			for _, t := range list {
				if state := t.State(time.Now()); all || state == "valid" {
					rows = append(rows, row{t.ID, t.Credential, state, t.Issued.Format(time.RFC3339), tokenExpires(t)})
				}
			}
			return cli.Print(cmd.OutOrStdout(), f, rows, []string{"TOKEN", "CREDENTIAL", "STATE", "ISSUED", "EXPIRES"},
				func(r row) []string {
					return []string{r.ID, r.Credential, r.State, r.Issued, r.Expires}
				})
		},
	}
	f.Bind(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "also expired and revoked ones")
	return c
}

func tokenRevokeCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PROJECT AGENT | NAME | TOKEN-ID",
		Short: "Revoke a token by its id, or all tokens of a credential",
		Long: `Revoke a token by its id, or all tokens of a credential. Gateways with this data folder
refuse the next request with it, and close its feeds.
"lazaret agent revoke" revokes the tokens of the credential too.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			n, err := token.Revoke(a.Conn.Data, credentialName(args))
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("no valid token %q: see lazaret agent token ls", strings.Join(args, " "))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "revoked %d\n", n)
			return nil
		},
	}
}
