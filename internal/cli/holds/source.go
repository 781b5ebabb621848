package holds

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/holds"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// sourceHelp is the part of a command's help on the approval of sources.
func sourceHelp(d approval.Decision) string {
	if d != approval.Approve {
		return ""
	}
	return `

If the user named a source and the action does what the source says, the hold shows the source.
--source also approves this content of the source, for the session of the hold. Later
actions that do what the source says are then not held for their level or for following the
source. Money, credentials, rights, deletions, commands and standing instructions are held all
the same. lazaret holds withdraw ends the approval.
`
}

// shortDigest returns the first digits of a digest. They are enough to tell the sources of a hold apart.
func shortDigest(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), 12)]
}

// printSources prints the sources that a held action carries out, with the lines that ask for
// something.
func printSources(w io.Writer, h *arbiter.Hold) {
	for i := range h.Sources {
		s := &h.Sources[i]
		fmt.Fprintf(w, "\nthe action follows a source that the user named: %s, observation %s, ledger entry %s\n",
			text.InertLine(s.Source, 200), text.InertLine(s.Observations[len(s.Observations)-1], 128), position.Text(s.Entry))
		lines := s.Lines(h.Body)
		for _, l := range lines {
			mark := " "
			switch {
			case l.Here:
				mark = ">"
			case l.Asks:
				mark = "*"
			}
			fmt.Fprintf(w, "  %s %s\n", mark, text.InertLine(l.Text, 1000))
		}
		if len(lines) > 0 {
			fmt.Fprintln(w, "  > marks a line with a value of this action; * marks a line that may ask for another action")
		}
		if s.Missing != "" {
			fmt.Fprintf(w, "  not shown: %s\n", text.InertLine(s.Missing, 300))
		}
		if s.Limit != "" {
			fmt.Fprintf(w, "  an approval of the source would not cover this action: %s\n", text.InertLine(s.Limit, 200))
		} else if s.Strange != "" {
			fmt.Fprintf(w, "  an approval of the source would not cover this action: neither the source nor the user names %s\n",
				text.InertLine(s.Strange, 200))
		}
		switch a := s.Approved; {
		case a != nil:
			fmt.Fprintf(w, "  approved for the session by %s with hold %s: %d of %d actions\n", text.InertLine(a.By, 128),
				a.Hold, a.Number, a.Actions)
		case h.State == streams.HoldOpen && s.Missing == "":
			fmt.Fprintf(w, "  approve it for the session: lazaret holds approve %s --source %s\n", h.ID, shortDigest(s.Digest))
		}
	}
}

// findSource returns the source of a hold whose digest begins with the given digits.
func findSource(h *arbiter.Hold, digest string) (*arbiter.ShownSource, error) {
	var found *arbiter.ShownSource
	for i := range h.Sources {
		s := &h.Sources[i]
		if !strings.HasPrefix(strings.TrimPrefix(s.Digest, "sha256:"), strings.TrimPrefix(digest, "sha256:")) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several sources of hold %s have digests that begin with %s: give more digits", h.ID, digest)
		}
		found = s
	}
	switch {
	case found == nil:
		return nil, cli.Negative("hold %s follows no source whose digest begins with %s: lazaret holds show %s", h.ID,
			text.InertLine(digest, 80), h.ID)
	case found.Missing != "":
		return nil, cli.Negative("the source cannot be shown, do not sign: %s", text.InertLine(found.Missing, 300))
	}
	return found, holds.CheckSource(found)
}

func init() { Verbs.Add("holds", withdrawCommand) }

// withdrawCommand returns the command that ends the approval of a source.
func withdrawCommand(a *verb.App) *cobra.Command {
	var key, project, reason string
	var asJSON bool
	c := &cobra.Command{
		Use:   "withdraw HOLD",
		Short: "Sign that a source is no longer approved",
		Long: `Sign that the source which was approved together with HOLD is not approved any more. Later
actions that do what the source says are held again. Actions that the approval covered are
not undone. The signer needs the same role as for an approval. Without a withdrawal, the
approval ends when it expires, when the approver's key is removed from the trust file, and
when the session is started again or ends. Exit 2 when the withdrawal was refused.`,
		Example: "  lazaret holds withdraw h7aa553e26b5780e7 --key alice.key",
		Args:    oneHold,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			ctx, nc, done, err := asApprover(a, cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			h, err := holds.Find(ctx, nc, project, args[0])
			if err != nil {
				return err
			}
			r := h.Verdict.Resolved
			if r == nil || r.Source == nil {
				return cli.Negative("no source was approved with hold %s", h.ID)
			}
			s := approval.Statement{Version: approval.Version, Project: h.Project, Hold: h.ID, Revision: h.Revision,
				Action: h.Verdict.Digest, Decision: approval.Withdraw, Nonce: approval.NewNonce(), Reason: reason,
				Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second),
				Source:  &approval.Source{Digest: r.Source.Digest, Session: r.Source.Session}}
			signed, err := s.Sign(signer)
			if err != nil {
				return err
			}
			rep, err := holds.Send(ctx, nc, h.Project, h.ID, signed)
			if err != nil {
				return err
			}
			if asJSON {
				if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
					return err
				}
			}
			switch {
			case rep.Error != nil && rep.Error.Code == streams.CodeApproval:
				return cli.Negative("hold %s: %s: %s", h.ID, rep.Error.Code, text.InertLine(rep.Text, 600))
			case rep.Error != nil:
				return fmt.Errorf("hold %s: %s: %s", h.ID, rep.Error.Code, text.InertLine(rep.Error.Message, 600))
			case !asJSON:
				fmt.Fprintf(cmd.OutOrStdout(), "%s  ledger entry %s: %s\n", strings.ToUpper(rep.State), position.Text(rep.Seq),
					text.InertLine(rep.Text, 600))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.StringVar(&reason, "reason", "", "the reason, for the log")
	f.StringVar(&project, "project", "", "look in this `PROJECT` only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
