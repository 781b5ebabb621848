package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/memgate"
	"lazaret/internal/memproxy"
	"lazaret/internal/metrics"
	"lazaret/internal/natsconn"
)

func init() {
	Verbs.Add("", memoryCommand)
	Verbs.Add("memory", memoryProxyCommand)
}

func memoryCommand(a *verb.App) *cobra.Command {
	return verb.Group("memory", "Guard a memory store")
}

func memoryProxyCommand(a *verb.App) *cobra.Command {
	var project, agent, listen, upstream, from, state string
	var cfg memproxy.Config
	c := &cobra.Command{
		Use:   "proxy --kind KIND --upstream URL",
		Short: "Serve a guarding proxy of a memory store",
		Long: `Serve the HTTP interface of a memory store and forward requests to it. A write is proposed
first, and forwarded if it is allowed. Found memories are judged before they are returned:
refused ones are removed, and those that are context only get a note in their text. Unknown
paths are refused.

The headers Lazaret-Origin, Lazaret-Session and Lazaret-User state the author of a
request's content; NATS permissions limit the origins. All other headers are forwarded.`,
		Example: "  lazaret memory proxy --kind mem0 --upstream http://127.0.0.1:8000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Origin, err = verb.Origin(from); err != nil {
				return err
			}
			if cfg.Upstream, err = url.Parse(upstream); err != nil {
				return fmt.Errorf("--upstream: %w", err)
			}
			if !metrics.Loopback(listen) {
				return fmt.Errorf("%s is reachable from other machines, and the proxy asks for no token: listen on 127.0.0.1",
					listen)
			}
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("proxy", "lazaret memory")
			name := "agent"
			if project != embedded.DefaultProject || agent != embedded.DefaultAgent {
				name = verb.AgentContext(project, agent)
			}
			nc, err := a.Conn.Connect(name, natsconn.Daemon(cfg.Log)...)
			if err != nil {
				return err
			}
			defer nc.Close()
			host, err := client.New(nc, project, agent)
			if err != nil {
				return err
			}
			cfg.Judge = host
			if state == "" {
				if state, err = verb.StateDir(); err != nil {
					return fmt.Errorf("finding a folder for the ids of held writes: %w: give one with --state, or set "+
						"XDG_STATE_HOME", err)
				}
				state = filepath.Join(state, "memory-proxy", project, agent)
			}
			cfg.Held = memgate.Held(state)
			h, err := memproxy.New(cfg)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s at http://%s, in front of %s\n", cfg.Kind, l.Addr(), cfg.Upstream.Redacted())
			s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
				WriteTimeout: memproxy.MaxTime + 30*time.Second, IdleTimeout: time.Minute}
			go func() {
				<-cmd.Context().Done()
				s.Close()
			}()
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&project, "project", embedded.DefaultProject, "`PROJECT` of the agent")
	f.StringVar(&agent, "agent", embedded.DefaultAgent, "`AGENT` to act as")
	f.StringVar(&cfg.Kind, "kind", "", "`KIND` of the store: "+strings.Join(memproxy.Kinds(), ", "))
	f.StringVar(&upstream, "upstream", "", "`URL` of the store")
	f.StringVar(&listen, "listen", "127.0.0.1:4291", "`HOST:PORT` to serve at; port 0 picks a free port")
	f.StringVar(&from, "origin", "document", "`ORIGIN` of writes without a Lazaret-Origin header")
	f.StringVar(&state, "state", "", "`FOLDER` for the ids of held writes (default in $XDG_STATE_HOME/lazaret)")
	c.MarkFlagRequired("kind")
	c.MarkFlagRequired("upstream")
	return c
}
