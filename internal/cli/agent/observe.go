package agent

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/streams"
)

func init() { Verbs.Add("", observeCommand) }

func observeCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var o streams.Observation
	var from string
	c := &cobra.Command{
		Use:   "observe [TEXT|-]",
		Short: "Publish content that an agent is about to read",
		Example: `  lazaret observe --tool web.fetch --source https://example.org "the page's text"
  curl -s https://example.org | lazaret observe --tool web.fetch -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			org, err := verb.Origin(from)
			if err != nil {
				return err
			}
			if o.Content, err = verb.Content(cmd, args); err != nil {
				return err
			}
			o.Head = s.Head()
			cl, done, err := a.Client(&s)
			if err != nil {
				return err
			}
			defer done()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			rep, err := cl.Submit(ctx, org, &o)
			if s.JSON && rep != nil {
				return errors.Join(cli.JSON(cmd.OutOrStdout(), rep), err)
			}
			if rep != nil && rep.Unseen {
				return fmt.Errorf("the observation was rejected: %w; all proposals of the session are held (LZ306) until you "+
					"publish the observation again in valid form with the id %s, or run `lazaret session start`", err, o.ID)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "observed %s, intake message %d\n", rep.ID, rep.IntakeSeq)
			return nil
		},
	}
	s.Bind(c)
	c.Flags().StringVar(&from, "origin", "tool", "`ORIGIN` of the content")
	c.Flags().StringVar(&o.Tool, "tool", "", "`TOOL` that returned it")
	c.Flags().StringVar(&o.Call, "call", "", "`ID` of the tool call")
	c.Flags().StringVar(&o.Source, "source", "", "where the content came from: a URL, a path, a sender")
	return c
}
