package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/query"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

func askAuditor(ctx context.Context, nc *nats.Conn, req auditor.Request) (*auditor.Answer, error) {
	ans := new(auditor.Answer)
	return ans, query.Ask(ctx, nc, auditor.AskAudit, 0, req, ans)
}

func (a *app) audit() *cobra.Command {
	return group("audit", "The tamper-evident log", a.auditHead(), a.auditLs(), a.auditShow(), a.auditTail(), a.auditExport(), a.auditVerify(),
		a.auditLaundering(), a.auditIrreversible(), a.auditBundle(), a.auditSeal(),
		a.auditForget(), a.auditLegalHold())
}

func (a *app) auditHead() *cobra.Command {
	var json bool
	c := &cobra.Command{Use: "head", Short: "Show the log's head and its last checkpoint", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		var ans *auditor.Answer
		err := a.operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
			ans, err = askAuditor(ctx, nc, auditor.Request{Do: "head"})
			return err
		})
		if err != nil {
			return err
		}
		if json {
			return cli.JSON(cmd.OutOrStdout(), ans)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "leaves %d, ledger entries %d up to %d, gaps %d\nroot   %s\n\n%s", ans.Size, ans.Entries, ans.LastSeq, ans.Gaps, ans.Root, ans.Checkpoint)
		return nil
	}}
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

func (a *app) auditVerify() *cobra.Command {
	var dir, against, bundle, trust string
	var json bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the whole log from disk (exit 0 verified, 2 failed, 3 incomplete)",
		Long: `Recompute every leaf, link, hash, checkpoint and payload commitment of the log
from the files on disk. While the auditor runs, it is asked for a snapshot, which
this command then opens and recomputes by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.conn.Resolve()
			if dir == "" {
				dir = embedded.AuditDir(a.conn.Data)
			}
			var earlier []byte
			if against != "" {
				var err error
				if earlier, err = os.ReadFile(against); err != nil {
					return err
				}
			}
			var rep chain.Report
			var err error
			if bundle != "" {
				var all [][]byte
				if earlier != nil {
					all = append(all, earlier)
				}
				rep, err = a.verifyBundle(cmd, bundle, trust, all)
			} else {
				rep, err = a.verifyLog(cmd.Context(), dir, earlier)
			}
			if err != nil {
				return err
			}
			if json {
				if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
					return err
				}
			} else {
				printReport(cmd.OutOrStdout(), rep)
			}
			switch rep.Status {
			case chain.Verified:
				return nil
			case chain.Failed:
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return &cli.Exit{Code: cli.ExitIncomplete}
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
	c.Flags().StringVar(&bundle, "bundle", "", "verify this bundle `FILE` instead, with nothing but itself and public keys")
	c.Flags().StringVar(&trust, "keys", "", "trust `FILE` with the public keys for --bundle (default DATA/trust.yaml)")
	c.Flags().StringVar(&against, "against", "", "an earlier checkpoint `FILE` that this log must extend")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// verifyLog verifies the log in dir, or a snapshot of it if a process works on
// it.
func (a *app) verifyLog(ctx context.Context, dir string, against []byte) (chain.Report, error) {
	if _, err := os.Stat(dir); err != nil {
		return chain.Report{}, fmt.Errorf("no log: %w: name its folder with --dir, or the data folder with --data", err)
	}
	trust, err := keys.LoadTrust(embedded.TrustFile(a.conn.Data))
	if err != nil {
		return chain.Report{}, fmt.Errorf("the keys that may sign checkpoints: %w", err)
	}
	master, err := embedded.MasterKey(a.conn.Data)
	if err != nil {
		return chain.Report{}, err
	}
	opts := chain.Options{MasterKey: master, ReadOnly: true}
	var earlier [][]byte
	if against != nil {
		earlier = append(earlier, against)
	}
	v := chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor), Against: earlier}
	rep, err := chain.VerifyDir(ctx, dir, opts, v)
	if !errors.Is(err, chain.ErrLocked) {
		return rep, err
	}
	nc, err := a.conn.Connect("operator")
	if err != nil {
		return rep, fmt.Errorf("a process works on the log and cannot be asked for a snapshot: %w", err)
	}
	defer nc.Close()
	ans, err := askAuditor(ctx, nc, auditor.Request{Do: "snapshot"})
	if err != nil {
		return rep, err
	}
	defer os.RemoveAll(ans.Dir)
	return chain.VerifyDir(ctx, ans.Dir, opts, v)
}

func printReport(w io.Writer, r chain.Report) {
	switch r.Status {
	case chain.Verified:
		fmt.Fprintln(w, "VERIFIED")
	case chain.Failed:
		if r.FirstBad >= 0 {
			fmt.Fprintf(w, "FAILED at index %d\n", r.FirstBad)
		} else {
			fmt.Fprintln(w, "FAILED")
		}
	default:
		fmt.Fprintln(w, "INCOMPLETE: nothing is wrong with what was checked, but not all was")
	}
	fmt.Fprintf(w, "  %d leaves: %d ledger entries up to %d, %d gaps\n", r.Size, r.Entries, r.LastSeq, r.Gaps)
	fmt.Fprintf(w, "  %d payloads match their commitments, %d forgotten\n", r.Payloads, r.Forgotten)
	fmt.Fprintf(w, "  %d checkpoints, root %s\n", r.Checkpoints, r.Root)
	for _, p := range r.Problems {
		fmt.Fprintln(w, "  wrong:", quote(p, 300))
	}
	for _, s := range r.Skipped {
		fmt.Fprintln(w, "  not checked:", s)
	}
}
