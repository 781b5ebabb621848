package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/internal/stage"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// trimHorizon is the default age of trimmed entries: more than the 31 days for which a repeated proposal gets its old
// verdict.
const trimHorizon = 90 * 24 * time.Hour

func init() {
	Verbs.Add("audit", trimCommand)
	Verbs.Add("", stateCommand)
	Verbs.Add("state", stateRestoreCommand)
}

func trimCommand(a *verb.App) *cobra.Command {
	var older, wait, every time.Duration
	var dry, json bool
	var without []string
	var log LogFlags
	c := &cobra.Command{
		Use:   "trim [--older DURATION]",
		Short: "Remove old entries from the ledger once all auditors have logged and all stages processed them",
		Long: `Remove old entries from the ledger. An entry is removed if it is older than a horizon (the
time --older before now), if every registered auditor has added it to its log, and if every
stage and every required sentinel group has processed it. (An auditor is registered if the
trust file has its key with the role auditor.) The steps are:

  1. a "trim" entry in every partition announces the end of the range;
  2. every stage syncs its state, writes a snapshot beside it, and confirms this with a
     "secured" entry; without all confirmations nothing is removed;
  3. a "trimmed" entry records up to where entries may be missing;
  4. the entries are removed, except the last one of each stage in each partition.

Steps 3 and 4 are repeated for parts of the range. The next trim completes an interrupted
one.

The log keeps all entries. Commands that read the ledger's past (backtest, rules explain,
verdict show) see only the remaining entries. A stage that later loses its state cannot
compute it from the ledger: it does not answer until the state is restored (lazaret state
restore).`,
		Example: "  lazaret audit trim --dry-run\n  lazaret audit trim --older 2160h --every 24h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older < 0 {
				return errors.New("--older cannot be negative")
			}
			if err := checkWait(wait); err != nil {
				return err
			}
			once := func() error {
				return Retention(a, cmd, 0, without, log, func(ctx context.Context, c *retain.Config) error {
					c.Wait = wait
					before := time.Now().Add(-older)
					do := c.Trim
					if dry {
						do = c.PlanTrim
					}
					t, err := do(ctx, before)
					if err != nil {
						return err
					}
					if json {
						return cli.JSON(cmd.OutOrStdout(), t)
					}
					printTrimming(cmd.OutOrStdout(), t, dry)
					return nil
				})
			}
			return repeatedly(cmd, every, once)
		},
	}
	f := c.Flags()
	log.bindApart(f)
	f.DurationVar(&older, "older", trimHorizon, "`HORIZON`: only older entries are removed; 744h or more, because "+
		"verdicts can be asked for again for 31 days")
	f.DurationVar(&every, "every", 0, "repeat after this `DURATION`; errors are printed and retried")
	f.DurationVar(&wait, "wait", 2*time.Minute,
		"longest wait for the next reply of a stage; the reading of the log and the removal of entries may take longer")
	f.BoolVar(&dry, "dry-run", false, "print what would be removed, and change nothing")
	f.BoolVar(&json, "json", false, "print JSON")
	f.StringSliceVar(&without, "without", nil,
		"`STAGE` that no longer exists, so that the trim does not wait for it, such as sentinel-old")
	return c
}

func printTrimming(w io.Writer, t *retain.Trimming, dry bool) {
	for name, seq := range t.Auditors {
		fmt.Fprintf(w, "auditor %s has signed checkpoints of all ledger entries up to %d\n", text.InertLine(name, 100), seq)
	}
	horizon := t.Before.Format(time.RFC3339)
	switch {
	case t.UpTo == 0 || t.UpTo <= t.Already:
		fmt.Fprintf(w, "nothing to trim: no further entry older than %s may be removed (bounded by %s); the ledger is "+
			"trimmed up to %d\n", horizon, t.Because, t.Already)
	case dry:
		fmt.Fprintf(w, "entries up to %d would be removed (bounded by %s; horizon %s), once these have their "+
			"state on disk: %s\n",
			t.UpTo, t.Because, horizon, strings.Join(t.Stages, ", "))
	default:
		fmt.Fprintf(w, "trimmed up to %d (bounded by %s; horizon %s): %d entries, %d bytes; secured by %s\n", t.UpTo,
			t.Because, horizon, t.Messages, t.Bytes, strings.Join(t.Stages, ", "))
	}
}

func stateCommand(a *verb.App) *cobra.Command { return verb.Group("state", "The state of stages") }

func stateRestoreCommand(a *verb.App) *cobra.Command {
	var from, dir, keyFile string
	var offline bool
	c := &cobra.Command{
		Use:   "restore STAGE",
		Short: "Restore a stage's state from a snapshot after the ledger was trimmed",
		Long: `Restore the state of a stage (ingest, arbiter, sentinel-NAME) from a snapshot. Before the
ledger is trimmed, every process of a stage writes one beside its state, in STATE.snapshot.
Use that one, or one of a standby on another machine. The stage must be stopped; it then
continues from the snapshot with the remaining ledger.

The command checks in the ledger that the snapshot is recent enough. With --offline the
stage checks this at its start; use it with lazaret up, whose embedded server does not run
without its stages.`,
		Example: "  lazaret state restore ingest --offline\n  lazaret state restore arbiter --from " +
			"/mnt/standby/arbiter.snapshot",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if err := streams.CheckID("stage", args[0]); err != nil {
				return err
			}
			if dir == "" {
				dir = datafolder.StateDir(a.Conn.Data, args[0])
			}
			from = cmp.Or(from, stage.SnapshotDir(dir))
			keyFile = cmp.Or(keyFile, datafolder.StateKeyFile(a.Conn.Data))
			key, err := datafolder.StateKey(keyFile, args[0])
			if err != nil {
				return err
			}
			var nc *nats.Conn
			if !offline {
				var err error
				if nc, err = a.Conn.Connect(string(natsserver.RoleOperator)); err != nil {
					return fmt.Errorf("cannot check whether the snapshot is recent enough (--offline restores it without this "+
						"check): %w", err)
				}
				defer nc.Close()
			}
			folded, err := stage.Restore(cmd.Context(), nc, key, from, dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is restored: %s goes on from ledger entry %d\n", dir, args[0], folded+1)
			return nil
		},
	}
	c.Flags().StringVar(&from, "from", "", "the snapshot's `FOLDER` (default the one beside the state)")
	c.Flags().StringVar(&dir, "state", "", "the state's `FOLDER` (default DATA/state/STAGE)")
	c.Flags().StringVar(&keyFile, "state-key", "",
		"`FILE` of the key with which the snapshot is encrypted (default DATA/keys/state.key)")
	c.Flags().BoolVar(&offline, "offline", false, "do not check the ledger")
	return c
}
