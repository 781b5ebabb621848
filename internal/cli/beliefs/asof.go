package beliefs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/replay"
	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func init() { Verbs.Add("beliefs", asOfCommand) }

// asOfCommand returns the command that computes the beliefs from the ledger up to a given entry or time.
func asOfCommand(a *verb.App) *cobra.Command {
	var f cli.ListFlags
	var project, at, valid, until string
	c := &cobra.Command{
		Use:   "as-of [ID…]",
		Short: "List the beliefs at an earlier time",
		Long: `List a project's beliefs with their state at an earlier ledger time (--at TIME, or --seq for
the time of an entry). With --valid TIME, list only those that their writers declared valid at that
time. Example for both: what did we believe on Monday about the first of May? The beliefs
are computed from the ledger's beginning in the same way as by ingest, so the result is
exactly what ingest knew then. The command takes long for a long ledger.`,
		Example: "  lazaret beliefs as-of --at 2026-11-20T09:00:00Z\n  lazaret beliefs as-of --seq 140 --valid 2026-05-01",
		RunE: func(cmd *cobra.Command, ids []string) error {
			cut, err := when(at)
			if err != nil {
				return fmt.Errorf("--at: %w", err)
			}
			holds, err := when(valid)
			if err != nil {
				return fmt.Errorf("--valid: %w", err)
			}
			seq := uint64(0)
			if cmd.Flags().Changed("seq") {
				if seq, err = position.Parse(until); err == nil && position.Sequence(seq) == 0 {
					err = fmt.Errorf("the ledger's first entry is 1, not %s", until)
				}
				if err != nil {
					return fmt.Errorf("--seq: %w", err)
				}
			}
			var items []ingest.Belief
			a.Conn.Timeout = max(a.Conn.Timeout, 10*time.Minute) // the command reads the whole ledger
			err = a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				items, err = believedAsOf(ctx, nc, project, seq, cut)
				return err
			})
			if err != nil {
				return err
			}
			kept := items[:0]
			for _, b := range items {
				if len(ids) > 0 && !slices.Contains(ids, b.ID) {
					continue
				}
				if !holds.IsZero() && (!b.From.IsZero() && holds.Before(b.From) || !b.To.IsZero() && !holds.Before(b.To)) {
					continue
				}
				kept = append(kept, b)
			}
			return printBeliefs(cmd.OutOrStdout(), f, kept)
		},
	}
	f.Bind(c.Flags())
	c.Flags().StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	c.Flags().StringVar(&at, "at", "", "ledger `TIME`, RFC 3339 or a date (default now)")
	c.Flags().StringVar(&until, "seq", "", "the beliefs as of the ledger entry of this `POSITION`, such as 98 or 98.2")
	c.Flags().StringVar(&valid, "valid", "", "only beliefs valid at this `TIME`")
	c.MarkFlagsMutuallyExclusive("at", "seq")
	return c
}

// when parses a time or a date; an empty string gives the zero time.
func when(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-05-01 or 2026-05-01T09:00:00Z", s)
}

// believedAsOf computes the beliefs from the ledger entries up to the position seq and the time at. A zero value
// means no limit.
func believedAsOf(ctx context.Context, nc *nats.Conn, project string, seq uint64, at time.Time) ([]ingest.Belief,
	error) {
	if err := streams.CheckID("project", project); err != nil {
		return nil, err
	}
	js := wire.JetStream(nc)
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	end := st.CachedInfo().State.LastSeq
	if first := st.CachedInfo().State.FirstSeq; first > 1 {
		return nil, fmt.Errorf("the ledger begins at %d: without its earlier entries, the beliefs cannot be computed", first)
	}
	to := end
	if seq != 0 {
		if to = position.Sequence(seq); to > end {
			return nil, fmt.Errorf("--seq: the ledger ends at %d, before entry %s", end, position.Text(seq))
		}
	}
	r, err := ingest.NewReplay()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := streams.PartitionOf(project)
	var last uint64 // position of the last entry in the ledger message of seq
	err = replay.Entries(ctx, nc, 0, to, func(e *streams.Entry) error {
		if seq != 0 && e.Seq == to {
			last = e.Position()
		}
		if e.Partition != p || !at.IsZero() && e.Time.After(at) || seq != 0 && position.Compare(e.Position(), seq) > 0 {
			return nil
		}
		if e.Project != project {
			return nil
		}
		return r.Add(e)
	})
	if err != nil {
		return nil, err
	}
	if last != 0 && position.Compare(seq, last) > 0 {
		return nil, fmt.Errorf("--seq: ledger message %d ends with entry %s, before %s", to, position.Text(last),
			position.Text(seq))
	}
	return r.Beliefs(project)
}
