// Command lazaret is the person's tool: it starts the pipeline, speaks for an
// agent, shows what was read, believed, held and logged, and verifies the log.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/daemon"
	"lazaret/internal/hookcli"
	"lazaret/internal/natsconn"
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

// app is what the commands share.
type app struct {
	conn natsconn.Flags
}

func newRoot() *cobra.Command {
	a := new(app)
	root := &cobra.Command{
		Use:   "lazaret",
		Short: "Keeps what an AI agent read apart from what it believes",
		Long: `Lazaret takes in what an agent observed, keeps what was read apart from what is
believed, lets sentinels watch for poisoning, holds or refuses actions that lean
on something suspicious, and keeps a log of it that an outsider can check.

Exit codes: 0 good, 1 could not run, 2 a negative result, 3 incomplete,
10 the verdict is hold, 11 the verdict is deny.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetFlagErrorFunc(flagError)
	a.conn.Bind(root.PersistentFlags())
	root.AddCommand(
		a.up(), a.backup(), a.restore(), a.server(), a.gateway(), a.console(), a.doctor(), a.top(), a.demo(), a.chaos(),
		a.observe(), a.session(), a.remember(), a.recall(), a.gate(), a.decide(), a.replay(), a.probe(), a.duel(),
		a.connect(), a.mcp(), a.hook(), a.memory(), a.importMemories(),
		a.alerts(), a.holds(), a.verdicts(), a.calibration(), a.beliefs(), a.world(), a.incident(), a.audit(), a.report(),
		a.state(),
		a.rules(), a.policy(), a.key(), a.agent(), a.sentinel(), a.conformance(), a.bench(), a.otel(), a.notify(),
	)
	explainArgs(root)
	return root
}

// operator runs f with an operator's connection, within the time that an
// answer may take.
func (a *app) operator(ctx context.Context, f func(ctx context.Context, nc *nats.Conn) error) error {
	nc, err := a.conn.Connect("operator")
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := a.timeout(ctx)
	defer cancel()
	return f(ctx, nc)
}

// group is a command that only holds others. By default cobra shows help for a
// word that is none of them, and a script goes on.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2,
		Args: cobra.ArbitraryArgs}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			return fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
		return fmt.Errorf("%w; `%s --help` lists its commands", err, c.CommandPath())
	}
	c.AddCommand(subs...)
	return c
}
