package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/streams"
)

func init() { Verbs.Add("", sessionCommand) }

func sessionCommand(a *verb.App) *cobra.Command {
	return verb.Group("session", "Start or end a session of an agent",
		sessionPhaseCommand(a, "start", "Start a session, and clear its rejected observations",
			`Start a session. A rejected observation (LZ306) holds all proposals of its session or, if it
named no session, of all sessions of the agent. The start of a session clears the rejected
observations. Before the start, remove their content from the agent's context. A rejected
observation is also cleared when it is published again in valid form with its id. Open holds
stay open.`),
		sessionPhaseCommand(a, "end", "End a session", ""),
	)
}

func sessionPhaseCommand(a *verb.App, phase, short, long string) *cobra.Command {
	var s verb.Speaker
	var prompt, file string
	c := &cobra.Command{
		Use: phase + " [SESSION]", Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.Session = args[0]
			}
			if err := streams.CheckID("session", s.Session); err != nil {
				return err
			}
			digest := ""
			if file != "" {
				b, err := readPromptFile(file)
				if err != nil {
					return err
				}
				digest = streams.Digest(b)
			}
			cl, done, err := a.Client(&s)
			if err != nil {
				return err
			}
			defer done()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			ev := &streams.Session{Head: s.Head(), Phase: phase, Prompt: prompt, PromptDigest: digest}
			seq, err := cl.Publish(ctx, streams.KindSession, "", ev)
			if err != nil {
				return err
			}
			if s.JSON {
				return cli.JSON(cmd.OutOrStdout(), map[string]any{"id": ev.ID, "session": s.Session, "phase": phase,
					"intake_seq": seq})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "session %s: %s, intake message %d\n", s.Session, phase, seq)
			return nil
		},
	}
	s.Bind(c)
	if phase == "end" {
		return c
	}
	c.Flags().StringVar(&prompt, "prompt", "", "`VERSION` of the system prompt in use: NAME@NUMBER, for example "+
		"support@2, or NAME for the latest version. Any text if the prompt is not registered")
	c.Flags().StringVar(&file, "prompt-file", "",
		"`FILE` with the text of that prompt; its digest is compared with that of the registered version")
	return c
}
