package verb

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Every runs do now and at every interval until the command is interrupted. It reports a
// failure and tries again: a service outlives restarts of the servers that it asks.
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
