package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/natsconn"
)

func (a *app) mcp() *cobra.Command {
	var s speaker
	cfg := mcpproxy.Config{}
	var from string
	c := &cobra.Command{
		Use:   "mcp [flags] -- COMMAND [ARG...]",
		Short: "Stand between an MCP client and an MCP server (stdio)",
		Long: `Start an MCP server and speak MCP on standard input and output in its place. Every
call of a tool is proposed first; what the server returns is recorded before it is
shown; the server's list of tools has to be accepted by a person, and again whenever
it changes. All else passes. Put it in front of the server's command wherever your
MCP client is configured. An agent's built-in tools do not come along here: switch
them off, or see ` + "`lazaret hook`" + ` (docs/mcp.md).

The server does not get NATS_* and LAZARET_* of the environment.`,
		Example: `  lazaret mcp --project demo --agent agent -- npx -y @modelcontextprotocol/server-filesystem ~/notes`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.Origin, err = origin(from); err != nil {
				return err
			}
			if !cmd.Flags().Changed("session") {
				s.session = client.NewID()
			}
			cfg.Session, cfg.Command = s.session, args
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With("proxy", "lazaret mcp")
			name := "agent"
			if s.project != embedded.DefaultProject || s.agent != embedded.DefaultAgent {
				name = agentContext(s.project, s.agent)
			}
			nc, err := a.conn.Connect(name, natsconn.Daemon(cfg.Log)...)
			if err != nil {
				return err
			}
			defer nc.Close()
			if !nc.IsConnected() {
				cfg.Log.Warn("NATS is not reachable yet: every call is held until it is")
			}
			host, err := client.New(nc, s.project, s.agent)
			if err != nil {
				return err
			}
			return runMCP(cmd.Context(), cfg, host, args)
		},
	}
	s.bind(c)
	f := c.Flags()
	f.SetInterspersed(false)
	f.MarkHidden("id")
	f.MarkHidden("json")
	f.Lookup("session").DefValue = "a new one"
	f.StringVar(&cfg.Server, "name", "", "`NAME` of the server in the log (default: what it calls itself)")
	f.StringVar(&from, "origin", "tool", "`ORIGIN` of what the server returns")
	c.AddCommand(a.mcpReview())
	f.DurationVar(&cfg.Wait, "wait", mcpproxy.DefaultWait, "how long a held call waits for a person")
	return c
}

func runMCP(ctx context.Context, cfg mcpproxy.Config, host *client.Client, args []string) error {
	server := exec.Command(args[0], args[1:]...)
	server.Stderr = os.Stderr
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "LAZARET_") {
			server.Env = append(server.Env, e)
		}
	}
	down, err := (&mcp.CommandTransport{Command: server, TerminateDuration: 3 * time.Second}).Connect(ctx)
	if err != nil {
		return fmt.Errorf("starting the MCP server %s: %w", args[0], err)
	}
	up, err := (&mcp.StdioTransport{}).Connect(ctx)
	if err != nil {
		return err
	}
	return mcpproxy.Run(ctx, cfg, host, up, down)
}
