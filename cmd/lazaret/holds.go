package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// approverRole is the credential that holds are resolved with.
const approverRole = "approver"

// topReason is what a hold is most about: the first of its strictest reasons
// that a rule gave, or else the first.
func topReason(v *streams.VerdictEntry) (r streams.Reason) {
	for i, x := range v.Reasons {
		if i == 0 || r.Rule == "" && x.Rule != "" {
			r = x
		}
	}
	return r
}

// holdGroup is holds that are alike: one agent, one tool, one reason.
type holdGroup struct {
	arbiter.Hold
	why string
	ids []string
}

func groupHolds(items []arbiter.Hold) []*holdGroup {
	type key struct{ state, project, agent, tool, level, why string }
	var out []*holdGroup
	by := make(map[key]*holdGroup)
	for _, h := range items {
		r := topReason(&h.Verdict)
		k := key{h.State, h.Project, h.Agent, h.Verdict.Tool, h.Verdict.Level, string(r.Code) + r.Rule}
		if r.Rule == "" {
			k.why += r.Text
		}
		g := by[k]
		if g == nil {
			g = &holdGroup{Hold: h, why: r.Text}
			by[k] = g
			out = append(out, g)
		}
		if h.Expires.Before(g.Expires) {
			g.Hold, g.why = h, r.Text // the one that ends first stands for the others
		}
		g.ids = append(g.ids, h.ID)
	}
	return out
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
	groups := groupHolds(kept)
	err = cli.Print(w, cli.ListFlags{}, groups, []string{"HOLD", "ALIKE", "STATE", "PROJECT", "AGENT", "LEVEL", "TOOL", "EXPIRES", "WHY"}, func(g *holdGroup) []string {
		return []string{g.ID, fmt.Sprint(len(g.ids)), g.State, g.Project, g.Agent, g.Verdict.Level, g.Verdict.Tool, g.Expires.Format(time.DateTime), g.why}
	})
	if len(kept) > len(groups) {
		fmt.Fprintln(w, "of holds that are alike the first to expire is shown; --each lists all")
	}
	return err
}

// findHold looks a hold up in all partitions, or in that of a project.
func findHold(ctx context.Context, nc *nats.Conn, project, id string) (*arbiter.Hold, error) {
	if err := streams.CheckID("hold", id); err != nil {
		return nil, err
	}
	for _, p := range partitionsOf(project) {
		var page []arbiter.Hold
		if err := query.Ask(ctx, nc, arbiter.AskHolds, p, arbiter.HoldsRequest{Project: project, ID: id}, &page); err != nil {
			return nil, err
		}
		if len(page) > 0 {
			return &page[0], nil
		}
	}
	return nil, &cli.Exit{Code: cli.ExitNegative, Text: "there is no hold " + id}
}

// checkShown makes sure that what is shown of a hold is what would be signed
// for: a digest that somebody else computed is not looked at, it is compared.
func checkShown(h *arbiter.Hold) error {
	v := &h.Verdict
	var digest string
	var err error
	if v.Type == streams.TypeMemory {
		key := ""
		if v.Belief != nil {
			key = v.Belief.Key
		}
		digest, err = approval.MemoryDigest(h.Project, h.Agent, v.Session, v.ID, key, h.Body)
	} else {
		digest, err = approval.ActionDigest(h.Project, h.Agent, v.Session, v.ID, v.Tool, jsontext.Value(h.Body))
	}
	if err != nil {
		return err
	}
	if digest != v.Digest {
		return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("what the arbiter shows has digest %s and what it wants signed %s: do not sign, check the ledger entry %d", digest, v.Digest, v.Proposal)}
	}
	return nil
}

