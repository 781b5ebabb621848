package agent

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/streams"
)

func init() { Verbs.Add("", rememberCommand) }

func rememberCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var m streams.Memory
	var from string
	var secrecy verb.Sensitivity
	c := &cobra.Command{
		Use:   "remember [TEXT|-]",
		Short: "Propose a write to an agent's memory",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			org, err := verb.Origin(from)
			if err != nil {
				return err
			}
			if m.Content, err = verb.Content(cmd, args); err != nil {
				return err
			}
			m.Head, m.Sensitivity = s.Head(), secrecy.Sensitivity
			return Ask(a, cmd, &s, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Remember(ctx, org, &m)
			})
		},
	}
	s.Bind(c)
	c.Flags().StringVar(&from, "origin", "agent", "`ORIGIN` of the memory")
	c.Flags().StringVar(&m.Key, "key", "", "memory `KEY`")
	c.Flags().StringVar(&m.Category, "category", "", "`CATEGORY` of the memory")
	c.Flags().Var(&secrecy, "sensitivity",
		"`SENSITIVITY` of the memory: public, internal, confidential or secret")
	c.Flags().StringVar(&m.Channel, "channel", "", "write, compaction, skill or import")
	c.Flags().StringSliceVar(&m.DerivedFrom, "derived-from", nil, "`IDS` of observations or beliefs that the memory "+
		"derives from")
	return c
}
