package main

import (
	"errors"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/hookcli"
)

func (a *app) hook() *cobra.Command {
	c := hookcli.Claude(&a.conn)
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		var failed *hookcli.Failed
		if errors.As(err, &failed) {
			return &cli.Exit{Code: failed.Code, Text: failed.Error()}
		}
		return err
	}
	return group("hook", "Speak for a coding agent, from its hooks", c)
}
