package hosts

import (
	"github.com/spf13/cobra"

	"lazaret/internal/cli/verb"
	"lazaret/internal/hookcli"
)

func init() { Verbs.Add("", hookCommand) }

func hookCommand(a *verb.App) *cobra.Command { return hookcli.Command("hook", &a.Conn) }
