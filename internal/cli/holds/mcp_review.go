package holds

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/term"

	"lazaret/internal/arbiter"
	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/internal/query"
	"lazaret/internal/suggest"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// reviewOptions are the options of a review of tools.
type reviewOptions struct {
	resolveOptions
	key, project, policy string
	levels               []string
	since                time.Duration
	yes, json            bool
}

// review is a list of tools to be reviewed.
type review struct {
	*holds.Review
	Result *streams.ResolveReply `json:"result,omitzero"`

	hold *arbiter.Hold
}

func init() { Verbs.Add("mcp", mcpReviewCommand) }

func mcpReviewCommand(a *verb.App) *cobra.Command {
	var o reviewOptions
	c := &cobra.Command{
		Use:   "review [HOLD]",
		Short: "Accept a server's tools and their levels with one signature",
		Long: `Show a list of tools that waits for acceptance. Each tool has a proposed level with its
reason: an entry or profile of the signed policy, the server's own hint, the words of the
tool's name, description and arguments, or earlier calls in the ledger. Change levels with
--level or at the prompt, then sign once. The signature covers the list, the server and the
command that starts it. A changed list needs another review.

A profile lowers a level only if the command that starts the server names the profile's
package. The server's own hints (annotations) are shown, but they are only claims of the
server. A hint lowers the level of a tool only if the policy has no entry for any word of
the tool's name. A hint that raises the level always counts. Without a terminal, signing
needs --yes with the HOLD that you have seen, because another list may wait by then.`,
		Example: "  lazaret mcp review --key alice.key\n  lazaret mcp review h7aa553e26b5780e7 --level delete_note=L3 " +
			"--yes --key alice.key",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReview(a, cmd, &o, verb.Arg(args))
		},
	}
	f := c.Flags()
	f.StringVar(&o.key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.StringArrayVar(&o.levels, "level", nil, "accept a tool at another level, `TOOL=L2`; repeatable")
	f.BoolVar(&o.yes, "yes", false, "sign without asking")
	f.BoolVar(&o.json, "json", false, "print JSON; signs only with --yes")
	f.StringVar(&o.policy, "policy", "", "propose levels by the policy in `FILE` (default: the shipped policy)")
	verb.SignatureLife(f, &o.life)
	f.StringVar(&o.reason, "reason", "", "the reason, for the log")
	f.StringVar(&o.project, "project", "", "look in this `PROJECT` only")
	f.Var((*verb.SinceFlag)(&o.since), "seen",
		"also use the calls of these tools in the ledger of the last `DURATION`, such as 7d")
	return c
}

