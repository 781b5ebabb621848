package beliefs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

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

// attestation holds the options of a signed decision on a belief.
type attestation struct {
	project, key, reason string
	successor            string   // id of the belief that replaces the belief, if it is superseded
	findings             []string // keys of the findings that a confirmation clears
	life                 time.Duration
}

func (w *attestation) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.project, "project", embedded.DefaultProject, "`PROJECT`")
	f.StringVar(&w.key, "key", "", "the signer's private key `FILE` (default $"+keys.EnvKey+")")
	f.StringVar(&w.reason, "reason", "", "why, for the log")
	verb.SignatureLife(f, &w.life)
}

// sign signs a decision on a belief as shown, and returns the ledger's reply.
func (w *attestation) sign(ctx context.Context, nc *nats.Conn, signer note.Signer, d approval.Decision,
	b *ingest.Belief) (*streams.ResolveReply, error) {
	if sum := sha256.Sum256([]byte(b.Content)); b.Memory && b.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("the content of belief %s does not have the digest that the signature would cover: do not "+
			"sign, and run lazaret audit verify", b.ID)
	}
	s := approval.BeliefStatement{Version: approval.BeliefVersion, Project: w.project, Belief: b.ID, Content: b.Digest,
		Revision: b.Revision, Decision: d,
		Expires: time.Now().UTC().Add(w.life).Truncate(time.Second), Nonce: approval.NewNonce(), Reason: w.reason,
		Successor: w.successor, Findings: w.findings}
	signed, err := s.Sign(signer)
	if err != nil {
		return nil, err
	}
	return holds.Attest(ctx, nc, w.project, b.ID, signed)
}

// showFindings prints the findings that make recalls withhold a belief. It says of each whether the confirmation clears
// it, and stores the keys of those that it clears.
func (w *attestation) showFindings(ctx context.Context, nc *nats.Conn, out io.Writer, b *ingest.Belief) error {
	var all []arbiter.Finding
	err := query.Ask(ctx, nc, arbiter.AskFindings, streams.PartitionOf(w.project),
		arbiter.FindingsRequest{Project: w.project, Agent: b.Agent, Belief: b.BeliefRef}, &all)
	if err != nil {
		return err
	}
	w.findings = nil
	for _, x := range all {
		what := "clears the finding"
		switch {
		case x.More:
			what = "does not clear the finding, because the rule found more than is stored; recalls still withhold the belief"
		case len(w.findings) == approval.MaxFindings:
			what = fmt.Sprintf("does not clear the finding, because a signature covers at most %d; recalls still withhold "+
				"the belief", approval.MaxFindings)
		default:
			w.findings = append(w.findings, x.Key)
		}
		fmt.Fprintf(out, "  this confirmation %s: %s\n", what, text.InertLine(x.Text, 700))
	}
	slices.Sort(w.findings)
	return nil
}

// attestCommand returns a command that signs a decision on one belief.
func attestCommand(a *verb.App, d approval.Decision, use, short string) *cobra.Command {
	var w attestation
	c := &cobra.Command{
		Use:   use + " ID",
		Short: short,
		Long: short + `. The signature covers the digest of the belief's content, its
revision, the decision, an expiry and a nonce. Exit 0 when the decision took effect, 2 when
it was refused and the belief is unchanged.`,
		Example: "  lazaret beliefs " + use + " b9sforgt6c7u0ms0n --key alice.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if d == approval.Supersede && w.successor == "" {
				return errors.New("--by is missing: give the id of the belief that replaces this one")
			}
			signer, err := keys.LoadSigner(w.key)
			if err != nil {
				return err
			}
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				var ans ingest.BeliefsAnswer
				if err := query.Ask(ctx, nc, ingest.AskBeliefs, streams.PartitionOf(w.project),
					ingest.BeliefsRequest{Project: w.project, ID: args[0]}, &ans); err != nil {
					return err
				}
				if len(ans.Beliefs) == 0 {
					return cli.Negative("project %s has no belief %s", w.project, verb.Quote(args[0], 64))
				}
				b := &ans.Beliefs[0]
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, %s, %s, origin %s\n  %s\n", b.ID, b.Axes.Truth, b.Axes.Retrieval,
					b.Axes.Security, b.Origin, text.InertLine(b.Content, 400))
				if d == approval.Confirm {
					if err := w.showFindings(ctx, nc, cmd.OutOrStdout(), b); err != nil {
						return err
					}
				}
				rep, err := w.sign(ctx, nc, signer, d, b)
				if err != nil {
					return err
				}
				return printAttested(cmd, rep)
			})
		},
	}
	w.bind(c)
	if d == approval.Supersede {
		c.Flags().StringVar(&w.successor, "by", "", "the `BELIEF` that replaces it")
		c.Example = "  lazaret beliefs supersede b9sforgt6c7u0ms0n --by b4k2m8v0q1s7d3f6h --key alice.key"
	}
	return c
}

