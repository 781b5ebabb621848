package holds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/holds"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", promptsCommand) }

func promptsCommand(a *verb.App) *cobra.Command {
	return verb.Group("prompts", "Versions of prompts, each accepted with a person's signature", promptsLsCommand(a),
		promptsShowCommand(a), promptsDiffCommand(a), promptsAcceptCommand(a))
}

// projectFlag adds --project to a command on a project's prompts.
func projectFlag(c *cobra.Command, project *string) *cobra.Command {
	c.Flags().StringVar(project, "project", embedded.DefaultProject, "`PROJECT`")
	return c
}

func promptsLsCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project string
	c := &cobra.Command{Use: "ls [NAME]", Short: "List registered prompts, or the versions of one",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := verb.Arg(args)
			var list []ingest.Prompt
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				list, err = holds.Prompts(ctx, nc, project, name)
				return err
			})
			if err != nil {
				return err
			}
			var rows []promptRow
			for _, p := range list {
				for _, v := range slices.Backward(p.Versions) {
					rows = append(rows, promptRow{p.Name, v})
				}
			}
			return cli.Print(cmd.OutOrStdout(), f, rows, []string{"PROMPT", "VERSION", "SIGNED BY", "TIME", "ENTRY", "DIGEST"},
				func(r promptRow) []string {
					return []string{r.Name, fmt.Sprint(r.Version), r.By, r.Time.Format(time.DateTime),
						position.Text(r.Entry), r.Digest}
				})
		}}
	f.Bind(c.Flags())
	return projectFlag(c, &project)
}

type promptRow struct {
	Name string `json:"name"`
	streams.PromptVersion
}

func promptsShowCommand(a *verb.App) *cobra.Command {
	var project string
	return projectFlag(&cobra.Command{Use: "show NAME[@VERSION]", Short: "Print the text of a registered prompt",
		Long: "Print the text of a registered prompt: to a file or pipe byte for byte, to a terminal\n" +
			"with control characters as escapes.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, said, err := readPrompt(a, cmd, project, args[0])
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				said = text.Inert(said)
			}
			_, err = io.WriteString(w, said)
			return err
		}}, &project)
}

// readPrompt returns the name and the text of a registered version.
func readPrompt(a *verb.App, cmd *cobra.Command, project, which string) (title, said string, err error) {
	name, version, err := streams.ParsePrompt(which)
	if err != nil {
		return "", "", err
	}
	err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
		v, err := holds.PromptVersion(ctx, nc, project, name, version)
		if err != nil {
			return err
		}
		title = fmt.Sprintf("%s@%d", name, v.Version)
		said, err = holds.PromptText(ctx, nc, v)
		return err
	})
	return title, said, err
}

func promptsDiffCommand(a *verb.App) *cobra.Command {
	var project string
	return projectFlag(&cobra.Command{
		Use:     "diff NAME[@VERSION] FILE|NAME[@VERSION]",
		Short:   "Compare a registered prompt with a file or with another version; exit 3 if they differ",
		Example: "  lazaret prompts diff support support.md\n  lazaret prompts diff support@1 support@2",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			was, old, err := readPrompt(a, cmd, project, args[0])
			if err != nil {
				return err
			}
			title, next := args[1], ""
			if b, ferr := os.ReadFile(args[1]); ferr == nil {
				next = string(b)
			} else if title, next, err = readPrompt(a, cmd, project, args[1]); err != nil {
				return fmt.Errorf("%q is neither a registered prompt (%w) nor a file (%w)", args[1], err, ferr)
			}
			d := holds.PromptDiff(was, old, title, next)
			if d == "" {
				fmt.Fprintln(cmd.OutOrStdout(), "they are equal")
				return nil
			}
			fmt.Fprint(cmd.OutOrStdout(), d)
			return &cli.Exit{Code: cli.ExitIncomplete}
		}}, &project)
}