func printHold(w io.Writer, h *arbiter.Hold) {
	v := &h.Verdict
	fmt.Fprintf(w, "hold %s, %s, revision %s\n", h.ID, h.State, h.Revision)
	fmt.Fprintf(w, "  project %s, agent %s, session %s, %s %s, ledger entry %d\n", h.Project, h.Agent, v.Session, v.Type, v.ID, v.Proposal)
	fmt.Fprintf(w, "  opened %s, expires %s\n", h.Opened.Format(time.RFC3339), h.Expires.Format(time.RFC3339))
	if v.Tool != "" {
		fmt.Fprintf(w, "\n%s %s\n", text.InertLine(v.Tool, 200), v.Level)
	}
	body := h.Body
	if body == "" {
		body = v.Summary
	}
	if js := jsontext.Value(body); v.Type == streams.TypeAction && js.Indent(jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  ")) == nil {
		fmt.Fprintf(w, "  %s\n", cli.EscapeJSON(strings.TrimSpace(string(js))))
	} else {
		fmt.Fprintf(w, "  %s\n", text.Inert(body))
	}
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
	if h.State == streams.HoldOpen {
		fmt.Fprintf(w, "\nan approval signs: hold %s, revision %s,\n  action %s\n", h.ID, h.Revision, v.Digest)
		if len(h.Approvers) > 0 {
			fmt.Fprintf(w, "  with a key that has %v\n", h.Approvers)
		}
	}
	if r := v.Resolved; r != nil {
		fmt.Fprintf(w, "\n%s by %s at %s, ledger entry %d\n", r.State, text.InertLine(r.By, 128), r.Time.Format(time.RFC3339), r.Entry)
	}
}

func (a *app) holdShow() *cobra.Command {
	var project string
	var asJSON bool
	c := &cobra.Command{Use: "show HOLD", Short: "Show a hold: what is held, why, and what an approval would sign", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
			h, err := findHold(ctx, nc, project, args[0])
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
			return checkShown(h)
		})
	}}
	c.Flags().StringVar(&project, "project", "", "look in this `PROJECT` only")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// holdResolve is the command that signs a decision on a hold.
func (a *app) holdResolve(d approval.Decision) *cobra.Command {
	var project, key, reason, revision string
	var life time.Duration
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:   string(d) + " HOLD",
		Short: map[approval.Decision]string{approval.Approve: "Sign that a hold is released, once", approval.Reject: "Sign that a hold is refused"}[d],
		Long: `Show a hold, sign the decision on it with a pinned key, and wait for what the ledger
says became of it. What is signed: the digest of the action, the hold and its
revision, the decision, an expiry and a nonce. It counts once, for this hold as it
is shown. Exit 0 when it was obeyed, 2 when it was refused and the hold is as it was,
11 when the hold has become a deny.`,
		Example: "  lazaret holds " + string(d) + " h7aa553e26b5780e7 --key alice.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.conn.Resolve()
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			nc, err := a.conn.Connect(approverRole)
			if err != nil {
				return err
			}
			defer nc.Close()
			ctx, cancel := a.timeout(cmd.Context())
			defer cancel()
			h, err := findHold(ctx, nc, project, args[0])
			if err != nil {
				return err
			}
			if h.State != streams.HoldOpen {
				return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("hold %s is %s: there is nothing to decide", h.ID, h.State)}
			}
			if revision != "" && revision != h.Revision {
				return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("hold %s has revision %s by now: look at it again", h.ID, h.Revision)}
			}
			if err := checkShown(h); err != nil {
				return err
			}
			if !quiet && !asJSON {
				printHold(cmd.OutOrStdout(), h)
				fmt.Fprintln(cmd.OutOrStdout())
			}
			s := approval.Statement{Version: approval.Version, Project: h.Project, Hold: h.ID, Revision: h.Revision, Action: h.Verdict.Digest,
				Decision: d, Expires: time.Now().UTC().Add(life).Truncate(time.Second), Nonce: approval.NewNonce(), Reason: reason}
			signed, err := s.Sign(signer)
			if err != nil {
				return err
			}
			rep, err := sendResolution(ctx, nc, h.Project, h.ID, signed)
			if err != nil {
				return err
			}
			if asJSON {
				if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
					return err
				}
			} else if rep.State != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  hold %s, ledger entry %d: %s\n", strings.ToUpper(rep.State), rep.Hold, rep.Seq, text.InertLine(rep.Text, 600))
			}
			switch {
			case rep.Error != nil && rep.Error.Code == streams.CodeApproval:
				fmt.Fprintf(os.Stderr, "lazaret: %s: %s\n", rep.Error.Code, text.InertLine(rep.Text, 600))
				return &cli.Exit{Code: cli.ExitNegative}
			case rep.Error != nil:
				return fmt.Errorf("%s: %s", rep.Error.Code, text.InertLine(rep.Error.Message, 600))
			case rep.State == streams.HoldDenied:
				return &cli.Exit{Code: cli.ExitDeny}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "the signer's private key `FILE` (default "+keys.EnvKey+")")
	f.DurationVar(&life, "expires", 10*time.Minute, "how long what is signed may be used, at most 24h")
	f.StringVar(&reason, "reason", "", "why, for the agent and the log")
	f.StringVar(&revision, "revision", "", "sign only if the hold still has this `REVISION`")
	f.StringVar(&project, "project", "", "look in this `PROJECT` only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not show the hold")
	return c
}

