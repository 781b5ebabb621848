package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/mcpwire"
	"lazaret/internal/metrics"
	"lazaret/internal/token"
	"lazaret/streams"
)

// defaultMCPListen is the default address of MCP over HTTP.
const defaultMCPListen = "127.0.0.1:4290"

// mcpServers is a file of servers in the format of MCP hosts.
type mcpServers struct {
	Servers map[string]mcpServer      `json:"mcpServers"`
	Unread  map[string]jsontext.Value `json:",embed"`
}

// mcpServer has a command or a URL.
type mcpServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Type    string            `json:"type"` // ignored: the other fields already tell the type

	Unread map[string]jsontext.Value `json:",embed"`
}

// unread returns the names in the file that are not read.
func (m *mcpServers) unread() []string {
	names := slices.Collect(maps.Keys(m.Unread))
	for name, x := range m.Servers {
		for k := range x.Unread {
			names = append(names, "mcpServers."+name+"."+k)
		}
	}
	return names
}

func init() { Verbs.Add("mcp", mcpServeCommand) }

func mcpServeCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	h := verb.HTTPFlags{Listen: defaultMCPListen}
	cfg := mcpproxy.Config{}
	var from, file, name string
	var idle time.Duration
	var tokens bool
	c := &cobra.Command{
		Use:   "serve [flags] [-- COMMAND [ARG...] | URL]",
		Short: "Guard several MCP servers for MCP clients over HTTP",
		Long: `Serve MCP servers over Streamable HTTP, each at /NAME/mcp. A server is a command that uses
standard input and output, or the URL of a server that uses Streamable HTTP. --config reads
servers from a file {"mcpServers": {NAME: {"command", "args", "env"} or {"url",
"headers"}}}. Calls are judged and results recorded as with "lazaret mcp". Each session of a
host has its own process or upstream session.

The default address is reachable only from this machine. Another address needs TLS, and each
request needs a token of the agent's credential ("lazaret agent token new") in the header
Lazaret-Token. For a server with a command, the token may also be in Authorization. The
Authorization of a request is forwarded only to the server at the URL that the request's
path names (docs/mcp.md).`,
		Example: "  lazaret mcp serve --config servers.json\n" +
			"  lazaret mcp serve --name files -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.Origin, err = verb.Origin(from); err != nil {
				return err
			}
			info := &slog.HandlerOptions{Level: slog.LevelInfo}
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, info)).With("proxy", "lazaret mcp serve")
			servers, err := readServers(file, name, args)
			if err != nil {
				return err
			}
			verb.NoteUnread(cmd.ErrOrStderr(), "--config "+file, servers.unread())
			conf, err := h.TLS()
			if err != nil {
				return err
			}
			a.Conn.Resolve()
			e := &mcpwire.Endpoint{Servers: make(map[string]*mcpwire.Server),
				Idle: idle, Log: cfg.Log, TLS: conf, Loopback: metrics.Loopback(h.Listen)}
			if !e.Loopback && conf == nil {
				return fmt.Errorf("%s is reachable from other machines: give --http-cert and --http-key, or listen on 127.0.0.1",
					h.Listen)
			}
			if tokens || !e.Loopback {
				e.Token = tokenOf(a.Conn.Data, agentCredential(&s))
			}
			nc, err := mcpConn(a, &s, cfg.Log)
			if err != nil {
				return err
			}
			defer nc.Close()
			for name, x := range servers.Servers {
				if e.Servers[name], err = served(&s, cfg, nc, x); err != nil {
					return fmt.Errorf("server %s: %w", name, err)
				}
			}
			return serveMCP(cmd, e, h.Listen)
		},
	}
	s.Bind(c)
	f := c.Flags()
	f.MarkHidden("id")
	f.MarkHidden("json")
	f.MarkHidden("session")
	h.Bind(f, "listen", "`HOST:PORT` to serve HTTP at; port 0 picks a free port")
	f.StringVar(&file, "config", "", "`FILE` with the servers")
	f.StringVar(&name, "name", "server", "`NAME` in the path of the server given as an argument")
	f.StringVar(&from, "origin", "tool", "`ORIGIN` of the servers' content")
	f.DurationVar(&cfg.Wait, "wait", mcpproxy.DefaultWait, "how long a held call waits for an approval")
	f.DurationVar(&idle, "idle", mcpwire.DefaultIdle, "end a session that has had no request for this time")
	f.BoolVar(&tokens, "require-token", false, "require a token also from clients on this machine")
	f.StringVar(&cfg.ApprovalURL, "approval-url", "", approvalUsage)
	f.StringSliceVar(&cfg.Pass, "pass", nil, passUsage)
	return c
}

