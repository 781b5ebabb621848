package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/mcpwire"
	"lazaret/internal/natsconn"
)

func init() { Verbs.Add("", mcpCommand) }

func mcpCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	cfg := mcpproxy.Config{}
	var from, tokenFile string
	c := &cobra.Command{
		Use:   "mcp [flags] -- COMMAND [ARG...] | URL",
		Short: "Guard an MCP server (stdio) for an MCP client",
		Long: `Start an MCP server and act as this server on standard input and output. Every tool call
is proposed first. The server's results are recorded before they are shown. A person must
accept the server's list of tools, and again whenever it changes. Other messages of the
protocol pass unchanged. Put "lazaret mcp --" in front of the server's command in the configuration of
your MCP client. An agent's built-in tools do not pass through it: disable them, or see
` + "`lazaret hook`" + ` (docs/mcp.md).

Instead of a command, give the URL of a server that uses Streamable HTTP. --token-file has
its bearer token. "lazaret mcp serve" serves hosts over HTTP.

The server does not get the environment variables NATS_* and LAZARET_*.`,
		Example: `  lazaret mcp --project demo --agent agent -- npx -y @modelcontextprotocol/server-filesystem ~/notes`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.Origin, err = verb.Origin(from); err != nil {
				return err
			}
			if !cmd.Flags().Changed("session") {
				s.Session = client.NewID()
			}
			cfg.Session, cfg.Command = s.Session, args
			if isURL(args) {
				if cfg.Command, err = mcpwire.Words(args[0]); err != nil {
					return err
				}
			}
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With("proxy",
				"lazaret mcp")
			nc, err := mcpConn(a, &s, cfg.Log)
			if err != nil {
				return err
			}
			defer nc.Close()
			host, err := client.New(nc, s.Project, s.Agent)
			if err != nil {
				return err
			}
			return runMCP(cmd.Context(), cfg, host, args, tokenFile)
		},
	}
	s.Bind(c)
	f := c.Flags()
	f.SetInterspersed(false)
	f.MarkHidden("id")
	f.MarkHidden("json")
	f.Lookup("session").DefValue = "a new one"
	f.StringVar(&cfg.Server, "name", "", "`NAME` of the server in the log (default: the server's own name)")
	f.StringVar(&from, "origin", "tool", "`ORIGIN` of the server's content")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` with the bearer token for the server at URL")
	f.StringVar(&cfg.ApprovalURL, "approval-url", "", approvalUsage)
	f.StringSliceVar(&cfg.Pass, "pass", nil, passUsage)

	f.DurationVar(&cfg.Wait, "wait", mcpproxy.DefaultWait, "how long a held call waits for an approval")
	return c
}

const approvalUsage = "`URL` of the page on which a person approves {hold}; clients that can open a URL show it"

const passUsage = "`METHOD` of an extension, whose requests or notifications pass without a verdict (repeatable)"

// mcpConn connects with the credential of the proxy's agent.
func mcpConn(a *verb.App, s *verb.Speaker, log *slog.Logger) (*nats.Conn, error) {
	nc, err := a.Conn.Connect(agentCredential(s), natsconn.Daemon(log)...)
	if err == nil && !nc.IsConnected() {
		log.Warn("NATS is not reachable yet; every call is held until it is reachable")
	}
	return nc, err
}

// agentCredential returns the name of the proxy's credential.
func agentCredential(s *verb.Speaker) string {
	if s.Project == embedded.DefaultProject && s.Agent == embedded.DefaultAgent {
		return "agent"
	}
	return verb.AgentContext(s.Project, s.Agent)
}

// isURL reports whether the arguments name a server by its URL instead of a command.
func isURL(args []string) bool {
	return len(args) == 1 && (strings.HasPrefix(args[0], "https://") || strings.HasPrefix(args[0], "http://"))
}

func runMCP(ctx context.Context, cfg mcpproxy.Config, host *client.Client, args []string, tokenFile string) error {
	var down mcp.Connection
	var err error
	switch {
	case isURL(args):
		u, err := mcpwire.ParseURL(args[0])
		if err != nil {
			return err
		}
		r := mcpwire.Remote{URL: u, Header: make(http.Header), Log: cfg.Log}
		if tokenFile != "" {
			b, err := os.ReadFile(tokenFile)
			if err != nil {
				return fmt.Errorf("--token-file: %w", err)
			}
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b)))
		}
		down = r.Dial()
	case tokenFile != "":
		return errors.New("--token-file is for a server at a URL")
	default:
		if down, err = startMCP(args, nil, cfg.Log); err != nil {
			return err
		}
	}
	return mcpproxy.Run(ctx, cfg, host, mcpwire.Stdio(os.Stdin, os.Stdout), down)
}

// startMCP starts an MCP server with env and with the environment of this process, except the variables NATS_* and
// LAZARET_*. These are for Lazaret's own connection.
func startMCP(args, env []string, log *slog.Logger) (mcp.Connection, error) {
	server := exec.Command(args[0], args[1:]...)
	server.Stderr = os.Stderr
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "LAZARET_") {
			server.Env = append(server.Env, e)
		}
	}
	server.Env = append(server.Env, env...)
	down, err := mcpwire.Start(server, log)
	if err != nil {
		return nil, fmt.Errorf("starting the MCP server %s: %w", args[0], err)
	}
	return down, nil
}
