package holds

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/client"
	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/agent"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// approverRole is the credential that resolves holds.
const approverRole = "approver"

// asApprover connects with the approver's credential, for the time of one command.
func asApprover(a *verb.App, parent context.Context) (ctx context.Context, nc *nats.Conn, done func(), err error) {
	if nc, err = a.Conn.Connect(approverRole); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := a.Timeout(parent)
	return ctx, nc, func() { cancel(); nc.Close() }, nil
}

func printHoldGroups(w io.Writer, f cli.ListFlags, items []arbiter.Hold) error {
	filter, err := cli.NewFilter(f.Where, arbiter.Hold{})
	if err != nil {
		return err
	}
	var kept []arbiter.Hold
	for _, h := range items {
		ok, err := filter.Match(h)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, h)
		}
	}
	groups := holds.Grouped(kept)
	err = cli.Print(w, cli.ListFlags{}, groups, []string{"HOLD", "ALIKE", "STATE", "PROJECT", "AGENT", "LEVEL", "TOOL",
		"EXPIRES", "WHY"}, func(g *holds.Group) []string {
		return []string{g.ID, fmt.Sprint(len(g.IDs)), g.State, g.Project, g.Agent, g.Verdict.Level, g.Verdict.Tool,
			g.Expires.Format(time.DateTime), g.Why}
	})
	if len(kept) > len(groups) {
		fmt.Fprintln(w, "of similar holds, only the first to expire is shown; --each lists all")
	}
	return err
}

func printHold(w io.Writer, h *arbiter.Hold) {
	v := &h.Verdict
	fmt.Fprintf(w, "hold %s, %s, revision %s\n", h.ID, h.State, h.Revision)
	fmt.Fprintf(w, "  project %s, agent %s, session %s, %s %s, ledger entry %s\n", h.Project, h.Agent, v.Session, v.Type,
		v.ID, position.Text(v.Proposal))
	fmt.Fprintf(w, "  opened %s, expires %s\n", h.Opened.Format(time.RFC3339), h.Expires.Format(time.RFC3339))
	if v.Tool != "" {
		fmt.Fprintf(w, "\n%s %s\n", text.InertLine(v.Tool, 200), v.Level)
	}
	body := cmp.Or(h.Body, v.Summary)
	if js := jsontext.Value(body); v.Type == streams.TypeAction && js.Indent(jsontext.WithIndentPrefix("  "),
		jsontext.WithIndent("  ")) == nil {
		fmt.Fprintf(w, "  %s\n", cli.EscapeJSON(strings.TrimSpace(string(js))))
	} else {
		fmt.Fprintf(w, "  %s\n", text.Inert(body))
	}
	printTools(w, h)
	fmt.Fprintln(w, "\nbecause")
	for _, r := range v.Reasons {
		where := string(r.Code)
		if r.Rule != "" {
			where += " " + r.Group + "/" + r.Rule
		}
		fmt.Fprintf(w, "  %-5s %s: %s\n", r.Verdict, where, text.InertLine(r.Text, 500))
		if len(r.Path) > 0 {
			fmt.Fprintf(w, "        %s\n", text.InertLine(strings.Join(r.Path, " → "), 300))
		}
	}
	printSources(w, h)
	if h.State == streams.HoldOpen {
		fmt.Fprintf(w, "\nthe signature of an approval covers: hold %s, revision %s,\n  action %s\n", h.ID, h.Revision,
			v.Digest)
		switch len(h.Approvers) {
		case 0:
		case 1:
			fmt.Fprintf(w, "  the signing key must have the role %s\n", h.Approvers[0])
		default:
			fmt.Fprintf(w, "  the signing key must have all of the roles %v\n", h.Approvers)
		}
	}
	if r := v.Resolved; r != nil {
		fmt.Fprintf(w, "\n%s by %s at %s, ledger entry %s\n", r.State, text.InertLine(r.By, 128),
			r.Time.Format(time.RFC3339), position.Text(r.Entry))
	}
}

