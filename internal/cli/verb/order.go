package verb

import (
	"errors"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/order"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// SignedOrder holds the options that every signed order has.
type SignedOrder struct{ Project, Key, Reason string }

// Bind adds --project, --key and --reason.
func (s *SignedOrder) Bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Project, "project", embedded.DefaultProject, "`PROJECT`")
	f.StringVar(&s.Key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.StringVar(&s.Reason, "reason", "", "why, for the log")
}

// RefusedExit converts the error of a refused order to a negative exit. It returns any other error
// unchanged.
func RefusedExit(err error) error {
	var refused *order.Refused
	if errors.As(err, &refused) {
		return cli.Negative("%s: %s", streams.CodeOrder, text.InertLine(refused.Text, 600))
	}
	return err
}
