package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/inquiry"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
)

func init() { Verbs.Add("audit", evidenceCommand) }

func evidenceCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var o inquiry.EvidenceOptions
	var file, key string
	to := verb.Sensitivity{Sensitivity: beliefs.Internal}
	c := &cobra.Command{
		Use:   "evidence SESSION|VERDICT",
		Short: "Export the log's entries about a session or a verdict with their proofs as one file",
		Long: `Write one JSON file that can be verified with only the public keys: the leaves of a
session, or of one proposal and its verdict, with salts, payloads and inclusion proofs;
the signed checkpoint with its cosignatures; for each approval the leaves that prove
which keys were active; and a signed statement of what is missing. VERDICT is the id of
a proposal, or the ledger sequence of the proposal or its verdict.

Payloads that are more sensitive than --ceiling are left out, and the statement says so;
their leaves and proofs can still be verified. If the file gets payloads that are more
sensitive than internal, the command first records this in the ledger. docs/evidence.md
specifies the file, and examples/verifier verifies one with only Go's standard library.`,
		Example: "  lazaret audit evidence s1 -o s1.evidence.json\n  go run ./examples/verifier -log lazaret-ledger+5a1c… " +
			"-operator lazaret-operator+… s1.evidence.json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errors.New("name a file with -o")
			}
			trust, err := auditorKeys(a)
			if err != nil {
				return err
			}
			o.Operators = operatorKeys(trust)
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) (err error) {
				key = cmp.Or(key, datafolder.AuditorKey(a.Conn.Data))
				if o.Signer, err = keys.LoadSigner(key); err != nil {
					return fmt.Errorf("reading the key that signs the statement: %w", err)
				}
				o.Of, o.Ceiling, o.Now = args[0], to.Sensitivity, time.Now()
				ev, err := l.Evidence(cmd.Context(), o)
				var none *inquiry.NoSessionError
				if errors.As(err, &none) {
					return &cli.Exit{Code: cli.ExitNegative, Text: text.InertLine(err.Error()+", nor about a proposal of that id",
						300)}
				}
				if err != nil {
					return err
				}
				if err := a.Looked(cmd.Context(), ev.Project(), cmd.CommandPath(), args[0], to.Sensitivity); err != nil {
					return err
				}
				out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				if err := errors.Join(ev.Write(out), out.Close()); err != nil {
					return err
				}
				withheld := 0
				for _, x := range ev.Leaves {
					if x.Withheld != "" {
						withheld++
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d leaves, %d payloads withheld, %d approvals in %s\n", len(ev.Leaves), withheld,
					len(ev.Approvals), file)
				return told(cmd, l.Integrity())
			})
		},
	}
	f.bind(c.Flags())
	to.Bind(c.Flags())
	c.Flags().StringVar(&o.Project, "project", "", "`PROJECT` of the session or proposal; needed if several projects "+
		"have one of this name")
	c.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write")
	c.Flags().StringVar(&key, "key", "", "auditor's key `FILE` that signs the statement (default DATA/keys/auditor.key)")
	return c
}
