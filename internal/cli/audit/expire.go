package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/retain"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
)

func init() { Verbs.Add("audit", expireCommand) }

func expireCommand(a *verb.App) *cobra.Command {
	var older, wait, every time.Duration
	var dry, json bool
	var key string
	var log LogFlags
	c := &cobra.Command{
		Use:   "expire [--older DURATION]",
		Short: "Erase old payloads of the log and the beliefs derived from them",
		Long: `Erase payloads of the log that are older than a horizon (the time --older before now) and
were trimmed from the ledger (lazaret audit trim), and the data that stages derived from them:

  1. a statement signed by an operator, with the horizon and a ledger sequence, becomes
     an "expired" entry in every partition;
  2. every auditor erases the payloads from its files before it adds the entry to its
     log, and removes snapshots of the log;
  3. ingest drops beliefs from content observed before the horizon, with their texts, if
     they are unchanged and nothing depends on them.

Projects with a legal hold, on the project or on a data subject in it, are excluded.
Memories, verdicts and people's decisions in the state stay. The leaves of the log stay
too, so that proofs and earlier checkpoints remain valid. A missing payload that no
statement covers is a finding of lazaret audit verify. Sealed shards are not changed.
An auditor that refused the order is listed, and the exit code is 3.

For an auditor that runs apart, run the command on its machine and name its log with
--dir. The data folder needs the credentials retention and operator, and the keys
operator.key and audit-master.key.`,
		Example: "  lazaret audit expire --older 2160h --dry-run\n  lazaret audit expire --older 2160h --every 24h\n" +
			"  lazaret audit expire --data lz --dir /var/lib/lazaret-auditor/audit",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older < 0 {
				return errors.New("--older cannot be negative")
			}
			if err := checkWait(wait); err != nil {
				return err
			}
			return repeatedly(cmd, every, func() error {
				return Retention(a, cmd, wait, nil, log, func(ctx context.Context, c *retain.Config) (err error) {
					var x *retain.Expiry
					before := time.Now().Add(-older)
					if dry {
						x, err = c.PlanExpiry(ctx, before)
					} else {
						signer, serr := operatorSigner(a, key)
						if serr != nil {
							return serr
						}
						x, err = c.Expire(ctx, signer, before, fmt.Sprintf("older than %s", older))
					}
					if err != nil {
						return err
					}
					if json {
						err = cli.JSON(cmd.OutOrStdout(), x)
					} else {
						printExpiry(cmd.OutOrStdout(), x)
					}
					if err == nil && len(x.Refused) > 0 {
						err = &cli.Exit{Code: cli.ExitIncomplete, Text: "an auditor refused the order to expire"}
					}
					return err
				})
			})
		},
	}
	f := c.Flags()
	log.bindApart(f)
	f.DurationVar(&older, "older", trimHorizon, "`HORIZON`: only older payloads expire")
	f.DurationVar(&every, "every", 0, "repeat after this `DURATION`; errors are printed and retried")
	f.DurationVar(&wait, "wait", 10*time.Minute,
		"stop if the command is not done after this `DURATION`, which must be more than 0")
	f.BoolVar(&dry, "dry-run", false, "print the ledger sequence up to which entries would expire, and change nothing")
	f.BoolVar(&json, "json", false, "print JSON")
	f.StringVar(&key, "key", "", "operator's key `FILE` (default DATA/keys/operator.key)")
	return c
}

func printExpiry(w io.Writer, x *retain.Expiry) {
	horizon := x.Before.Format(time.RFC3339)
	switch {
	case x.UpTo == 0:
		fmt.Fprintf(w, "nothing expires: no entry older than %s was trimmed from the ledger\n", horizon)
	case x.Statement == "":
		fmt.Fprintf(w, "nothing was changed: ledger entries up to %d, which are older than %s, would expire\n", x.UpTo,
			horizon)
	default:
		fmt.Fprintf(w, "ledger entries up to %d, which are older than %s, expired: statement %s, ledger entry %s; "+
			"every registered auditor has chained it\n", x.UpTo, horizon, x.Statement, position.Text(x.Entry))
	}
	for _, id := range slices.Sorted(maps.Keys(x.Refused)) {
		fmt.Fprintf(w, "  NOT ERASED: auditor %s refused the order, and its log still has the payloads: %s\n",
			text.InertLine(id, 100),
			text.InertLine(x.Refused[id], 300))
	}
}

// repeatedly calls do once if every is 0. Otherwise it calls do at that interval and prints errors.
func repeatedly(cmd *cobra.Command, every time.Duration, do func() error) error {
	for {
		err := do()
		if every <= 0 || cmd.Context().Err() != nil {
			return err
		}
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), text.InertLine(err.Error(), 500))
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}
