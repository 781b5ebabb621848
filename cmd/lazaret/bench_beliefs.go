package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/embedded"
	"lazaret/internal/heap"
)

func (a *app) benchBeliefs() *cobra.Command {
	rep := new(bench.BeliefsReport)
	var requests int
	var sync, json bool
	var profile, cpuprofile string
	c := &cobra.Command{
		Use:   "beliefs",
		Short: "Measure a project with a million beliefs against one with few (exit 2 when a budget is missed)",
		Long: `Start a pipeline in a folder of its own, let it read until one project has --few
beliefs, and on until it has --many, in steps of --window. Measure what an observation
costs, in processor time of the whole pipeline until it is audited, in the first step
after --few, and in all steps from the half of --many on, since files, indexes and
filters are merged or made anew as a project doubles, which falls into some steps and
not into others. At both numbers, measure how long recalls by three to seven words
take, from a process of its own, and, by the stamps in the ledger, on which parts of
their way. In the end, what the pipeline has resident.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rep.Few < 1 || rep.Window < 1 || rep.Many < 2*(rep.Few+rep.Window) {
				return errors.New("--few and --window are at least 1, --many is at least twice both together")
			}
			data, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			heap.Keep(cmd.Context())
			p, err := embedded.Start(cmd.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: !sync})
			if err != nil {
				return err
			}
			defer p.Close()
			rep.SyncAlways = sync
			own := new(app)
			own.conn.Data, own.conn.Timeout = data, a.conn.Timeout
			op, err := own.conn.Connect("operator")
			if err != nil {
				return err
			}
			defer op.Close()
			if err := fillAndMeasure(cmd.Context(), data, op, rep, requests, cpuprofile, func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
			}); err != nil {
				return err
			}
			if profile != "" {
				f, err := os.Create(profile)
				if err != nil {
					return err
				}
				if err := errors.Join(pprof.WriteHeapProfile(f), f.Close()); err != nil {
					return err
				}
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&rep.Few, "few", 10_000, "beliefs at first")
	f.IntVar(&rep.Many, "many", 1_000_000, "beliefs in the end")
	f.IntVar(&rep.Window, "window", 20_000, "observations that are measured at once")
	f.IntVar(&requests, "recalls", 1000, "recalls that are measured")
	f.BoolVar(&sync, "sync", false, "acknowledge after data is on disk only")
	f.StringVar(&profile, "memprofile", "", "write a heap profile of server and stages, with all beliefs, to `FILE`")
	f.StringVar(&cpuprofile, "cpuprofile", "", "write a CPU profile of server and stages, during the recalls with all beliefs, to `FILE`")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// fillAndMeasure makes the report. What is going on is said to say.
func fillAndMeasure(ctx context.Context, data string, op *nats.Conn, rep *bench.BeliefsReport, requests int, cpuprofile string, say func(string, ...any)) error {
	have := 0
	step := func(n int) (w bench.Window, err error) {
		cpu, began := bench.CPUTime(), time.Now()
		var done int
		if err := benchClient(ctx, data, bench.DecideOptions{Fill: n}, &done, "--beliefs-from", fmt.Sprint(have)); err != nil {
			return w, err
		}
		if _, _, err := settle(ctx, op); err != nil {
			return w, err
		}
		have += n
		w = bench.Window{Beliefs: n, CPU: float64((bench.CPUTime() - cpu).Microseconds()) / float64(n), Rate: float64(n) / time.Since(began).Seconds()}
		say("%d beliefs; the last %d took %.0f us CPU each, %.0f/s", have, n, w.CPU, w.Rate)
		return w, nil
	}
	recall := func(l *bench.Latencies, cpuprofile string) error {
		stop, err := profileTo(cpuprofile)
		if err != nil {
			return err
		}
		var r bench.Recalls
		warm, cpu := requests/10, bench.CPUTime()
		err = benchClient(ctx, data, bench.DecideOptions{Requests: requests, Warm: warm}, &r, "--recalls")
		rep.RecallCPU = float64((bench.CPUTime() - cpu).Microseconds()) / float64(max(requests+warm, 1))
		stop()
		if err != nil {
			return err
		}
		*l = r.Latencies
		js, err := jetstream.New(op)
		if err != nil {
			return err
		}
		rep.Phases, err = bench.Phases(ctx, js, r.Asked)
		return err
	}
	for have < rep.Few { // more at once than the intake holds would be refused
		if _, err := step(min(rep.Window, rep.Few-have)); err != nil {
			return err
		}
	}
	if err := recall(&rep.RecallFew, ""); err != nil {
		return err
	}
	var err error
	if rep.First, err = step(rep.Window); err != nil {
		return err
	}
	var late []bench.Window
	for have < rep.Many {
		from := have
		w, err := step(min(rep.Window, rep.Many-have))
		if err != nil {
			return err
		}
		if from >= rep.Many/2 {
			late = append(late, w)
		}
	}
	rep.Last = bench.Mean(late)
	if err := recall(&rep.RecallMany, cpuprofile); err != nil {
		return err
	}
	rep.Ratio = rep.Last.CPU / max(rep.First.CPU, 0.001)
	rep.BusyBytes, rep.PeakBytes = bench.Memory()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(bench.Rest):
	}
	rep.MemoryBytes, _ = bench.Memory()
	rep.Parts = bench.Parts()
	return filepath.WalkDir(filepath.Join(data, "state", "ingest"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if fi, err := d.Info(); err == nil {
			rep.DiskBytes += fi.Size()
		}
		return nil
	})
}
