package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lazaret/internal/hookcli"
	"lazaret/internal/natsconn"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var conn natsconn.Flags
	root := hookcli.Command(hookcli.Program, &conn)
	root.SilenceUsage, root.SilenceErrors = true, true
	conn.Bind(root.PersistentFlags())
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