// sendResolution asks for a hold to be resolved.
func sendResolution(ctx context.Context, nc *nats.Conn, project, hold string, signed []byte) (*streams.ResolveReply, error) {
	subject, err := streams.ResolveSubject(project, hold)
	if err != nil {
		return nil, err
	}
	body, err := streams.Marshal(streams.ResolveRequest{Note: string(signed)})
	if err != nil {
		return nil, err
	}
	m, err := nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("nobody answers on %s: is the pipeline running?", subject)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w: it may be journaled, look at the hold before signing again", subject, err)
	}
	rep := new(streams.ResolveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		return nil, fmt.Errorf("answer on %s: %w", subject, err)
	}
	return rep, nil
}

func (a *app) holdCancel() *cobra.Command {
	var s speaker
	c := &cobra.Command{
		Use:   "cancel PROPOSAL",
		Short: "Withdraw a held proposal, as the agent that made it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, done, err := a.client(&s)
			if err != nil {
				return err
			}
			defer done()
			ctx, cancel := a.timeout(cmd.Context())
			defer cancel()
			seq, err := cl.Publish(ctx, streams.KindOut, "", &streams.Outcome{Head: s.head(), Action: args[0], Status: streams.HoldCancelled})
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "withdrawn, intake message", seq)
			}
			return err
		},
	}
	s.bind(c)
	return c
}

func (a *app) holdWatch() *cobra.Command {
	var project string
	var since time.Duration
	var asJSON bool
	c := &cobra.Command{Use: "watch", Short: "Follow holds as they are opened and end", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		p, err := projectToken(project)
		if err != nil {
			return err
		}
		nc, err := a.conn.Connect("operator")
		if err != nil {
			return err
		}
		defer nc.Close()
		return cli.ReadLive(cmd.Context(), nc, "lz.live."+p+".hold.>", since, true, func(subject string, body []byte) error {
			if asJSON {
				fmt.Fprintln(cmd.OutOrStdout(), cli.EscapeJSON(strings.TrimSpace(string(body))))
				return nil
			}
			tok := strings.Split(subject, ".") // lz.live.<project>.hold.<agent>.<hold>.<state>
			if len(tok) != 7 {
				return nil
			}
			var x struct {
				Time    time.Time        `json:"time"`
				Tool    string           `json:"tool"`
				Reason  streams.Reason   `json:"reason"`
				Reasons []streams.Reason `json:"reasons"`
			}
			if err := streams.Unmarshal(body, &x); err != nil {
				return err
			}
			why := x.Reason.Text
			if why == "" {
				why = topReason(&streams.VerdictEntry{Reasons: x.Reasons}).Text
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.Join(cli.Cells([]string{x.Time.Format(time.DateTime), tok[6], tok[5], tok[2], tok[4], x.Tool, why}), "  "))
			return nil
		})
	}}
	c.Flags().StringVar(&project, "project", "", "only this `PROJECT`")
	c.Flags().DurationVar(&since, "since", 0, "begin with the last `DURATION`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
