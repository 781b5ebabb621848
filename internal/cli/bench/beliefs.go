package bench

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
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli/lab"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/heap"
	"lazaret/internal/wire"
)

func init() { Verbs.Add("bench", beliefsCommand) }

func beliefsCommand(a *verb.App) *cobra.Command {
	rep := new(bench.BeliefsReport)
	var requests, again int
	var sync, json bool
	var profile, cpuprofile string
	c := &cobra.Command{
		Use:   "beliefs",
		Short: "Measure a project with a million beliefs against one with few (exit 2 when a budget is missed)",
		Long: `Start a pipeline in a new folder and publish observations until one project has --few
beliefs, then until it has --many, in steps of --window observations. Measure the
processor time of the whole pipeline per observation, until the observation is audited:
in the first step after --few, and in all steps after half of --many. The second figure
needs many steps, because files, indexes and filters are merged or rebuilt only in some
of them. The first step is repeated in --again other pipelines, half of them before and
half after the main run, because one step on a shared machine is inaccurate; the result
is the mean. At both numbers of beliefs, a separate process measures the latency of
recalls by three to seven words, and timestamps in the ledger show which parts of the
pipeline it is spent in. Finally, measure the resident memory of the pipeline.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rep.Few < 1 || rep.Window < 1 || rep.Many < 2*(rep.Few+rep.Window) {
				return errors.New("--few and --window must be at least 1, and --many at least twice their sum")
			}
			if again < 0 {
				return errors.New("--again is at least 0")
			}
			rep.SyncAlways = sync
			heap.Keep(cmd.Context())
			b := &beliefsBench{App: a, rep: rep, requests: requests, memprofile: profile, cpuprofile: cpuprofile,
				say: func(format string, args ...any) {
					fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
				}}
			if err := b.run(cmd.Context(), again); err != nil {
				return err
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&rep.Few, "few", 10_000, "number of beliefs at the first measurement")
	f.IntVar(&rep.Many, "many", 1_000_000, "number of beliefs at the last measurement")
	f.IntVar(&rep.Window, "window", 20_000, "number of observations in one step")
	f.IntVar(&again, "again", 8, "number of other pipelines in which the step after --few is measured")
	f.IntVar(&requests, "recalls", 3000, "number of measured recalls")
	f.BoolVar(&sync, "sync", false, "acknowledge only after data is on disk")
	f.StringVar(&profile, "memprofile", "", "write a heap profile of server and stages, with all beliefs, to `FILE`")
	f.StringVar(&cpuprofile, "cpuprofile", "",
		"write a CPU profile of server and stages, during the recalls with all beliefs, to `FILE`")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// beliefsBench is a run of `bench beliefs`.
type beliefsBench struct {
	*verb.App
	rep                    *bench.BeliefsReport
	requests               int
	memprofile, cpuprofile string
	say                    func(string, ...any)
}

func (b *beliefsBench) run(ctx context.Context, again int) error {
	var first []bench.Window
	early := func(n int) error {
		for range n {
			if err := b.with(ctx, func(p *beliefsRun) error {
				if err := p.fill(ctx, b.rep.Few); err != nil {
					return err
				}
				w, err := p.step(ctx, b.rep.Window)
				first = append(first, w)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := early(again / 2); err != nil {
		return err
	}
	if err := b.with(ctx, func(p *beliefsRun) error {
		w, err := p.grow(ctx)
		first = append(first, w)
		return err
	}); err != nil {
		return err
	}
	if err := early(again - again/2); err != nil {
		return err
	}
	b.rep.First = bench.Mean(first)
	b.rep.Ratio = b.rep.Last.CPU / max(b.rep.First.CPU, 0.001)
	return nil
}

// with calls f with a pipeline in a temporary folder, and removes the folder.
func (b *beliefsBench) with(ctx context.Context, f func(*beliefsRun) error) (err error) {
	data, err := os.MkdirTemp("", "lazaret-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	pipe, err := embedded.Start(ctx, embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: !b.rep.SyncAlways})
	if err != nil {
		return err
	}
	defer pipe.Close()
	own := new(verb.App)
	own.Conn.Data, own.Conn.Timeout = data, b.Conn.Timeout
	op, err := own.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer op.Close()
	return f(&beliefsRun{beliefsBench: b, data: data, op: op})
}

// beliefsRun tracks the number of beliefs of one project in one pipeline.
type beliefsRun struct {
	*beliefsBench
	data string
	op   *nats.Conn
	have int // beliefs
}

// step creates n more beliefs.
func (p *beliefsRun) step(ctx context.Context, n int) (w bench.Window, err error) {
	cpu, began := bench.CPUTime(), time.Now()
	var done int
	if err := benchClient(ctx, p.data, bench.DecideOptions{Fill: n}, &done, "--beliefs-from",
		fmt.Sprint(p.have)); err != nil {
		return w, err
	}
	if _, _, err := lab.Settle(ctx, p.op); err != nil {
		return w, err
	}
	p.have += n
	w = bench.Window{Beliefs: n, CPU: float64((bench.CPUTime() - cpu).Microseconds()) / float64(n),
		Rate: float64(n) / time.Since(began).Seconds()}
	p.say("%d beliefs; the last %d took %.0f us CPU each, %.0f/s", p.have, n, w.CPU, w.Rate)
	return w, nil
}

// fill creates beliefs up to a total, in steps that the intake can hold.
func (p *beliefsRun) fill(ctx context.Context, many int) error {
	for p.have < many {
		if _, err := p.step(ctx, min(p.rep.Window, many-p.have)); err != nil {
			return err
		}
	}
	return nil
}

// recall measures the latency of recalls and the phases of their requests.
func (p *beliefsRun) recall(ctx context.Context, l *bench.Latencies, cpuprofile string) error {
	stop, err := profileTo(cpuprofile)
	if err != nil {
		return err
	}
	var r bench.Recalls
	warm, cpu := p.requests/10, bench.CPUTime()
	err = benchClient(ctx, p.data, bench.DecideOptions{Requests: p.requests, Warm: warm}, &r, "--recalls")
	p.rep.RecallCPU = float64((bench.CPUTime() - cpu).Microseconds()) / float64(max(p.requests+warm, 1))
	stop()
	if err != nil {
		return err
	}
	*l = r.Latencies
	js := wire.JetStream(p.op)
	p.rep.Phases, err = bench.Phases(ctx, js, r.Asked)
	return err
}

// grow fills one pipeline with rep.Many beliefs and sets the figures of the report that come from it. It returns the
// figures of the step after the first rep.Few beliefs, which the other pipelines measure too.
func (p *beliefsRun) grow(ctx context.Context) (first bench.Window, err error) {
	rep := p.rep
	if err := p.fill(ctx, rep.Few); err != nil {
		return first, err
	}
	if err := p.recall(ctx, &rep.RecallFew, ""); err != nil {
		return first, err
	}
	if first, err = p.step(ctx, rep.Window); err != nil {
		return first, err
	}
	var late []bench.Window
	for p.have < rep.Many {
		from := p.have
		w, err := p.step(ctx, min(rep.Window, rep.Many-p.have))
		if err != nil {
			return first, err
		}
		if from >= rep.Many/2 {
			late = append(late, w)
		}
	}
	rep.Last = bench.Mean(late)
	if err := p.recall(ctx, &rep.RecallMany, p.cpuprofile); err != nil {
		return first, err
	}
	rep.BusyBytes, rep.PeakBytes = bench.Memory()
	select {
	case <-ctx.Done():
		return first, ctx.Err()
	case <-time.After(bench.Rest):
	}
	rep.MemoryBytes, _ = bench.Memory()
	rep.Parts = bench.Parts()
	if p.memprofile != "" {
		f, err := os.Create(p.memprofile)
		if err != nil {
			return first, err
		}
		if err := errors.Join(pprof.WriteHeapProfile(f), f.Close()); err != nil {
			return first, err
		}
	}
	return first, filepath.WalkDir(filepath.Join(p.data, "state", "ingest"),
		func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if fi, err := d.Info(); err == nil {
				rep.DiskBytes += fi.Size()
			}
			return nil
		})
}