// readServers reads the servers from a file and from the arguments.
func readServers(file, name string, args []string) (*mcpServers, error) {
	m := new(mcpServers)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		if err := streams.UnmarshalExact(b, m); err != nil {
			return nil, fmt.Errorf("--config %s: %s", file, streams.DescribeJSON(err))
		}
	}
	if len(args) > 0 {
		if m.Servers == nil {
			m.Servers = make(map[string]mcpServer)
		}
		if _, twice := m.Servers[name]; twice {
			return nil, fmt.Errorf("the file also has a server %q: choose another --name", name)
		}
		x := mcpServer{Command: args[0], Args: args[1:]}
		if isURL(args) {
			x = mcpServer{URL: args[0]}
		}
		m.Servers[name] = x
	}
	if len(m.Servers) == 0 {
		return nil, errors.New("no server is named: give --config FILE, a command or a URL")
	}
	for name, x := range m.Servers {
		if err := mcpwire.CheckName(name); err != nil {
			return nil, err
		}
		if (x.Command == "") == (x.URL == "") {
			return nil, fmt.Errorf("server %s: give either a command or a url", name)
		}
	}
	return m, nil
}

// served returns a server for the endpoint. Each session has its own client.
func served(s *verb.Speaker, cfg mcpproxy.Config, nc *nats.Conn, x mcpServer) (*mcpwire.Server, error) {
	cfg.Command = append([]string{x.Command}, x.Args...)
	server := new(mcpwire.Server)
	if x.URL != "" {
		u, err := mcpwire.ParseURL(x.URL)
		if err != nil {
			return nil, err
		}
		if cfg.Command, err = mcpwire.Words(x.URL); err != nil {
			return nil, err
		}
		server.Remote = &mcpwire.Remote{URL: u, Header: make(http.Header), Log: cfg.Log}
		for k, v := range x.Headers {
			server.Remote.Header.Set(k, v)
		}
	} else {
		var env []string
		for k, v := range x.Env {
			env = append(env, k+"="+v)
		}
		slices.Sort(env)
		server.Start = func() (mcp.Connection, error) { return startMCP(cfg.Command, env, cfg.Log) }
	}
	server.Run = func(ctx context.Context, up, down mcp.Connection) error {
		host, err := client.New(nc, s.Project, s.Agent)
		if err != nil {
			return errors.Join(err, up.Close(), down.Close())
		}
		cfg := cfg
		cfg.Session = client.NewID()
		return mcpproxy.Run(ctx, cfg, host, up, down)
	}
	return server, nil
}

// tokenOf returns a function that checks a token. It accepts only the tokens of one credential.
func tokenOf(data, credential string) func(string) (string, error) {
	set := token.Open(data)
	return func(secret string) (string, error) {
		t, err := set.Find(secret)
		if err != nil {
			return "", errors.New("the token is unknown, expired or revoked")
		}
		if t.Credential != credential {
			return "", errors.New("the token belongs to another credential")
		}
		return t.ID, nil
	}
}

func serveMCP(cmd *cobra.Command, e *mcpwire.Endpoint, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	at := "http://" + l.Addr().String()
	if e.TLS != nil {
		at = "https://" + l.Addr().String()
	}
	var paths []string
	for name := range e.Servers {
		paths = append(paths, at+"/"+name+"/mcp")
	}
	slices.Sort(paths)
	fmt.Fprintln(cmd.OutOrStdout(), "MCP at "+strings.Join(paths, "\nMCP at "))
	return e.Serve(cmd.Context(), l)
}