// printTools prints the tools that a held action proposes to accept, and the server's instructions, as
// the server sent them.
func printTools(w io.Writer, h *arbiter.Hold) {
	if h.Missing != "" {
		fmt.Fprintf(w, "\nthe tools of ledger entry %s are not shown: %s\n", position.Text(h.Catalogue),
			text.InertLine(h.Missing, 300))
	}
	if len(h.Tools) == 0 {
		return
	}
	if h.Instructions != "" {
		fmt.Fprintf(w, "\nthe server's instructions\n    %s\n", strings.ReplaceAll(text.Inert(h.Instructions), "\n",
			"\n    "))
	}
	fmt.Fprintf(w, "\nthe %d tools, ledger entry %s\n", len(h.Tools), position.Text(h.Catalogue))
	for _, t := range h.Tools {
		fmt.Fprintf(w, "\n  %s, %s\n", text.InertLine(t.Name, streams.MaxNameLen), t.Digest())
		if t.Description != "" {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(text.Inert(t.Description), "\n", "\n    "))
		}
		for _, part := range []struct {
			name  string
			value jsontext.Value
		}{{"schema", t.InputSchema}, {"annotations", t.Annotations}} {
			if js := part.value.Clone(); len(js) > 0 && js.Indent(jsontext.WithIndentPrefix("    "),
				jsontext.WithIndent("  ")) == nil {
				fmt.Fprintf(w, "    %s %s\n", part.name, cli.EscapeJSON(strings.TrimSpace(string(js))))
			}
		}
	}
}

// oneHold checks that a command has exactly one hold as argument.
func oneHold(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the id of one hold, %d were given: lazaret holds ls lists the open holds",
			cmd.CommandPath(), len(args))
	}
	return nil
}

func init() { Verbs.Add("holds", showCommand, editCommand, cancelCommand, watchCommand) }

func showCommand(a *verb.App) *cobra.Command {
	var project string
	var asJSON bool
	c := &cobra.Command{Use: "show HOLD", Short: "Show a hold: its content, its reasons, and what an " +
		"approval would sign",
		Args: oneHold, RunE: func(cmd *cobra.Command, args []string) error {
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				h, err := holds.Find(ctx, nc, project, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return cli.JSON(cmd.OutOrStdout(), h)
				}
				printHold(cmd.OutOrStdout(), h)
				if h.State != streams.HoldOpen {
					return nil
				}
				return holds.CheckShown(h)
			})
		}}
	c.Flags().StringVar(&project, "project", "", "look in this `PROJECT` only")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// resolveCommand returns a command that signs a decision on holds.
