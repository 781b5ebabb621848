package agent

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", decideCommand) }

func decideCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var act streams.Action
	var args string
	var why bool
	c := &cobra.Command{
		Use:   "decide TOOL",
		Short: "Ask for a verdict on an action (exit 0 allow, 10 hold, 11 deny)",
		Example: `  lazaret decide read_file --args '{"path":"notes.txt"}'
  lazaret decide send_email --args '{"to":"a@example.org"}' --beliefs b1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, pos []string) error {
			act.Head, act.Tool = s.Head(), pos[0]
			if args != "" {
				act.Args = jsontext.Value(args)
				if act.Args.Kind() != '{' || !act.Args.IsValid() {
					return fmt.Errorf("--args is not a JSON object: %s", text.InertLine(args, 80))
				}
			}
			return askAnd(a, cmd, &s, why, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Decide(ctx, &act)
			})
		},
	}
	s.Bind(c)
	c.Flags().StringVar(&args, "args", "", "arguments, a JSON `OBJECT`")
	c.Flags().StringVar(&act.Decision, "decision", "", "`ID` of the decision that the action carries out")
	c.Flags().StringSliceVar(&act.Beliefs, "beliefs", nil, "`IDS` of the beliefs that the action depends on")
	c.Flags().BoolVar(&why, "explain", false,
		"explain the verdict from the ledger, as lazaret verdict show does (with the operator's credential)")
	c.Flags().Uint64Var(&act.After, "after", 0, "the intake `SEQUENCE` of the last acknowledged message: the verdict "+
		"takes everything up to it into account")
	c.Flags().StringVar(&act.Replaces, "replaces", "",
		"`ID` of the held action that this one replaces; its hold is canceled")
	return c
}
