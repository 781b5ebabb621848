package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", mcpCommand, notesCommand) }

func mcpCommand(a *verb.App) *cobra.Command {
	var calls, warm int
	var noSync, json bool
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Measure the latency that the proxy adds to an MCP call (exit 2 when a budget is missed)",
		Long: `Start lazaret up in a new folder, and call the tool of an MCP server alternately
directly and through "lazaret mcp". Server, proxy and pipeline are separate processes.
Each call returns a different text of 1 KiB.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if calls < 10 || warm < 0 {
				return fmt.Errorf("--calls %d --warm %d: use at least 10 calls, and a warm-up of 0 or more", calls, warm)
			}
			data, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			rep, err := benchMCP(cmd.Context(), data, !noSync, warm, calls)
			if err != nil {
				return err
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&calls, "calls", 10_000, "number of measured calls of each kind")
	f.IntVar(&warm, "warm", 500, "number of calls of each kind before the measurement")
	f.BoolVar(&noSync, "no-sync", false, "acknowledge before data is on disk")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// notesCommand is the server of bench mcp.
func notesCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:    "notes",
		Short:  "The MCP server of bench mcp",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return bench.ServeNotes(cmd.Context()) },
	}
}

// benchMCP starts a pipeline and measures calls of a server whose tools are accepted.
func benchMCP(ctx context.Context, data string, sync bool, warm, calls int) (rep *bench.MCPReport, err error) {
	up, err := startUp(ctx, data, sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output := func(args ...string) ([]byte, error) {
		out, err := exec.CommandContext(ctx, self, append(args, "--data", data)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("lazaret %v: %w: %s", args, err, bytes.TrimSpace(out))
		}
		return out, nil
	}
	run := func(args ...string) error {
		_, err := output(args...)
		return err
	}
	key := filepath.Join(data, "approver.key")
	if err := run("key", "gen", "approver", key, "--pin", "approver"); err != nil {
		return nil, err
	}
	if err := run("key", "activate"); err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	connect := func(args ...string) (*mcp.ClientSession, error) {
		c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
				select {
				case changed <- struct{}{}:
				default:
				}
			}})
		return c.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(self, args...)}, nil)
	}
	direct, err := connect("bench", "notes")
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	defer direct.Close()
	proxied, err := connect("mcp", "--data", data, "--wait", "0s", "--", self, "bench", "notes")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	defer proxied.Close()
	for accepted := false; ; {
		l, err := proxied.ListTools(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("listing the tools of the proxy: %w", err)
		}
		if len(l.Tools) > 0 {
			break
		}
		if !accepted {
			accepted = true
			out, err := output("mcp", "review", "--json")
			if err != nil {
				return nil, err
			}
			var list holds.Review
			if err := streams.Unmarshal(out, &list); err != nil {
				return nil, fmt.Errorf("lazaret mcp review: %w", err)
			}
			if err := run("mcp", "review", list.Hold, "--key", key, "--yes", "--level", bench.MCPTool+"=L1"); err != nil {
				return nil, err
			}
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if rep, err = bench.CallMCP(ctx, direct, proxied, warm, calls); err == nil {
		rep.SyncAlways = sync
	}
	return rep, err
}