func resolveCommand(a *verb.App, d approval.Decision) *cobra.Command {
	var o resolveOptions
	var key, project, revision string
	var alike int
	var asJSON bool
	c := &cobra.Command{
		Use: string(d) + " HOLD...",
		Short: map[approval.Decision]string{approval.Approve: "Sign the one-time release of a hold",
			approval.Reject: "Sign the rejection of a hold"}[d],
		Long: `Show a hold, sign the decision on it with a pinned key, and wait for the result in the
ledger. The signature covers the digest of the action, the hold and its revision, the
decision, an expiry and a nonce. It is valid once, and only as long as the hold is in the
state that you were shown.` + sourceHelp(d) + `
Exit 0 when the decision took effect, 2 when it was refused and the hold is unchanged,
11 when the hold has become a deny.

Several holds are shown and signed one by one. --alike N also decides the open holds that
are similar to HOLD (the same agent, tool, level and reason). N is the number of similar
holds, HOLD included, which lazaret holds ls shows. If there are now more or fewer than N,
nothing is signed.`,
		Example: "  lazaret holds " + string(d) + " h7aa553e26b5780e7 --key alice.key\n  lazaret holds " + string(d) +
			" h7aa553e26b5780e7 --alike 3 --key alice.key",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && (alike > 0 || revision != "") {
				return fmt.Errorf("--alike and --revision are for one HOLD, %d were named", len(args))
			}
			a.Conn.Resolve()
			if o.source.Digest != "" && (len(args) > 1 || alike > 0) {
				return fmt.Errorf("--source is for one HOLD")
			}
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			ctx, nc, done, err := asApprover(a, cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			named, err := holdsNamed(ctx, nc, project, args, alike)
			if err != nil {
				return err
			}
			if err := decidable(named, revision); err != nil {
				return err
			}
			o.quiet = o.quiet || asJSON
			var reps []*streams.ResolveReply
			code := cli.ExitOK
			for _, h := range named {
				ctx, cancel := a.Timeout(cmd.Context())
				rep, err := o.resolve(ctx, cmd.OutOrStdout(), nc, h, d, signer)
				cancel()
				if err != nil {
					return fmt.Errorf("hold %s: %w", h.ID, err)
				}
				reps = append(reps, rep)
				if !asJSON && rep.State != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "%s  hold %s, ledger entry %s: %s\n", strings.ToUpper(rep.State), rep.Hold,
						position.Text(rep.Seq), text.InertLine(rep.Text, 600))
				}
				c, err := exitCode(h.ID, rep)
				if err != nil {
					return err
				}
				code = max(code, c)
			}
			if asJSON {
				var out any = reps
				if len(args) == 1 && alike == 0 {
					out = reps[0]
				}
				if err := cli.JSON(cmd.OutOrStdout(), out); err != nil {
					return err
				}
			}
			if code != cli.ExitOK {
				return &cli.Exit{Code: code}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	verb.SignatureLife(f, &o.life)
	f.StringVar(&o.reason, "reason", "", "the reason, for the agent and the log")
	f.StringVar(&revision, "revision", "", "sign only if the hold still has this `REVISION`")
	f.IntVar(&alike, "alike", 0, "decide HOLD and all similar holds; refuse if they are not `N` together with HOLD")
	f.StringVar(&project, "project", "", "look in this `PROJECT` only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not show the holds")
	if d == approval.Approve {
		f.StringVar(&o.source.Digest, "source", "",
			"approve also the source with this `DIGEST`, or its first digits, for the session")
		f.DurationVar(&o.sourceLife, "source-for", time.Hour, "how long the source is approved")
		f.IntVar(&o.source.Actions, "source-actions", 20,
			"largest number `N` of later actions that the approval of the source covers")
	}
	return c
}

// exitCode returns the exit code for the reply to a decision. A refused decision is printed to standard error.
func exitCode(hold string, rep *streams.ResolveReply) (int, error) {
	switch {
	case rep.Error != nil && rep.Error.Code == streams.CodeApproval:
		fmt.Fprintf(os.Stderr, "lazaret: hold %s: %s: %s\n", hold, rep.Error.Code, text.InertLine(rep.Text, 600))
		return cli.ExitNegative, nil
	case rep.Error != nil:
		return 0, fmt.Errorf("hold %s: %s: %s", hold, rep.Error.Code, text.InertLine(rep.Error.Message, 600))
	case rep.State == streams.HoldDenied:
		return cli.ExitDeny, nil
	}
	return cli.ExitOK, nil
}

// decidable returns an error if a hold is not open, has another revision than the required one, or cannot be shown.
func decidable(named []*arbiter.Hold, revision string) error {
	for _, h := range named {
		if h.State != streams.HoldOpen {
			return cli.Negative("hold %s is %s: there is nothing to decide", h.ID, h.State)
		}
		if revision != "" && revision != h.Revision {
			return cli.Negative("hold %s has changed and has revision %s now: look at it again; nothing was signed", h.ID,
				h.Revision)
		}
		if err := holds.CheckShown(h); err != nil {
			return err
		}
	}
	return nil
}

// resolveOptions are the options of a decision.
type resolveOptions struct {
	life   time.Duration
	reason string
	quiet  bool
	levels map[string]string // levels of tools, if a tool list is accepted
	// source is approved together with the hold, for the time sourceLife. An empty digest means no source.
	source     approval.Source
	sourceLife time.Duration
}

// resolve signs a decision on one hold and sends it.
func (o *resolveOptions) resolve(ctx context.Context, w io.Writer, nc *nats.Conn, h *arbiter.Hold,
	d approval.Decision, signer note.Signer) (*streams.ResolveReply, error) {
	if !o.quiet {
		printHold(w, h)
		fmt.Fprintln(w)
	}
	s := approval.Statement{Version: approval.Version, Project: h.Project, Hold: h.ID, Revision: h.Revision,
		Action:   h.Verdict.Digest,
		Decision: d, Expires: time.Now().UTC().Add(o.life).Truncate(time.Second), Nonce: approval.NewNonce(),
		Reason: o.reason,
		Levels: o.levels}
	if o.source.Digest != "" {
		g, err := findSource(h, o.source.Digest)
		if err != nil {
			return nil, err
		}
		s.Source = &approval.Source{Digest: g.Digest, Session: h.Verdict.Session, Actions: o.source.Actions,
			Expires: time.Now().UTC().Add(o.sourceLife).Truncate(time.Second)}
	}
	signed, err := s.Sign(signer)
	if err != nil {
		return nil, err
	}
	return holds.Send(ctx, nc, h.Project, h.ID, signed)
}

// holdsNamed finds holds by id. If alike is not 0, it returns all holds that are similar to the first one and in the
// same state, including the first. The caller expects alike of them; if there are more or fewer, holdsNamed returns an
// error.
func holdsNamed(ctx context.Context, nc *nats.Conn, project string, ids []string, alike int) ([]*arbiter.Hold, error) {
	var out []*arbiter.Hold
	for _, id := range ids {
		h, err := holds.Find(ctx, nc, project, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o *arbiter.Hold) bool { return o.Project == h.Project && o.ID == h.ID }) {
			out = append(out, h)
		}
	}
	if alike <= 0 {
		return out, nil
	}
	first := out[0]
	var page []arbiter.Hold
	if err := query.Ask(ctx, nc, arbiter.AskHolds, streams.PartitionOf(first.Project),
		arbiter.HoldsRequest{Project: first.Project, State: first.State}, &page); err != nil {
		return nil, err
	}
	out = nil
	for i := range page {
		if holds.LikenessOf(&page[i]) != holds.LikenessOf(first) {
			continue
		}
		h, err := holds.Find(ctx, nc, first.Project, page[i].ID) // including its body
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	if len(out) != alike {
		return nil, cli.Negative("%d open holds are similar to %s now, not %d: look at them again (lazaret holds ls); "+
			"nothing was signed", len(out), first.ID, alike)
	}
	return out, nil
}

// editCommand returns the command that proposes a held action again with other arguments.
func editCommand(a *verb.App) *cobra.Command {
	var args, project, id string
	var asJSON bool
	c := &cobra.Command{
		Use:   "edit HOLD --args OBJECT",
		Short: "Propose a held action with other arguments instead (exit 0 allow, 10 hold, 11 deny)",
		Long: `An edit is a new proposal with a new id. Sentinels and policy judge it like any other, and
if it is held it needs its own approval. The hold that it replaces is canceled. Tool,
session, decision, beliefs and confidence are those of the held action. The edit is
proposed with the agent's credential: that of the default agent, or of lazaret agent add.`,
		Example: `  lazaret holds edit h7aa553e26b5780e7 --args '{"to":"bob@example.org","body":"hello"}'`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, pos []string) error {
			to := jsontext.Value(args)
			if to.Kind() != '{' || !to.IsValid() {
				return fmt.Errorf("--args is not a JSON object: %s", text.InertLine(args, 80))
			}
			var h *arbiter.Hold
			act := new(streams.Action)
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				if h, err = holds.Find(ctx, nc, project, pos[0]); err != nil {
					return err
				}
				if h.State != streams.HoldOpen || h.Verdict.Type != streams.TypeAction {
					return cli.Negative("hold %s is %s, of type %s: only an open hold of an action can be edited", h.ID,
						h.State, h.Verdict.Type)
				}
				return heldAction(ctx, nc, h, act)
			})
			if err != nil {
				return err
			}
			act.ID, act.Args, act.Replaces = id, to, h.Verdict.ID
			s := verb.Speaker{Project: h.Project, Agent: h.Agent, Session: h.Verdict.Session, ID: id, JSON: asJSON}
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n- %s\n+ %s\n\n", h.Verdict.Tool, h.Verdict.Level,
					text.InertLine(h.Body, 2000), text.InertLine(args, 2000))
			}
			return agent.Ask(a, cmd, &s, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Decide(ctx, act)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&args, "args", "", "the new arguments, a JSON `OBJECT`")
	f.StringVar(&id, "id", "", "`ID` of the new proposal (default a new one)")
	f.StringVar(&project, "project", "", "look in this `PROJECT` only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	if err := c.MarkFlagRequired("args"); err != nil {
		panic(err)
	}
	return c
}

