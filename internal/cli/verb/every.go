package verb

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Every calls do at an interval until the command is interrupted. It prints an error and continues, so
// that it survives restarts of the servers.
func (a *App) Every(cmd *cobra.Command, every time.Duration, do func() error) error {
	for {
		if err := do(); err != nil && cmd.Context().Err() == nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "lazaret:", err)
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}