func printAttested(cmd *cobra.Command, rep *streams.ResolveReply) error {
	if rep.Error != nil {
		fmt.Fprintf(os.Stderr, "lazaret: %s: %s\n", rep.Error.Code, text.InertLine(rep.Error.Message, 600))
		return &cli.Exit{Code: cli.ExitNegative}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s  belief %s, ledger entry %s: %s\n", strings.ToUpper(rep.State), rep.Hold,
		position.Text(rep.Seq),
		text.InertLine(strings.TrimSuffix(rep.Text, ": "), 400))
	return nil
}

func init() { Verbs.Add("beliefs", quarantineCommand) }

func quarantineCommand(a *verb.App) *cobra.Command {
	var w attestation
	var sc scopeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "quarantine [ID…]",
		Short: "Quarantine beliefs by id, source, session, agent, tool and time, with derived ones",
		Long: `Find beliefs by id, or by source and time, with --descendants also derived ones, and sign a
quarantine of each. A quarantined belief stays in the ledger for review; restore undoes the
quarantine. If other sources support a belief by evidence of a class that may support
beliefs, it is not quarantined, unless --all is given. --dry-run lists the beliefs and signs
nothing. Exit 2 when a quarantine was refused.`,
		Example: "  lazaret beliefs quarantine --source https://shop.example --since 2026-11-20 --descendants --dry-run\n" +
			"  lazaret beliefs quarantine --session s1 --descendants --key alice.key --reason \"poisoned page\"",
		RunE: func(cmd *cobra.Command, ids []string) (err error) {
			if err := sc.times(); err != nil {
				return err
			}
			if sc.Beliefs = ids; sc.Empty() {
				return fmt.Errorf("name beliefs, or --source, --session, --agent, --tool or --since")
			}
			var signer note.Signer
			if !sc.dry {
				a.Conn.Resolve()
				if signer, err = keys.LoadSigner(w.key); err != nil {
					return err
				}
			}
			a.Conn.Timeout = max(a.Conn.Timeout, 10*time.Minute) // many signatures take long
			return a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return quarantineAll(ctx, cmd, nc, &w, signer, sc.request(w.project), sc.All, asJSON)
			})
		},
	}
	w.bind(c)
	sc.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// quarantined is the result for one belief.
type quarantined struct {
	ingest.PinpointedBelief
	Outcome string `json:"outcome"` // quarantined, spared, was quarantined, would be quarantined, refused
	Why     string `json:"why,omitzero"`
}

// quarantineAll signs the quarantine of each belief that the request finds. Without a signer it only shows the
// beliefs.
func quarantineAll(ctx context.Context, cmd *cobra.Command, nc *nats.Conn, w *attestation, signer note.Signer,
	q *ingest.PinpointRequest, all, asJSON bool) error {
	var found ingest.Pinpointed
	if err := query.Ask(ctx, nc, ingest.AskPinpoint, streams.PartitionOf(q.Project), q, &found); err != nil {
		return err
	}
	counts, served := map[string]int{}, 0
	done := []quarantined{}
	// A signature covers the belief's revision, and the quarantine of a belief changes the revisions of the beliefs
	// that derive from it. So quarantine derived beliefs first.
	slices.Reverse(found.Beliefs)
	for i := range found.Beliefs {
		b := quarantined{PinpointedBelief: found.Beliefs[i]}
		switch {
		case b.Axes.Security.String() == "quarantined" || b.Axes.Security.String() == "malicious":
			b.Outcome = "was " + b.Axes.Security.String()
		case b.Stands != "" && !all:
			b.Outcome, b.Why = "spared", b.Stands
		case signer == nil:
			b.Outcome = "would be quarantined"
		default:
			rep, err := w.sign(ctx, nc, signer, approval.Quarantine, &b.Belief)
			if err != nil {
				return err
			}
			b.Outcome = "quarantined"
			if rep.Error != nil {
				b.Outcome, b.Why = "refused", rep.Error.Message
			}
		}
		if strings.HasSuffix(b.Outcome, "be quarantined") || b.Outcome == "quarantined" {
			if b.Axes.Truth.String() == "supported" && b.Axes.Retrieval.String() == "normal" {
				served++
			}
		}
		counts[b.Outcome]++
		done = append(done, b)
	}
	slices.Reverse(done)
	out := cmd.OutOrStdout()
	if asJSON {
		if err := cli.JSON(out, map[string]any{"beliefs": done, "counts": counts, "served_before": served,
			"cut": found.Cut}); err != nil {
			return err
		}
	} else {
		err := cli.Print(out, cli.ListFlags{}, done, []string{"BELIEF", "OUTCOME", "ORIGIN", "SOURCE", "FROM", "CONTENT"},
			func(b quarantined) []string {
				return []string{b.ID, b.Outcome, string(b.Origin), b.Source, b.From, b.Content}
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "beliefs: %d found, %d quarantined, %d would be quarantined, %d spared because other evidence "+
			"supports them, %d refused; %d of those quarantined, or to be quarantined, were served to planners before\n",
			len(done), counts["quarantined"], counts["would be quarantined"], counts["spared"], counts["refused"], served)
		if found.Cut {
			fmt.Fprintln(out, "one run cannot quarantine all of them: run the command again")
		}
	}
	if counts["refused"] > 0 {
		return &cli.Exit{Code: cli.ExitNegative}
	}
	return nil
}