func promptsAcceptCommand(a *verb.App) *cobra.Command {
	var o resolveOptions
	var project, key string
	var yes bool
	c := &cobra.Command{
		Use:   "accept [HOLD]",
		Short: "Show a proposed prompt and its changes, and sign its acceptance",
		Long: `Show the changes that a proposed prompt makes to the latest registered version. With
--yes, sign the acceptance: the text becomes the next version. The signature covers the text.
--yes needs the HOLD whose changes you have seen, because another proposal may wait by then.`,
		Example: "  lazaret prompts accept\n" +
			"  lazaret prompts accept h7aa553e26b5780e7 --yes --key alice.key --reason \"reviewed\"",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if yes && len(args) == 0 {
				return errors.New("--yes needs the HOLD that you have seen: lazaret prompts accept shows it")
			}
			a.Conn.Resolve()
			ctx, nc, done, err := asApprover(a, cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			h, err := promptHold(ctx, nc, project, verb.Arg(args))
			if err != nil {
				return err
			}
			if err := holds.CheckShown(h); err != nil {
				return err
			}
			p := holds.ProposedPrompt(h.Verdict.Tool, h.Body)
			w := cmd.OutOrStdout()
			var latest *streams.PromptVersion
			var changes string
			err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				latest, changes, err = holds.Against(ctx, nc, h.Project, p.Name, p.Text)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "hold %s: agent %s of project %s proposes prompt %s\n", h.ID, h.Agent, h.Project, p.Name)
			if changes == "" {
				changes = fmt.Sprintf("the proposed text is the same as that of version %d\n", latest.Version)
			}
			fmt.Fprint(w, changes)
			if !yes {
				fmt.Fprintf(w, "nothing was signed; to sign: lazaret prompts accept %s --project %s --yes\n", h.ID, h.Project)
				return nil
			}
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			o.quiet = true
			rep, err := o.resolve(ctx, w, nc, h, approval.Approve, signer)
			switch {
			case err != nil:
				return err
			case rep.Error != nil && rep.Error.Code == streams.CodeApproval:
				return cli.Negative("%s: %s", rep.Error.Code, text.InertLine(rep.Text, 600))
			case rep.Error != nil:
				return fmt.Errorf("hold %s: %s: %s", h.ID, rep.Error.Code, text.InertLine(rep.Error.Message, 600))
			case rep.State != streams.HoldApproved:
				return &cli.Exit{Code: cli.ExitDeny, Text: "the hold is " + rep.State}
			}
			fmt.Fprintf(w, "REGISTERED  prompt %s, ledger entry %s\n", p.Name, position.Text(rep.Seq))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.BoolVar(&yes, "yes", false, "sign")
	verb.SignatureLife(f, &o.life)
	f.StringVar(&o.reason, "reason", "", "the reason, for the log")
	return projectFlag(c, &project)
}

// promptHold returns the named open hold on a prompt, or the only one of the project.
func promptHold(ctx context.Context, nc *nats.Conn, project, id string) (*arbiter.Hold, error) {
	if id == "" {
		var open []arbiter.Hold
		if err := query.Ask(ctx, nc, arbiter.AskHolds, streams.PartitionOf(project),
			arbiter.HoldsRequest{Project: project, State: streams.HoldOpen}, &open); err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(h arbiter.Hold) bool { return h.Verdict.Tool != streams.RegisterPrompt })
		if len(open) != 1 {
			said := fmt.Sprintf("%d prompts of project %s wait to be accepted", len(open), project)
			if len(open) > 1 {
				said += ", name one:"
			}
			for _, h := range open {
				said += fmt.Sprintf("\n  %s  agent %s", h.ID, h.Agent)
			}
			return nil, &cli.Exit{Code: cli.ExitNegative, Text: said}
		}
		id = open[0].ID
	}
	h, err := holds.Find(ctx, nc, project, id)
	switch {
	case err != nil:
		return nil, err
	case holds.ProposedPrompt(h.Verdict.Tool, h.Body) == nil:
		return nil, cli.Negative("hold %s is not about a prompt: see lazaret holds show %s", id, id)
	case h.State != streams.HoldOpen:
		return nil, cli.Negative("hold %s is %s: there is nothing to decide", id, h.State)
	}
	return h, nil
}
