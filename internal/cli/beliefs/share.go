package beliefs

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli"
	"lazaret/internal/cli/agent"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() { Verbs.Add("beliefs", shareCommand) }

// shareCommand returns the command that writes a belief of one project to the memory of another.
func shareCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var home, from string
	c := &cobra.Command{Use: "share ID --home PROJECT --project PROJECT --agent AGENT",
		Short: "Write a belief of one project to another project's memory as untrusted", Args: cobra.ExactArgs(1),
		Long: `Only a belief that is supported, served, clean, not expired and at most internal can be
shared. A copy is written to memory with the credential of an agent of the other project.
The copy records the belief's origin in the home project. It is as untrusted as a document:
until a person of the other project confirms it, it is staged, that is, recalls serve it as
context only.`,
		Example: "  lazaret beliefs share b7412d72grt7k2o73 --home demo --project shop --agent clerk",
		RunE: func(cmd *cobra.Command, args []string) error {
			if home == s.Project {
				return fmt.Errorf("project %s has the belief already: name another project with --project", home)
			}
			org, err := verb.Origin(from)
			if err != nil {
				return err
			}
			var ans ingest.BeliefsAnswer
			err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskBeliefs, streams.PartitionOf(home), ingest.BeliefsRequest{Project: home,
					ID: args[0]}, &ans)
			})
			if err != nil {
				return err
			}
			if len(ans.Beliefs) == 0 {
				return cli.Negative("project %s has no belief %s", home, verb.Quote(args[0], 64))
			}
			b := &ans.Beliefs[0]
			if x := b.Axes; !b.Memory || x.Truth != beliefs.Supported || x.Retrieval != beliefs.Normal ||
				x.Security != beliefs.Clean || x.Freshness == beliefs.Expired || !b.Sensitivity.Within(beliefs.Internal) {
				return cli.Negative("belief %s is not shared: it must be a supported, normal, clean memory that has not "+
					"expired and is at most internal, but it is %s: %s, %s, %s, %s and %s", b.ID, b.Kind, x.Truth, x.Retrieval,
					x.Security, x.Freshness, b.Sensitivity)
			}
			m := streams.Memory{Head: s.Head(), Content: b.Content, Key: b.Key, Channel: streams.ChannelImport,
				Sensitivity: b.Sensitivity, Triples: b.Triples, ValidFrom: b.From, ValidTo: b.To,
				Home: &beliefs.Home{Project: home, Belief: b.ID, Origin: b.Origin}}
			return agent.Ask(a, cmd, &s, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Remember(ctx, org, &m)
			})
		}}
	s.Bind(c)
	c.Flags().StringVar(&home, "home", embedded.DefaultProject, "the `PROJECT` that has the belief")
	c.Flags().StringVar(&from, "origin", "document", "`ORIGIN` with which the credential writes it")
	return c
}
