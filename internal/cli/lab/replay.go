package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/replay"
	"lazaret/internal/wire"
	"lazaret/streams"
)

func init() { Verbs.Add("", replayCommand) }

func replayCommand(a *verb.App) *cobra.Command {
	var o replay.Options
	var json bool
	c := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Play recorded sessions through the pipeline",
		Long: `Play recorded agent sessions, or single pieces of content, through the pipeline as an
agent's host would: content that was read is published, and actions and memory writes
request a verdict. Each session has its own synthetic project and virtual time. At the
end a table shows the resulting entries of the ledger and the audit log.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scripts, err := replay.Files(args)
			if err != nil {
				return err
			}
			var unread []string
			for i := range scripts {
				unread = append(unread, scripts[i].Unread...)
			}
			if !json {
				verb.NoteUnread(cmd.ErrOrStderr(), "the replayed files", unread)
			}
			t, err := playAll(a, cmd.Context(), scripts, o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), t)
			}
			printTotals(cmd.OutOrStdout(), len(scripts), t)
			return nil
		},
	}
	c.Flags().IntVar(&o.Parallel, "parallel", 8, "number of sessions played in parallel")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// playAll plays scripts, waits until the auditor has all entries, and counts the results.
func playAll(a *verb.App, ctx context.Context, scripts []replay.Script, o replay.Options,
	progress io.Writer) (t *replay.Totals, err error) {
	err = playThen(a, ctx, scripts, o, progress, func(op *nats.Conn, from, to uint64, audited int64) error {
		projects := make(map[string]bool, len(scripts))
		for _, s := range scripts {
			projects[s.Project] = true
		}
		if t, err = replay.Count(ctx, op, from, to, projects); err == nil {
			t.Audited = audited
		}
		return err
	})
	return t, err
}

// playThen plays scripts and waits until the auditor has all entries. It then calls f with an operator's connection,
// the ledger range of the scripts (from < sequence <= to), and the number of entries that were audited meanwhile.
func playThen(a *verb.App, ctx context.Context, scripts []replay.Script, o replay.Options, progress io.Writer,
	f func(op *nats.Conn, from, to uint64, audited int64) error) error {
	nc, err := a.Conn.Connect("replay")
	if err != nil {
		return err
	}
	defer nc.Close()
	op, err := a.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer op.Close()
	from, before, err := Settle(ctx, op)
	if err != nil {
		return err
	}
	if tty, ok := progress.(*os.File); ok && term.IsTerminal(int(tty.Fd())) {
		bar := progressbar.NewOptions64(1, progressbar.OptionSetWriter(tty), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		defer bar.Finish()
		o.Progress = func(done, total int64) {
			bar.ChangeMax64(total)
			bar.Set64(done)
		}
	}
	if err := replay.Play(ctx, nc, scripts, o); err != nil {
		return err
	}
	to, audited, err := Settle(ctx, op)
	if err != nil {
		return err
	}
	return f(op, from, to, audited-before)
}

// LedgerEnd returns the sequence of the last ledger entry.
func LedgerEnd(ctx context.Context, nc *nats.Conn) (uint64, error) {
	st, err := wire.JetStream(nc).Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, err
	}
	return st.CachedInfo().State.LastSeq, nil
}

// Settle waits until the stages look idle: at three checks in a row, 100 ms apart, the ledger has not grown since the
// check before, and the auditor has all of it. Settle does not check that the intake is empty. It returns the ledger's
// last sequence and the number of audited entries.
func Settle(ctx context.Context, nc *nats.Conn) (last uint64, audited int64, err error) {
	js := wire.JetStream(nc)
	for quiet := 0; ; {
		_, end, err := verb.Lag(ctx, js)
		if err != nil {
			return 0, 0, err
		}
		ans, err := auditor.Ask(ctx, nc, auditor.Request{Do: "head"})
		if err != nil {
			return 0, 0, err
		}
		if quiet++; end != last || ans.LastSeq < end {
			quiet = 0
		}
		last = end
		if quiet >= 3 {
			return end, ans.Entries, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func printTotals(w io.Writer, sessions int, t *replay.Totals) {
	fmt.Fprintf(w, "%-34s %8d\n", "sessions", sessions)
	fmt.Fprintf(w, "%-34s %8d\n", "events", t.Events)
	if t.Rejected > 0 {
		fmt.Fprintf(w, "%-34s %8d\n", "  rejected", t.Rejected)
	}
	fmt.Fprintf(w, "%-34s %8d\n", "claims", t.Claims)
	fmt.Fprintf(w, "%-34s %8d\n", "beliefs supported", t.Supported)
	fmt.Fprintf(w, "%-34s %8d\n", "beliefs unverified", t.Unverified)
	for _, k := range replay.Sorted(t.Alerts) {
		fmt.Fprintf(w, "%-34s %8d\n", "alert "+k, t.Alerts[k])
	}
	for _, k := range replay.Sorted(t.Verdicts) {
		fmt.Fprintf(w, "%-34s %8d\n", k, t.Verdicts[k])
	}
	fmt.Fprintf(w, "%-34s %8d\n", "ledger entries", t.Entries)
	fmt.Fprintf(w, "%-34s %8d\n", "audited entries", t.Audited)
	if t.Wrong > 0 {
		fmt.Fprintf(w, "%-34s %8d\n", "WRONG CLAIMS", t.Wrong)
	}
}
