package main

import (
	"github.com/spf13/cobra"

	"lazaret/internal/hookcli"
)

func (a *app) hook() *cobra.Command {
	return group("hook", "Speak for a coding agent, from its hooks", hookcli.Claude(&a.conn))
}
