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

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/heap"
	"lazaret/internal/natsserver"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", decideCommand) }

func decideCommand(a *verb.App) *cobra.Command {
	var o bench.DecideOptions
	var flat, noSync, json bool
	var few, many int
	var profile string
	c := &cobra.Command{
		Use:   "decide",
		Short: "Measure how long a verdict takes (exit 2 when a budget is missed)",
		Long: `Start a pipeline in a folder of its own and ask it for verdicts, one after the
other, from a process of its own over a local connection. With --rate, another
process publishes observations of 1 KiB into the same project meanwhile. With
--flat, measure again once the project has many actions behind it.

Every answer is in the ledger, and on disk unless --no-sync is given. Afterwards the
publishes that one verdict needs are made by themselves, as many in a row into the same
streams of a server that does nothing else (sync_floor_us): no verdict is faster than
that on this machine.`,
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
	f.IntVar(&o.Requests, "requests", 3000, "requests that are measured")
	f.IntVar(&o.Warm, "warm", 300, "requests before them")
	f.Float64Var(&o.Rate, "rate", 0, "observations a second meanwhile")
	f.BoolVar(&flat, "flat", false, "compare a project of --many actions with one of --few")
	f.IntVar(&few, "few", 1000, "actions before the first measurement of --flat")
	f.IntVar(&many, "many", 100_000, "actions before the second one")
	f.BoolVar(&noSync, "no-sync", false, "acknowledge before data is on disk")
	f.StringVar(&profile, "cpuprofile", "", "write a CPU profile of server and stages to `FILE`")
	f.BoolVar(&json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("rate", "flat")
	return c
}

// decideIn starts a pipeline, has it measured, and returns what the last verdict left
// in its ledger.
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
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, err
	}
	way, err = bench.Way(ctx, js, embedded.DefaultProject)
	return rep, way, err
}

// benchLoaded measures, with a load if there is one.
func benchLoaded(ctx context.Context, data string, o bench.DecideOptions, rep *bench.DecideReport) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := make(chan error, 1)
	if o.Rate > 0 {
		// Long enough for requests of 20 ms each, and ended with them.
		go func() {
			load <- benchClient(ctx, data, bench.DecideOptions{Rate: o.Rate, For: benchLoadTime(o)}, &rep.Achieved)
		}()
		select {
		case err := <-load:
			return fmt.Errorf("the load ended early: %w", err)
		case <-time.After(2 * time.Second): // for the load to be there
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

// benchLoadTime is how long the load goes on: as long as the requests take at
// 3 ms each, at least ten seconds.
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

// benchClient runs a client in a process of its own and reads what it measured.
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

func init() { Verbs.Add("bench", clientCommand) }

// clientCommand is the client of bench decide.
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
	f.IntVar(&o.Requests, "requests", 0, "requests that are measured")
	f.IntVar(&o.Warm, "warm", 0, "requests before them")
	f.IntVar(&o.Fill, "fill", 0, "actions before all of them")
	f.Float64Var(&o.Rate, "rate", 0, "observations a second to publish instead")
	f.DurationVar(&o.For, "for", 0, "how long")
	f.IntVar(&from, "beliefs-from", -1, "publish --fill beliefs instead, from this number on")
	f.BoolVar(&recalls, "recalls", false, "ask for recalls instead of verdicts on actions")
	return c
}
