package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/admin"
	"lazaret/internal/cli/agent"
	"lazaret/internal/cli/audit"
	"lazaret/internal/cli/beliefs"
	"lazaret/internal/cli/bench"
	"lazaret/internal/cli/holds"
	"lazaret/internal/cli/hosts"
	"lazaret/internal/cli/lab"
	"lazaret/internal/cli/policy"
	"lazaret/internal/cli/rules"
	"lazaret/internal/cli/verb"
	"lazaret/internal/daemon"
	"lazaret/internal/hookcli"
)

// main runs a daemon if the program is started under the daemon's name.
func main() {
	if d, ok := daemon.Named(filepath.Base(os.Args[0])); ok {
		d.Main()
		return
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return cli.ExitOK
	}
	var exit *cli.Exit
	if errors.As(err, &exit) {
		if exit.Text != "" {
			fmt.Fprintln(os.Stderr, "lazaret:", exit.Text)
		}
		return exit.Code
	}
	fmt.Fprintln(os.Stderr, "lazaret:", err)
	var hook *hookcli.Failed
	if errors.As(err, &hook) {
		return hook.Code
	}
	return cli.ExitFailed
}

func newRoot() *cobra.Command {
	return verb.Root(admin.Verbs, agent.Verbs, audit.Verbs, beliefs.Verbs, bench.Verbs, holds.Verbs, hosts.Verbs,
		lab.Verbs, policy.Verbs, rules.Verbs)
}
