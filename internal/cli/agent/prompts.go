package agent

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() { Verbs.Add("prompts", registerPromptCommand) }

func registerPromptCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var from int
	c := &cobra.Command{
		Use:   "register NAME [FILE]",
		Short: "Propose the next version of a prompt",
		Long: `Propose a text as the next version of a prompt. The proposal is held, exit 10, until a
person accepts it by a signature: lazaret prompts accept, or the console. --from proposes
the text of an earlier version again, which becomes a new version.`,
		Example: "  lazaret prompts register support support.md\n  lazaret prompts register support --from 2",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := promptText(a, cmd, &s, args, from)
			if err != nil {
				return err
			}
			p := streams.RegisterPromptArgs{Name: args[0], Digest: streams.Digest([]byte(text)), Text: text}
			if err := p.Check(); err != nil {
				return err
			}
			body, err := streams.Marshal(p)
			if err != nil {
				return err
			}
			level := beliefs.L4 // so that a person decides under any policy
			act := streams.Action{Head: s.Head(), Tool: streams.RegisterPrompt, Args: body, Level: &level}
			return askAnd(a, cmd, &s, false, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Decide(ctx, &act)
			})
		},
	}
	s.Bind(c)
	c.Flags().IntVar(&from, "from", 0, "propose the text of this `VERSION` again")
	return c
}

// promptText returns the text to propose: of an earlier version, a file, or standard input.
func promptText(a *verb.App, cmd *cobra.Command, s *verb.Speaker, args []string, from int) (text string, err error) {
	switch {
	case from != 0 && len(args) == 2:
		return "", fmt.Errorf("name a file or --from, not both")
	case from != 0:
		err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
			v, err := holds.PromptVersion(ctx, nc, s.Project, args[0], from)
			if err != nil {
				return err
			}
			text, err = holds.PromptText(ctx, nc, v)
			return err
		})
		return text, err
	case len(args) == 2 && args[1] != "-":
		b, err := readPromptFile(args[1])
		return string(b), err
	}
	b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), streams.MaxPrompt+1))
	return string(b), err
}

// readPromptFile reads the text of a prompt from a file. It does not read more than the maximum length of a
// prompt; a longer file is an error.
func readPromptFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, streams.MaxPrompt+1))
	if err == nil && len(b) > streams.MaxPrompt {
		err = fmt.Errorf("%s has more than %d bytes, the maximum of a prompt", path, streams.MaxPrompt)
	}
	return b, err
}