// heldAction fills act with the ledger's data of a held action.
func heldAction(ctx context.Context, nc *nats.Conn, h *arbiter.Hold, act *streams.Action) error {
	js := wire.JetStream(nc)
	e, err := stage.ReadEntry(ctx, js, h.Verdict.Proposal)
	if err != nil {
		return err
	}
	was := new(streams.ActionEntry)
	if err := streams.Unmarshal(e.Body, was); err != nil {
		return fmt.Errorf("ledger entry %s: %w", position.Text(e.Seq), err)
	}
	act.Session, act.Tool, act.Decision, act.Confidence = was.Session, was.Tool, was.Decision, was.Confidence
	for _, b := range was.Beliefs {
		if b.Via == "" {
			act.Beliefs = append(act.Beliefs, b.ID)
		}
	}
	return nil
}

func cancelCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	c := &cobra.Command{
		Use:   "cancel PROPOSAL",
		Short: "Withdraw a held proposal, as the agent that made it",
		Long: `Withdraw a held proposal by its id. Exit 2 when the agent has no open hold of this
proposal: lazaret holds ls lists the open ones.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.CheckID("proposal", args[0]); err != nil {
				return err
			}
			cl, nc, err := a.Speak(&s)
			if err != nil {
				return err
			}
			defer nc.Close()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			said := make(chan *nats.Msg, 16)
			sub, err := nc.ChanSubscribe(fmt.Sprintf("lz.live.%s.hold.%s.*.%s", s.Project, s.Agent, streams.HoldCancelled), said)
			if err != nil {
				return err
			}
			defer sub.Unsubscribe()
			seq, err := cl.Publish(ctx, streams.KindOut, "", &streams.Outcome{Head: s.Head(), Action: args[0],
				Status: streams.HoldCancelled})
			if err != nil {
				return err
			}
			return cancelled(ctx, cmd.OutOrStdout(), said, args[0], seq)
		},
	}
	s.Bind(c)
	return c
}

// cancelPatience is how long a withdrawal waits for the hold to end.
const cancelPatience = 5 * time.Second

// cancelled waits until the hold of a withdrawn proposal has ended. seq is the intake message of the
// withdrawal.
func cancelled(ctx context.Context, w io.Writer, said <-chan *nats.Msg, id string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	for {
		select {
		case m := <-said:
			h := new(streams.HoldStateEntry)
			if streams.Unmarshal(m.Data, h) == nil && h.ID == id {
				fmt.Fprintf(w, "withdrawn: hold %s is cancelled (the withdrawal is intake message %d)\n", h.Hold, seq)
				return nil
			}
		case <-ctx.Done():
			return cli.Negative("nothing was withdrawn: this agent has no open hold of proposal %s (the request was "+
				"intake message %d); lazaret holds ls lists the open holds", id, seq)
		}
	}
}

// holdMessage has the fields of a hold's message that watch prints.
type holdMessage struct {
	Time    time.Time        `json:"time"`
	Tool    string           `json:"tool"`
	Reason  streams.Reason   `json:"reason"`
	Reasons []streams.Reason `json:"reasons"`
}

func watchCommand(a *verb.App) *cobra.Command {
	var project string
	var since time.Duration
	var asJSON bool
	c := &cobra.Command{Use: "watch", Short: "Follow holds as they are opened and end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := projectToken(project)
			if err != nil {
				return err
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			show := func(subject string, x holdMessage, body []byte) error {
				if asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), cli.EscapeJSON(strings.TrimSpace(string(body))))
					return nil
				}
				tok := strings.Split(subject, ".") // lz.live.<project>.hold.<agent>.<hold>.<state>
				if len(tok) != 7 {
					return nil
				}
				why := x.Reason.Text
				if why == "" {
					why = holds.TopReason(&streams.VerdictEntry{Reasons: x.Reasons}).Text
				}
				fmt.Fprintln(cmd.OutOrStdout(),
					strings.Join(cli.Cells([]string{x.Time.Format(time.DateTime), tok[6], tok[5], tok[2], tok[4], x.Tool, why}), "  "))
				return nil
			}
			return cli.ReadLive(cmd.Context(), nc, "lz.live."+p+".hold.>", since, true, cmd.ErrOrStderr(), show)
		}}
	c.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
	c.Flags().Var((*verb.SinceFlag)(&since), "since", "begin with the last `DURATION`, such as 7d")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
