package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/metrics"
	"lazaret/internal/query"
	"lazaret/internal/status"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// topView is the output of `lazaret top --json`.
type topView struct {
	*status.Snapshot
	// OpenHolds is the number of open holds; -1 if the arbiter does not reply.
	OpenHolds int `json:"open_holds"`
}

func init() { Verbs.Add("", topCommand) }

func topCommand(a *verb.App) *cobra.Command {
	var every time.Duration
	var once, asJSON bool
	c := &cobra.Command{
		Use:   "top",
		Short: "Show rates, lags, verdicts, holds and the log continuously",
		Long: `Show the intake, the progress of each process of each stage, verdicts, open holds, and
the signed part of the log every --interval until interrupted. The stages report this
over NATS: no metrics endpoint is needed.

Counts are sums over the running processes since their start. Rates are computed between
two samples. LAG is the number of ledger entries that a process has not processed, and
BEHIND IN lists the partitions of these entries. WAITING is the number of entries that a
process has decided on and that are not in the ledger yet. TAKEOVERS counts the partitions
that a process took over from another process of its stage, and FENCE LOST those in which
another process published first. An intake message counts as waiting until ingest purges it,
at most two seconds after its entry.

With --once it prints once. Rates then need two samples, --interval apart; with
--interval 0 there are none.`,
		Example: "  lazaret top\n  lazaret top --once --json --interval 0",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 0 || !once && every == 0 {
				return errors.New("--interval must be positive; 0 is valid only with --once")
			}
			nc, err := a.Conn.Connect("operator")
			if err != nil {
				return err
			}
			defer nc.Close()
			w := cmd.OutOrStdout()
			var before *status.Snapshot
			for {
				v, err := look(a, cmd.Context(), nc)
				if err != nil {
					if cmd.Context().Err() != nil {
						return nil
					}
					return err
				}
				if before != nil {
					v.Since(before)
				}
				switch {
				case once && before == nil && every > 0:
				case asJSON:
					if err := cli.JSON(w, v); err != nil {
						return err
					}
				default:
					var b strings.Builder
					printTop(&b, v, nc.ConnectedUrlRedacted())
					if !once {
						fmt.Fprint(w, "\x1b[H\x1b[2J") // cursor home, clear screen
					}
					if _, err := io.WriteString(w, b.String()); err != nil {
						return err
					}
				}
				if once && (before != nil || every == 0) {
					return nil
				}
				before = v.Snapshot
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	f := c.Flags()
	f.DurationVar(&every, "interval", 2*time.Second, "time between two samples")
	f.BoolVar(&once, "once", false, "print once and exit")
	f.BoolVar(&asJSON, "json", false, "print JSON, one object per sample")
	return c
}

func look(a *verb.App, ctx context.Context, nc *nats.Conn) (*topView, error) {
	ctx, cancel := a.Timeout(ctx)
	defer cancel()
	s, err := status.Collect(ctx, nc)
	if err != nil {
		return nil, err
	}
	v := &topView{Snapshot: s}
	for p := range streams.Partitions {
		var open []arbiter.Hold
		ask, stop := context.WithTimeout(ctx, time.Second)
		err := query.Ask(ask, nc, arbiter.AskHolds, p, arbiter.HoldsRequest{State: "open"}, &open)
		stop()
		if err != nil {
			v.OpenHolds = -1
			break
		}
		v.OpenHolds += len(open)
	}
	return v, nil
}

func printTop(w io.Writer, v *topView, url string) {
	rate := func(f func(*status.Rates) float64) string {
		if v.Rates == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f/s", f(v.Rates))
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s  %s\n\n", v.Time.Format(time.DateTime), url)
	fmt.Fprintf(tw, "intake\t%s in\t%d wait, %s\tfullest subject %d of %d\n",
		rate(func(r *status.Rates) float64 { return r.Intake }), v.Intake.Messages, filled(v.Intake), v.FullestHas,
		v.PerSubject)
	fmt.Fprintf(tw, "ledger\t%s in\t%d entries, %s\tends at %d\n",
		rate(func(r *status.Rates) float64 { return r.Ledger }), v.Ledger.Messages, filled(v.Ledger), v.Ledger.Last)
	count := func(word string) uint64 { return v.Counts[string(streams.TypeVerdict)+"."+word] }
	fmt.Fprintf(tw, "verdicts\t%s\tallow %d, hold %d, deny %d\topen holds %s\n",
		rate(func(r *status.Rates) float64 { return r.Verdicts }), count("allow"), count("hold"), count("deny"),
		holdsText(v.OpenHolds))
	fmt.Fprintf(tw, "rejected\t%s\tmessages %d, repeated ids %d\tentries with alerts %d\n",
		rate(func(r *status.Rates) float64 { return r.Rejected }), v.Counts[string(streams.TypeRejected)],
		v.Counts[string(streams.TypeRepeat)], v.Counts[string(streams.TypeAlerts)])
	for _, p := range v.Processes {
		if p.Log != nil {
			fmt.Fprintf(tw, "log\t%d leaves\t%d unsigned, %d gaps\tcheckpoint %s\n", p.Log.Leaves, p.Log.Unsigned, p.Log.Gaps,
				ageText(p.Log.CheckpointAge))
		}
	}
	tw.Flush()
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STAGE\tPROCESS\tSTATE\tLAG\tBEHIND IN\tWAITING\tENTRIES/S\tPUBLISHED\tTAKEOVERS\tFENCE LOST")
	for _, p := range v.Processes {
		per := "-"
		if v.Rates != nil {
			if r, ok := v.Rates.Processes[p.Stage+" "+p.Process]; ok {
				per = fmt.Sprintf("%.0f", r)
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%d\t%d\n", text.InertLine(p.Stage, 80),
			text.InertLine(p.Process, 40), status.Word(p), p.Lag, partitionsText(p.Behind), p.Waiting, per, p.Published,
			p.TakenOver, p.FenceLost)
	}
	for _, s := range v.Silent {
		fmt.Fprintf(tw, "%s\t-\tno answer\t%s\n", text.InertLine(s.Stage, 80), silentText(s))
	}
	tw.Flush()
	var missed []string
	for _, k := range slices.Sorted(maps.Keys(v.Counts)) {
		if g, ok := strings.CutPrefix(k, string(streams.TypeVerdict)+"."+metrics.SilentGroup); ok {
			missed = append(missed, fmt.Sprintf("%s %d", text.InertLine(g, 80), v.Counts[k]))
		}
	}
	if len(missed) > 0 {
		fmt.Fprintf(w, "\nverdicts without an answer of a group  %s\n", strings.Join(missed, ", "))
	}
	var waiting []string
	for _, p := range v.Partitions {
		if p.Waiting > 0 {
			waiting = append(waiting, fmt.Sprintf("%d: %d", p.Partition, p.Waiting))
		}
	}
	if len(waiting) > 0 {
		fmt.Fprintf(w, "\nwaiting by partition  %s\n", strings.Join(waiting, ", "))
	}
}

func filled(f status.Fill) string {
	if f.MaxBytes == 0 {
		return fmt.Sprintf("%.1f MiB, limited only by the disk", float64(f.Bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f of %.0f MiB (%.1f %%)", float64(f.Bytes)/(1<<20), float64(f.MaxBytes)/(1<<20), 100*f.Share())
}

func holdsText(n int) string {
	if n < 0 {
		return "unknown: the arbiter does not answer"
	}
	return fmt.Sprint(n)
}

func ageText(s float64) string {
	if s < 0 {
		return "not signed by this process yet"
	}
	return time.Duration(s*float64(time.Second)).Round(100*time.Millisecond).String() + " ago"
}

func silentText(s status.Silent) string {
	if s.Stage == status.StageAuditor {
		return "-"
	}
	return fmt.Sprintf("last wrote entry %d, %d before the ledger's end", s.Last, s.Since)
}

// partitionsText formats partitions as a list such as 0-3,7.
func partitionsText(ps []int) string {
	if len(ps) == 0 {
		return "-"
	}
	ps = slices.Sorted(slices.Values(ps))
	var out []string
	for i := 0; i < len(ps); {
		j := i
		for j+1 < len(ps) && ps[j+1] == ps[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(ps[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", ps[i], ps[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}
