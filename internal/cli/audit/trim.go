package audit

import (
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
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/internal/stage"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// trimHorizon is how long the ledger keeps logged entries: about three times as long as a
// verdict is repeated.
const trimHorizon = 90 * 24 * time.Hour

func init() { Verbs.Add("audit", trimCommand) }

func trimCommand(a *verb.App) *cobra.Command {
	var older, wait, every time.Duration
	var dry, json bool
	var without []string
	var log LogFlags
	c := &cobra.Command{
		Use:   "trim [--older DURATION]",
		Short: "Remove from the ledger what is old, chained and folded",
		Long: `Remove from the ledger entries that are older than a horizon, that every registered
auditor has chained (registered is who has a key in the trust file with the role
auditor), and that every stage and every required sentinel group has folded:

  1. a "trim" entry in every partition announces up to where;
  2. every stage syncs its state, leaves a snapshot of it beside it, and says so with
     a "secured" entry; if one does not, nothing is removed;
  3. a "trimmed" entry says up to where entries may be gone;
  4. they are removed, but for the last of each stage in each partition.

3 and 4 go step by step. A trimming that is interrupted is finished by the next.

The log keeps all of it. Commands that read the ledger's past (backtest, rules explain, verdict
show) sees what is left. A stage that loses its state after this cannot fold it from
the ledger: it stays silent until it is restored (lazaret state restore).`,
		Example: "  lazaret audit trim --dry-run\n  lazaret audit trim --older 2160h --every 24h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older < 0 {
				return errors.New("--older cannot be negative")
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
	log.bind(f)
	f.DurationVar(&older, "older", trimHorizon,
		"`HORIZON`: only what is older goes; verdicts are repeated to who asks again for 31 days (744h)")
	f.DurationVar(&every, "every", 0, "go on, and trim again after this `DURATION`; an error is printed and tried again")
	f.DurationVar(&wait, "wait", 2*time.Minute,
		"how long stages may say nothing before it gives up; reading the log and removing take as long as they take")
	f.BoolVar(&dry, "dry-run", false, "say what would go, and change nothing")
	f.BoolVar(&json, "json", false, "print JSON")
	f.StringSliceVar(&without, "without", nil, "`STAGE` that is gone for good and not waited for, such as sentinel-old")
	return c
}

func printTrimming(w io.Writer, t *retain.Trimming, dry bool) {
	for name, seq := range t.Auditors {
		fmt.Fprintf(w, "auditor %s has signed for the ledger up to %d\n", text.InertLine(name, 100), seq)
	}
	horizon := t.Before.Format(time.RFC3339)
	switch {
	case t.UpTo == 0 || t.UpTo <= t.Already:
		fmt.Fprintf(w, "nothing to trim: of what is older than %s nothing more may go (bounded by %s); trimmed up to "+
			"%d before\n", horizon, t.Because, t.Already)
	case dry:
		fmt.Fprintf(w, "entries up to %d would go (bounded by %s; horizon %s), once these have their state on disk: %s\n",
			t.UpTo, t.Because, horizon, strings.Join(t.Stages, ", "))
	default:
		fmt.Fprintf(w, "trimmed up to %d (bounded by %s; horizon %s): %d entries, %d bytes; secured by %s\n", t.UpTo,
			t.Because, horizon, t.Messages, t.Bytes, strings.Join(t.Stages, ", "))
	}
}

func init() { Verbs.Add("", stateCommand) }

func stateCommand(a *verb.App) *cobra.Command { return verb.Group("state", "The state of stages") }

func init() { Verbs.Add("state", stateRestoreCommand) }

func stateRestoreCommand(a *verb.App) *cobra.Command {
	var from, dir, keyFile string
	var offline bool
	c := &cobra.Command{
		Use:   "restore STAGE",
		Short: "Make a stage's state of a snapshot, when the ledger was trimmed",
		Long: `Make the state of a stage (ingest, arbiter, sentinel-NAME) of a snapshot. Every process
of a stage leaves one beside its state, in STATE.snapshot, before the ledger is trimmed:
take it from there, or from a stand-by on another machine. The stage has to be
stopped, and goes on from the snapshot with what is left of the ledger.

It asks the ledger whether the snapshot is late enough. With --offline that shows when the
stage starts; the embedded server of lazaret up does not run without its stages.`,
		Example: "  lazaret state restore ingest --offline\n  lazaret state restore arbiter --from " +
			"/mnt/standby/arbiter.snapshot",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if err := streams.CheckID("stage", args[0]); err != nil {
				return err
			}
			if dir == "" {
				dir = embedded.StateDir(a.Conn.Data, args[0])
			}
			if from == "" {
				from = stage.SnapshotDir(dir)
			}
			if keyFile == "" {
				keyFile = embedded.StateKeyFile(a.Conn.Data)
			}
			key, err := embedded.StateKey(keyFile, args[0])
			if err != nil {
				return err
			}
			var nc *nats.Conn
			if !offline {
				var err error
				if nc, err = a.Conn.Connect(string(natsserver.RoleOperator)); err != nil {
					return fmt.Errorf("whether the snapshot is late enough cannot be asked (--offline restores it unasked): %w", err)
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
		"`FILE` of the key that the snapshot is sealed with (default DATA/keys/state.key)")
	c.Flags().BoolVar(&offline, "offline", false, "do not ask the ledger")
	return c
}
