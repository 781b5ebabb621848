// Command lazaret-hook answers a coding agent's hooks, as `lazaret hook` does. It
// is a program of its own because a host starts it for every call of a tool: it
// links no server, no stage and no rule engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lazaret/internal/hookcli"
	"lazaret/internal/natsconn"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var conn natsconn.Flags
	root := &cobra.Command{Use: hookcli.Program, Short: "Speak for a coding agent, from its hooks", SilenceUsage: true, SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return &hookcli.Failed{Code: hookcli.Blocks, Err: fmt.Errorf("no host is named that calls: use claude, not %q", args)}
		}, Args: cobra.ArbitraryArgs}
	conn.Bind(root.PersistentFlags())
	root.AddCommand(hookcli.Claude(&conn))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "lazaret:", err)
	var failed *hookcli.Failed
	if errors.As(err, &failed) {
		return failed.Code
	}
	return 1
}