func runReview(a *verb.App, cmd *cobra.Command, o *reviewOptions, id string) error {
	if o.yes && id == "" {
		return errors.New("--yes needs the HOLD that you have seen: lazaret mcp review shows it")
	}
	a.Conn.Resolve()
	src := policy.Default
	if o.policy != "" {
		var err error
		if src, err = os.ReadFile(o.policy); err != nil {
			return err
		}
	}
	pol, err := policy.Compile("policy", src)
	if err != nil {
		return err
	}
	nc, err := a.Conn.Connect(approverRole)
	if err != nil {
		return err
	}
	defer nc.Close()
	h, err := func() (*arbiter.Hold, error) {
		ctx, cancel := a.Timeout(cmd.Context())
		defer cancel()
		return catalogueHold(ctx, nc, o.project, id)
	}()
	if err != nil {
		return err
	}
	if err := holds.CheckShown(h); err != nil {
		return err
	}
	var seen *suggest.Seen
	if o.since > 0 {
		if seen, err = seenOf(a, cmd.Context(), h, o.since); err != nil {
			return err
		}
	}
	found, err := holds.NewReview(pol, h, seen)
	if err != nil {
		return err
	}
	r := &review{Review: found, hold: h}
	for _, l := range o.levels {
		if err := r.Change(l); err != nil {
			return err
		}
	}
	if !o.json {
		r.print(cmd.OutOrStdout())
	}
	sign := o.yes
	if in, ok := cmd.InOrStdin().(*os.File); !sign && !o.json && ok && term.IsTerminal(int(in.Fd())) {
		if sign, err = r.ask(in, cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if !sign {
		if o.json {
			return cli.JSON(cmd.OutOrStdout(), r)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "nothing was signed; to sign: lazaret mcp review %s --project %s --yes\n",
			h.ID, h.Project)
		return nil
	}
	signer, err := keys.LoadSigner(o.key)
	if err != nil {
		return err
	}
	ctx, cancel := a.Timeout(cmd.Context())
	defer cancel()
	return r.sign(ctx, cmd.OutOrStdout(), nc, o, signer)
}

// catalogueHold returns the named open hold on a list of tools, or the only open one.
func catalogueHold(ctx context.Context, nc *nats.Conn, project, id string) (*arbiter.Hold, error) {
	if id == "" {
		var open []arbiter.Hold
		for _, p := range query.Partitions(project) {
			var page []arbiter.Hold
			if err := query.Ask(ctx, nc, arbiter.AskHolds, p, arbiter.HoldsRequest{Project: project, State: streams.HoldOpen},
				&page); err != nil {
				return nil, err
			}
			open = append(open, slices.DeleteFunc(page, func(h arbiter.Hold) bool {
				return h.Verdict.Tool != streams.ApproveTools
			})...)
		}
		switch len(open) {
		case 0:
			return nil, &cli.Exit{Code: cli.ExitNegative, Text: "no list of tools waits to be accepted"}
		case 1:
			id, project = open[0].ID, open[0].Project
		default:
			text := fmt.Sprintf("%d lists of tools wait to be accepted, name one:", len(open))
			for _, h := range open {
				text += fmt.Sprintf("\n  %s  %s, agent %s", h.ID, h.Project, h.Agent)
			}
			return nil, &cli.Exit{Code: cli.ExitNegative, Text: text}
		}
	}
	h, err := holds.Find(ctx, nc, project, id)
	switch {
	case err != nil:
		return nil, err
	case h.Verdict.Tool != streams.ApproveTools:
		return nil, cli.Negative("hold %s is not about a list of tools: see lazaret holds show %s", id, id)
	case h.State != streams.HoldOpen:
		return nil, cli.Negative("hold %s is %s: there is nothing to decide", id, h.State)
	case len(h.Tools) == 0:
		return nil, cli.Negative("the tools of hold %s are not shown: %s", id, h.Missing)
	}
	return h, nil
}

// seenOf reads from the ledger the calls and tools of the hold's project and agent.
func seenOf(a *verb.App, ctx context.Context, h *arbiter.Hold, since time.Duration) (*suggest.Seen, error) {
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	seen := suggest.New()
	seen.Agent = h.Agent
	err = backtest.Ledger(ctx, nc, backtest.Span{Since: time.Now().Add(-since)}, func(e *streams.Entry) error {
		if e.Project != h.Project {
			return nil
		}
		return seen.Add(e)
	})
	return seen, err
}

func (r *review) print(w io.Writer) {
	fmt.Fprintf(w, "hold %s: server %s offers %d tools to agent %s of project %s\n", r.Hold,
		text.InertLine(r.Server, 80), len(r.Tools), r.Agent, r.Project)
	if len(r.Command) > 0 {
		fmt.Fprintf(w, "  started by %s\n", text.InertLine(strings.Join(r.Command, " "), 300))
	}
	switch {
	case r.Known:
		fmt.Fprintf(w, "  profile %s of the signed policy, which the command names\n", r.Profile)
	case r.Profile != "":
		fmt.Fprintf(w, "  the server uses the name of profile %s, but its command does not name the profile's package: "+
			"the profile lowers no level\n", r.Profile)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	if said := r.hold.Instructions; said != "" {
		fmt.Fprintf(w, "  instructions: %s\n", text.InertLine(said, 1000))
		if len(said) > 1000 {
			fmt.Fprintf(w, "  lazaret holds show %s prints all instructions\n", r.Hold)
		}
	}
	for _, x := range r.Alerts {
		fmt.Fprintf(w, "  ALERT %s: %s\n", x.Rule, text.InertLine(x.Text, 300))
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(cli.Cells([]string{"TOOL", "LEVEL", "CALLS ARE", "FROM", "WHY"}), "\t"))
	for _, x := range r.Tools {
		level, why := x.Accept.String(), x.Because
		if x.Changed {
			level, why = level+" (was "+x.Level.String()+")", "changed here; "+why
		}
		for _, d := range x.Doubts {
			why += "; not counted: " + d
		}
		if x.Seen != "" {
			why += "; " + x.Seen
		}
		calls := "allowed"
		if x.Accept >= beliefs.L4 {
			calls = "held"
		}
		fmt.Fprintln(tw, strings.Join(cli.Cells([]string{x.Tool, level, calls, x.From, text.InertLine(why, 240)}), "\t"))
	}
	tw.Flush()
	fmt.Fprintln(w)
}

// ask lets the user change levels until the user signs or quits.
func (r *review) ask(in io.Reader, w io.Writer) (bool, error) {
	lines := bufio.NewScanner(in)
	for {
		fmt.Fprint(w, "TOOL=LEVEL changes a level, show TOOL prints a tool, sign accepts, quit leaves: ")
		if !lines.Scan() {
			return false, lines.Err()
		}
		switch line := strings.TrimSpace(lines.Text()); {
		case line == "sign":
			return true, nil
		case line == "quit", line == "q":
			return false, nil
		case strings.HasPrefix(line, "show "):
			h := *r.hold
			h.Tools = slices.DeleteFunc(slices.Clone(h.Tools), func(t streams.Tool) bool {
				return t.Name != strings.TrimPrefix(line, "show ")
			})
			printTools(w, &h)
		case line == "":
			r.print(w)
		default:
			if err := r.Change(line); err != nil {
				fmt.Fprintln(w, text.InertLine(err.Error(), 300))
			}
		}
	}
}

// sign accepts the list with the chosen levels.
func (r *review) sign(ctx context.Context, w io.Writer, nc *nats.Conn, o *reviewOptions, signer note.Signer) error {
	o.quiet, o.resolveOptions.levels = true, make(map[string]string)
	for _, x := range r.Tools {
		o.resolveOptions.levels[x.Tool] = x.Accept.String()
	}
	rep, err := o.resolve(ctx, w, nc, r.hold, approval.Approve, signer)
	if err != nil {
		return err
	}
	r.Result = rep
	if o.json {
		if err := cli.JSON(w, r); err != nil {
			return err
		}
	}
	switch {
	case rep.Error != nil && rep.Error.Code == streams.CodeApproval:
		return cli.Negative("%s: %s", rep.Error.Code, text.InertLine(rep.Text, 600))
	case rep.Error != nil:
		return fmt.Errorf("hold %s: %s: %s", r.Hold, rep.Error.Code, text.InertLine(rep.Error.Message, 600))
	case rep.State == streams.HoldDenied:
		return &cli.Exit{Code: cli.ExitDeny}
	case !o.json:
		fmt.Fprintf(w, "ACCEPTED  %d tools of %s, ledger entry %s\n", len(r.Tools), text.InertLine(r.Server, 80),
			position.Text(rep.Seq))
	}
	return nil
}
