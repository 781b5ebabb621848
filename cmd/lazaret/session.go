package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/streams"
)

func (a *app) session() *cobra.Command {
	return group("session", "Start or end a session of an agent",
		a.sessionPhase("start", "Start a session, and clear what rejected observations hold it for",
			`Start a session. It clears the rejected observations (LZ306) that hold this session, and
those that named no session and hold all sessions of the agent: give the agent a context
without what was rejected first. Publishing the observation again in valid form, under its
id, clears it too. Holds that are open stay open.`),
		a.sessionPhase("end", "End a session", ""),
	)
}

func (a *app) sessionPhase(phase, short, long string) *cobra.Command {
	var s speaker
	var prompt string
	c := &cobra.Command{
		Use: phase + " [SESSION]", Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.session = args[0]
			}
			if err := streams.CheckID("session", s.session); err != nil {
				return err
			}
			cl, done, err := a.client(&s)
			if err != nil {
				return err
			}
			defer done()
			ctx, cancel := a.timeout(cmd.Context())
			defer cancel()
			ev := &streams.Session{Head: s.head(), Phase: phase, Prompt: prompt}
			seq, err := cl.Publish(ctx, streams.KindSession, "", ev)
			if err != nil {
				return err
			}
			if s.json {
				return cli.JSON(cmd.OutOrStdout(), map[string]any{"id": ev.ID, "session": s.session, "phase": phase,
					"intake_seq": seq})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "session %s: %s, intake message %d\n", s.session, phase, seq)
			return nil
		},
	}
	s.bind(c)
	c.Flags().StringVar(&prompt, "prompt", "", "`VERSION` of the system prompt in use")
	return c
}
