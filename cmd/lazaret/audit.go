package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/query"
)

func askAuditor(ctx context.Context, nc *nats.Conn, req auditor.Request) (*auditor.Answer, error) {
	ans := new(auditor.Answer)
	return ans, query.Ask(ctx, nc, auditor.AskAudit, 0, req, ans)
}

// askSnapshot asks the auditor of the log in dir for a snapshot. If there are several,
// any of them may get a question.
func askSnapshot(ctx context.Context, nc *nats.Conn, dir string) (*auditor.Answer, error) {
	want := filepath.Base(filepath.Clean(dir)) + "-"
	for range 64 {
		ans, err := askAuditor(ctx, nc, auditor.Request{Do: "snapshot"})
		if err != nil || strings.HasPrefix(filepath.Base(ans.Dir), want) {
			return ans, err
		}
		if err := os.RemoveAll(ans.Dir); err != nil {
			return nil, fmt.Errorf("removing the snapshot of another auditor: %w", err)
		}
	}
	return nil, fmt.Errorf("other auditors answer, and not the one that works on %s", dir)
}

func (a *app) audit() *cobra.Command {
	return group("audit", "The tamper-evident log", a.auditHead(), a.auditLs(), a.auditShow(), a.auditTail(),
		a.auditExport(), a.auditVerify(),
		a.auditLaundering(), a.auditIrreversible(), a.auditBundle(), a.auditEvidence(), a.auditSeal(),
		a.auditRecall(), a.auditForget(), a.auditLegalHold(), a.auditTrim(),
		a.auditProve(), a.auditConsistency(), a.auditCompare(), a.auditServe(), a.auditWitness(), a.auditRotate())
}

func (a *app) auditHead() *cobra.Command {
	var json bool
	c := &cobra.Command{Use: "head", Short: "Show the log's head and its last checkpoint", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			fmt.Fprintf(cmd.ErrOrStderr(), "leaves %d, ledger entries %d up to %d, gaps %d\nroot   %s\n\n", ans.Size,
				ans.Entries, ans.LastSeq, ans.Gaps, ans.Root)
			_, err = fmt.Fprint(cmd.OutOrStdout(), ans.Checkpoint)
			return err
		}}
	c.Long = `Show the log's head and its last checkpoint. The checkpoint alone is on standard output,
to be kept: whoever has it can hold the log against it later.`
	c.Example = "  lazaret audit head > checkpoint-of-monday\n  lazaret audit verify --against checkpoint-of-monday"
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}
