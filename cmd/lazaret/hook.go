package main

import (
	"github.com/spf13/cobra"

	"lazaret/internal/hookcli"
)

func (a *app) hook() *cobra.Command { return hookcli.Command("hook", &a.conn) }
