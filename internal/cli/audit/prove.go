package audit

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
)

// proven is the content of a verified proof.
type proven struct {
	auditor.Leaf
	Size    int64    `json:"size"` // size of the tree that contains it
	Origin  string   `json:"origin"`
	Payload string   `json:"payload,omitzero"`
	Cosigns []string `json:"cosigned_by,omitzero"`
}

func init() { Verbs.Add("audit", proveCommand, consistencyCommand) }

func proveCommand(a *verb.App) *cobra.Command {
	var dir, out, check, policy, seq string
	var payload, json bool
	c := &cobra.Command{
		Use:   "prove {INDEX | EVENT-ID | --seq POSITION}",
		Short: "Prove to anyone with the log's public key that an entry is in the log",
		Long: `Write a proof that a leaf is in the log (C2SP tlog-proof): the leaf, the hashes from it
to the root, and a signed checkpoint with its cosignatures. The proof is verified before
it is written. With --payload it also contains the entry and the salt of its commitment,
and thus reveals and proves the content of the entry.

--check FILE verifies a proof with only the pinned keys of the data folder and the
witness policy, if there is one (exit 2 if the proof is invalid).`,
		Example: "  lazaret audit prove 42 -o 42.tlog-proof\n  lazaret audit prove ZR1BYvLZrN2NKCpWqMMqu4 --payload -o " +
			"order.tlog-proof\n  lazaret audit prove --check order.tlog-proof",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust, err := auditorKeys(a)
			if err != nil {
				return err
			}
			vs := trust.Verifiers(keys.RoleAuditor)
			if check != "" {
				return checkProof(a, cmd, check, policy, json, trust)
			}
			if len(args) == 0 && seq == "" {
				return fmt.Errorf("name a leaf's index, an event's id or a ledger entry (--seq), or a proof with --check")
			}
			asked, err := name(verb.Arg(args), seq)
			if err != nil {
				return err
			}
			src, err := openSource(a, dir)
			if err != nil {
				return err
			}
			defer src.close()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			index, err := src.find(ctx, asked)
			if err != nil {
				return err
			}
			view, err := chain.NewView(ctx, src, vs)
			if err != nil {
				return err
			}
			p, err := view.Prove(index)
			if err != nil {
				return err
			}
			if payload {
				if p.Salt, p.Payload, err = src.salted(ctx, index); err != nil {
					return err
				}
			}
			text, err := p.MarshalText()
			if err != nil {
				return err
			}
			if _, err := chain.CheckProof(text, vs, nil); err != nil {
				return err
			}
			if out == "" || out == "-" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			if err := os.WriteFile(out, text, 0o600); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "leaf %d of %d, %s of ledger entry %s, proven in %s\n", index, view.Size,
				p.Leaf.Type, position.Text(p.Leaf.Seq), out)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&dir, "dir", "", "folder of the `LOG`, or the URL of one that is served (default DATA/audit)")
	f.StringVarP(&out, "out", "o", "", "write the proof to this `FILE` (default standard output)")
	f.BoolVar(&payload, "payload", false, "also prove the content of the entry")
	f.StringVar(&seq, "seq", "", "prove the ledger entry of this `POSITION`, such as 98 or 98.2")
	f.StringVar(&check, "check", "", "check the proof in this `FILE`")
	f.StringVar(&policy, "policy", "",
		"with --check, witness policy `FILE` (default DATA/witnesses.policy where there is one)")
	f.BoolVar(&json, "json", false, "with --check, print JSON")
	return c
}

func checkProof(a *verb.App, cmd *cobra.Command, file, policyFile string, json bool, trust *keys.Trust) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	policy, err := witnessPolicy(a, policyFile)
	if err != nil {
		return err
	}
	var quorum chain.Quorum
	if policy != nil {
		quorum = policy
	}
	p, err := chain.CheckProof(text, trust.Verifiers(keys.RoleAuditor), quorum)
	if err != nil {
		return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
	}
	cp, err := chain.ParseCheckpoint(p.Checkpoint)
	if err != nil {
		return err
	}
	rep := &proven{Leaf: auditor.NewLeaf(&p.Leaf), Size: cp.Size, Origin: cp.Origin, Payload: string(p.Payload)}
	if policy != nil {
		rep.Cosigns = policy.Cosigned(p.Checkpoint)
	}
	if json {
		return cli.JSON(cmd.OutOrStdout(), rep)
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "PROVEN  leaf %d of %d in %s\n", rep.Index, rep.Size, rep.Origin)
	fmt.Fprintf(w, "  %s, ledger entry %s, %s, %s of project %s\n", rep.Kind, position.Text(rep.Seq),
		rep.Time.Format(time.RFC3339Nano),
		rep.Type, rep.Project)
	fmt.Fprintf(w, "  commitment %s, %d bytes\n", hex.EncodeToString(p.Leaf.Commitment[:]), rep.Length)
	if len(rep.Cosigns) > 0 {
		fmt.Fprintf(w, "  cosigned by %v\n", rep.Cosigns)
	}
	if p.Payload != nil {
		fmt.Fprintf(w, "  %s\n", verb.Quote(rep.Payload, 2000))
	}
	return nil
}

func consistencyCommand(a *verb.App) *cobra.Command {
	var dir string
	var json bool
	c := &cobra.Command{
		Use:   "consistency OLD [NEW]",
		Short: "Prove that one checkpoint's log extends another's (exit 2 if it does not)",
		Long: `Verify that the log of the checkpoint in file NEW (default: the log's last one) extends
that of the checkpoint in file OLD, and print the proof (RFC 6962). Pinned keys must have
signed both. The hashes come from a local or served log, and are checked against the
newer checkpoint.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust, err := auditorKeys(a)
			if err != nil {
				return err
			}
			vs := trust.Verifiers(keys.RoleAuditor)
			src, err := openSource(a, dir)
			if err != nil {
				return err
			}
			defer src.close()
			ctx, cancel := a.Timeout(cmd.Context())
			defer cancel()
			b, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			old, err := chain.OpenCheckpoint(b, vs)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			var from chain.Source = src
			if len(args) == 2 {
				if b, err = os.ReadFile(args[1]); err != nil {
					return err
				}
				from = at{src, b}
			}
			view, err := chain.NewView(ctx, from, vs)
			if err != nil {
				return err
			}
			proof, err := view.Consistent(old)
			if err != nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
			}
			lines := []string{}
			for _, h := range proof {
				lines = append(lines, base64.StdEncoding.EncodeToString(h[:]))
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), map[string]any{"old": old.Size, "new": view.Size, "proof": lines})
			}
			printConsistency(cmd.OutOrStdout(), old.Size, view.Size, lines)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG`, or the URL of one that is served (default DATA/audit)")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

func printConsistency(w io.Writer, old, size int64, proof []string) {
	fmt.Fprintf(w, "CONSISTENT  %d leaves extend %d\n", size, old)
	for _, l := range proof {
		fmt.Fprintln(w, " ", l)
	}
}

// at reads a log as of an earlier checkpoint: ReadCheckpoint returns that checkpoint in place of the last one.
type at struct {
	chain.Source
	checkpoint []byte
}

func (s at) ReadCheckpoint(context.Context) ([]byte, error) { return s.checkpoint, nil }
