package audit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain/witness"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"
)

func init() {
	Verbs.Add("audit", witnessCommand)
	Verbs.Add("audit witness", witnessRunCommand, witnessAddCommand, witnessLsCommand)
}

func witnessCommand(a *verb.App) *cobra.Command {
	return verb.Group("witness", "Use and run witnesses, which cosign checkpoints of logs")
}

func witnessRunCommand(a *verb.App) *cobra.Command {
	var key, dir, listen string
	var logs []string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a witness, which cosigns the checkpoints of append-only logs (C2SP tlog-witness)",
		Long: `Run a witness. It cosigns a checkpoint of a log given with --log only if the checkpoint
extends the last one that it cosigned, which it stores in its folder. A rewritten log
gets no cosignature, even with all keys of the log. A witness must be independent of the
log: run it on another machine with other administrators.

Logs are named by their public keys; lazaret audit witness ls prints a log's own. The
key file is made with lazaret key gen; its name is the
witness's.`,
		Example: "  lazaret key gen witness.example.org witness.key\n  lazaret audit witness run --key witness.key --log " +
			"lazaret-ledger+0123abcd+AX… --listen :8781",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			private, err := keys.LoadPrivate(key)
			if err != nil {
				return err
			}
			var vs []note.Verifier
			for _, l := range logs {
				v, err := note.NewVerifier(l)
				if err != nil {
					return fmt.Errorf("--log %s: %w", l, err)
				}
				vs = append(vs, v)
			}
			s, err := witness.NewServer(private, dir, vs)
			if err != nil {
				return err
			}
			public, err := keys.Public(private)
			if err != nil {
				return err
			}
			cosigner, err := witness.CosignerKey(public)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), cosigner)
			return serveHTTP(cmd, listen, "the witness", s)
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "private key `FILE` (default $LAZARET_KEY)")
	f.StringVar(&dir, "state", "witness", "`DIR` of the witness's state, which must never be lost")
	f.StringArrayVar(&logs, "log", nil, "public key of a log; may be given several times")
	f.StringVar(&listen, "listen", "127.0.0.1:8781", "`ADDRESS` to listen on")
	return c
}

func witnessAddCommand(a *verb.App) *cobra.Command {
	var quorum string
	c := &cobra.Command{
		Use:   "add NAME KEY URL",
		Short: "Add a witness that cosigns from now on",
		Long: `Add a witness to the data folder's policy (DATA/witnesses.policy, C2SP tlog-policy). The
running auditor reads the policy again and asks each witness to cosign its checkpoints;
audit verify requires the quorum. KEY is printed by the witness, URL is its address.`,
		Example: "  lazaret audit witness add bob witness.example.org+93ec12b4+BF… http://witness.example.org:8781/ " +
			"--quorum all",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			return addWitness(datafolder.WitnessPolicy(a.Conn.Data), args[0], args[1], args[2], quorum)
		},
	}
	c.Flags().StringVar(&quorum, "quorum", "all", "how many of the witnesses are needed: all, any, or a `NUMBER`")
	return c
}

// quorumGroup is the group that contains all witnesses of addWitness.
const quorumGroup = "witnesses"

// addWitness adds a witness to a policy file that this command wrote, or creates the file.
func addWitness(file, name, key, url, quorum string) error {
	if quorum != "all" && quorum != "any" {
		if n, err := strconv.Atoi(quorum); err != nil || n < 1 {
			return fmt.Errorf("--quorum %s: use all, any, or a number of witnesses", quorum)
		}
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var keep []string
	names := []string{}
	for line := range strings.Lines(string(old)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && (f[0] == "group" && f[1] == quorumGroup || f[0] == "quorum" && f[1] == quorumGroup):
			continue // rewritten below
		case len(f) > 0 && (f[0] == "group" || f[0] == "quorum"):
			return fmt.Errorf("%s has groups that this command did not write: add the witness to the file by hand", file)
		case len(f) > 1 && f[0] == "witness":
			names = append(names, f[1])
		}
		keep = append(keep, strings.TrimRight(line, "\n"))
	}
	if slices.Contains(names, name) {
		return fmt.Errorf("%s has a witness %q already", file, name)
	}
	names = append(names, name)
	keep = append(keep, fmt.Sprintf("witness %s %s %s", name, key, url),
		fmt.Sprintf("group %s %s %s", quorumGroup, quorum, strings.Join(names, " ")), "quorum "+quorumGroup)
	text := []byte(strings.Join(keep, "\n") + "\n")
	if _, err := witness.ParsePolicy(text); err != nil {
		return err
	}
	return files.Replace(file, text)
}

func witnessLsCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "Show this log's public keys, and its witnesses with their last cosignatures",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trust, err := auditorKeys(a)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			for _, p := range trust.Pins() {
				if slices.Contains(p.Roles, keys.RoleAuditor) {
					fmt.Fprintln(w, "log", p.Key)
				}
			}
			p, err := witnessPolicy(a, "")
			if err != nil || p == nil {
				return err
			}
			src, err := openSource(a, "")
			if err != nil {
				return err
			}
			defer src.close()
			cp, err := src.ReadCheckpoint(cmd.Context())
			if err != nil {
				return err
			}
			done := p.Cosigned(cp)
			for _, x := range p.Witnesses {
				state := "has not cosigned the last checkpoint"
				if slices.Contains(done, x.Name) {
					state = "cosigned the last checkpoint"
				}
				fmt.Fprintln(w, "witness", x.Name, x.URL, state)
			}
			return nil
		},
	}
}
