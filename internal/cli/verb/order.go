package verb

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/order"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// SignedOrder holds the options of every signed order.
type SignedOrder struct{ Project, Key, Reason string }

// Bind adds --project, --key and --reason.
func (s *SignedOrder) Bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Project, "project", embedded.DefaultProject, "`PROJECT`")
	f.StringVar(&s.Key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.StringVar(&s.Reason, "reason", "", "why, for the log")
}

// RefusedExit is the negative exit of an order that was refused; any other error
// is itself.
func RefusedExit(err error) error {
	var refused *order.Refused
	if errors.As(err, &refused) {
		return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("%s: %s", streams.CodeOrder,
			text.InertLine(refused.Text, 600))}
	}
	return err
}
