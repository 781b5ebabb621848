package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/heap"
	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", decideCommand, clientCommand) }

func decideCommand(a *verb.App) *cobra.Command {
	var o bench.DecideOptions
	var flat, noSync, json bool
	var few, many int
	var profile string
	c := &cobra.Command{
		Use:   "decide",
		Short: "Measure how long a verdict takes (exit 2 when a budget is missed)",
		Long: `Start a pipeline in a new folder and request verdicts sequentially from a separate
process over a local connection. With --rate, another process publishes observations of
1 KiB to the same project at the same time. With --flat, measure again after the project
has --many actions.

Every answer is in the ledger, and on disk unless --no-sync is given. Afterwards the
publishes of one verdict are measured alone, on the same streams of an otherwise idle
server, each entry in a message of its own (sync_floor_us, shape_p50). They are the
reference: no verdict of separate daemons can be faster on this machine. The stages of
this pipeline decide jointly, in one publish if nothing else waits.`,
		Example: "  lazaret bench decide --json\n  lazaret bench decide --rate 3000\n  lazaret bench decide --flat",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			heap.Keep(cmd.Context())
			rep, way, err := decideIn(cmd.Context(), filepath.Join(data, "pipeline"), o, noSync, profile,
				func(ctx context.Context, data string, rep *bench.DecideReport) (err error) {
					if flat {
						rep.Flat, err = benchFlat(ctx, data, o, few, many)
						return err
					}
					return benchLoaded(ctx, data, o, rep)
				})
			if err != nil {
				return err
			}
			if !flat {
				if rep.Floor, err = bench.MeasureFloor(cmd.Context(), filepath.Join(data, "floor"), noSync, way); err != nil {
					return fmt.Errorf("measuring its publishes alone: %w", err)
				}
			}
			if rep.Flat != nil {
				rep.Latencies = rep.Flat.First
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Requests, "requests", 3000, "number of measured requests")
	f.IntVar(&o.Warm, "warm", 300, "number of requests before the measurement")
	f.Float64Var(&o.Rate, "rate", 0, "observations per second published at the same time")
	f.BoolVar(&flat, "flat", false, "compare a project of --many actions with one of --few")
	f.IntVar(&few, "few", 1000, "number of actions before the first measurement of --flat")
	f.IntVar(&many, "many", 100_000, "number of actions before the second measurement of --flat")
	f.BoolVar(&noSync, "no-sync", false, "acknowledge before data is on disk")
	f.StringVar(&profile, "cpuprofile", "", "write a CPU profile of server and stages to `FILE`")
	f.BoolVar(&json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("rate", "flat")
	return c
}

// decideIn starts a pipeline and measures it. It returns the report and the ledger entries of the last
// verdict.
func decideIn(ctx context.Context, data string, o bench.DecideOptions, noSync bool, profile string,
	measure func(ctx context.Context, data string, rep *bench.DecideReport) error) (
	_ *bench.DecideReport, way []streams.Entry, err error) {
	p, err := embedded.Start(ctx, embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: noSync})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	stop, err := profileTo(profile)
	if err != nil {
		return nil, nil, err
	}
	rep := &bench.DecideReport{SyncAlways: !noSync, Rate: o.Rate}
	err = measure(ctx, data, rep)
	stop()
	if err != nil {
		return nil, nil, err
	}
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		return nil, nil, err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	way, err = bench.Way(ctx, js, embedded.DefaultProject)
	return rep, way, err
}

// benchLoaded measures under load, if a rate is set.
func benchLoaded(ctx context.Context, data string, o bench.DecideOptions, rep *bench.DecideReport) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := make(chan error, 1)
	if o.Rate > 0 {
		// The load runs until the requests are done, and is then stopped.
		go func() {
			load <- benchClient(ctx, data, bench.DecideOptions{Rate: o.Rate, For: benchLoadTime(o)}, &rep.Achieved)
		}()
		select {
		case err := <-load:
			return fmt.Errorf("the load ended early: %w", err)
		case <-time.After(2 * time.Second): // wait until the load has started
		}
	}
	lat := new(bench.Latencies)
	if err := benchClient(ctx, data, bench.DecideOptions{Requests: o.Requests, Warm: o.Warm}, lat); err != nil {
		return err
	}
	rep.Latencies = *lat
	if o.Rate == 0 {
		return nil
	}
	return <-load
}

// benchLoadTime returns the duration of the load: 3 ms per request, at least ten seconds.
func benchLoadTime(o bench.DecideOptions) time.Duration {
	return max(10*time.Second, time.Duration(o.Requests+o.Warm)*3*time.Millisecond)
}

func benchFlat(ctx context.Context, data string, o bench.DecideOptions, few, many int) (*bench.Flatness, error) {
	f := &bench.Flatness{Few: few, Many: many}
	if err := benchClient(ctx, data, bench.DecideOptions{Fill: few, Requests: o.Requests}, &f.First); err != nil {
		return nil, err
	}
	if err := benchClient(ctx, data, bench.DecideOptions{Fill: max(many-few-o.Requests, 0), Warm: o.Warm,
		Requests: o.Requests}, &f.Last); err != nil {
		return nil, err
	}
	f.Ratio = float64(f.Last.P99) / float64(max(f.First.P99, 1))
	return f, nil
}

// benchClient runs a client in a separate process and reads its measurements.
func benchClient(ctx context.Context, data string, o bench.DecideOptions, into any, more ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"bench", "client", "--data", data, "--requests", strconv.Itoa(o.Requests), "--warm",
		strconv.Itoa(o.Warm),
		"--fill", strconv.Itoa(o.Fill), "--rate", fmt.Sprint(o.Rate), "--for", o.For.String()}, more...)
	c := exec.CommandContext(ctx, self, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("the client: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return streams.Unmarshal(out.Bytes(), into)
}

// clientCommand returns the hidden client command of bench decide.
func clientCommand(a *verb.App) *cobra.Command {
	from, recalls := -1, false
	o := bench.DecideOptions{Project: embedded.DefaultProject, Agent: embedded.DefaultAgent}
	c := &cobra.Command{
		Use:    "client",
		Short:  "The client process of the other benchmarks",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nc, err := a.Conn.Connect("agent")
			if err != nil {
				return err
			}
			defer nc.Close()
			if from >= 0 {
				if err := bench.Fill(cmd.Context(), nc, o, from, o.Fill); err != nil {
					return err
				}
				return cli.JSON(cmd.OutOrStdout(), o.Fill)
			}
			if recalls {
				l, err := bench.RecallMany(cmd.Context(), nc, o)
				if err != nil {
					return err
				}
				return cli.JSON(cmd.OutOrStdout(), l)
			}
			if o.Rate > 0 {
				n, err := bench.Load(cmd.Context(), nc, o)
				if err != nil {
					return err
				}
				return cli.JSON(cmd.OutOrStdout(), n)
			}
			l, err := bench.AskMany(cmd.Context(), nc, o)
			if err != nil {
				return err
			}
			return cli.JSON(cmd.OutOrStdout(), l)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Requests, "requests", 0, "number of measured requests")
	f.IntVar(&o.Warm, "warm", 0, "number of requests before the measurement")
	f.IntVar(&o.Fill, "fill", 0, "number of actions to propose before the first request")
	f.Float64Var(&o.Rate, "rate", 0, "publish this number of observations per second instead of requests")
	f.DurationVar(&o.For, "for", 0, "how long to publish with --rate")
	f.IntVar(&from, "beliefs-from", -1, "publish --fill beliefs instead of requests, numbered from this number")
	f.BoolVar(&recalls, "recalls", false, "ask for recalls instead of verdicts on actions")
	return c
}
