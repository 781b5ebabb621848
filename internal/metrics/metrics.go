package metrics

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lazaret/internal/stage"
)

// ReadyLag is how many ledger entries a stage may be behind and still count as
// ready: less than a second of work.
const ReadyLag = 5000

// ReadyOwed is how long a stage may owe an entry and still count as ready.
const ReadyOwed = 10 * time.Second

// askTimeout bounds how long the ledger's tail is asked for.
const askTimeout = 2 * time.Second

// Tail asks for the last ledger sequence that concerns a stage; see
// stage.Tail.
type Tail func(ctx context.Context) (uint64, error)

// Process holds the metrics of one process. Create it with New.
type Process struct {
	reg *prometheus.Registry

	mu       sync.Mutex
	stages   []*stageOf   // guarded by mu
	complete bool         // guarded by mu
	unless   func() error // guarded by mu
	sentinel *sentinelVecs
}

// stageOf is a stage of this process.
type stageOf struct {
	name  string
	stats *stage.Stats
	tail  Tail
}

// New returns a process without stages.
func New() *Process {
	p := &Process{reg: prometheus.NewRegistry()}
	p.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&stageCollector{p})
	return p
}

// Stage adds a stage and returns the counts that it keeps up to date.
func (p *Process) Stage(name string, tail Tail) *stage.Stats {
	if p == nil {
		return nil
	}
	stats := new(stage.Stats)
	p.Watch(name, tail, stats)
	return stats
}

// Watch adds a stage that keeps stats up to date already.
func (p *Process) Watch(name string, tail Tail, stats *stage.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stages = append(p.stages, &stageOf{name: name, stats: stats, tail: tail})
}

// Unless sets a function that returns why the process as a whole is not ready, or nil.
func (p *Process) Unless(why func() error) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unless = why
}

// Complete says that every stage of the process has been added. Until then it
// is not ready.
func (p *Process) Complete() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = true
}

// obstacle returns why the process as a whole is not ready, or nil.
func (p *Process) obstacle() error {
	p.mu.Lock()
	why := p.unless
	p.mu.Unlock()
	if why == nil {
		return nil
	}
	return why()
}

func (p *Process) list() (stages []*stageOf, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stages[:len(p.stages):len(p.stages)], p.complete
}

// Ready writes how far each stage has come, and reports whether all of them
// have folded what the ledger held when they started and are not too far
// behind it now.
func (p *Process) Ready(ctx context.Context, w io.Writer) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stages, ready := p.list()
	if !ready {
		fmt.Fprintln(w, "the process is starting")
	}
	if err := p.obstacle(); err != nil {
		ready = false
		fmt.Fprintln(w, err)
	}
	for _, s := range stages {
		lag, err := s.lag(ctx)
		owed, why := s.stats.Owes()
		switch {
		case owed > ReadyOwed:
			ready = false
			fmt.Fprintf(w, "%s: owes an entry for %v: %s\n", s.name, owed.Round(time.Second), cmp.Or(why, "it does not say why"))
		case err != nil:
			ready = false
			fmt.Fprintf(w, "%s: how far it is behind is unknown: %v\n", s.name, err)
		case !s.stats.Ready.Load():
			ready = false
			fmt.Fprintf(w, "%s: folding what the ledger held at its start, %d entries behind\n", s.name, lag)
		case lag > ReadyLag:
			ready = false
			fmt.Fprintf(w, "%s: %d entries behind, more than %d\n", s.name, lag, ReadyLag)
		default:
			fmt.Fprintf(w, "%s: ready, %d entries behind\n", s.name, lag)
		}
	}
	return ready
}

// lag is how many ledger entries a stage has not taken in. One reader serves
// all its partitions in ledger order, so this is the sum over them; of a part
// of the partitions it is an upper bound.
func (s *stageOf) lag(ctx context.Context) (uint64, error) {
	// In this order: what is added meanwhile must not look like a stage that
	// is ahead.
	folded := s.stats.Folded.Load()
	tail, err := s.tail(ctx)
	if err != nil {
		return 0, err
	}
	return tail - min(tail, folded), nil
}

// stageCollector turns the stages' own counts into metrics.
type stageCollector struct{ p *Process }

func stageDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("lazaret_stage_"+name, help, []string{"stage"}, nil)
}

var (
	descReady     = stageDesc("ready", "1 once all that the ledger held at the start is folded.")
	descFolded    = stageDesc("folded_entries_total", "Ledger entries that were taken in.")
	descPublished = stageDesc("published_entries_total", "Entries that this process added to the ledger.")
	descWaiting   = stageDesc("waiting_entries",
		"Decided and not yet in the ledger; of ingest, messages of the intake that wait.")
	descLag = stageDesc("lag_entries", "Ledger entries not yet taken in, over all partitions of the stage; absent "+
		"while the server does not say where the ledger ends.")
	descActive = stageDesc("active", "1 if it publishes in at least one partition, 0 if it stands by.")
	descFence  = stageDesc("fence_losses_total", "Partitions where another process of the stage had come first.")
	descTaken  = stageDesc("takeovers_total", "Partitions where work had lain undone and this process began to do it.")
	descAhead  = stageDesc("batches_ahead_total",
		"Batches of ingest that were decided while the one before was on its way to the ledger.")
	descNoRoom = prometheus.NewDesc("lazaret_not_ready",
		"1 if something keeps the whole process from work, such as a full disk; /readyz says what.", nil, nil)
	descOwed = stageDesc("owed_seconds", "How long it has owed an entry to the ledger: it has read what asks for "+
		"one and has added none since. 0 if it owes none.")
	descIgnored = stageDesc("ignored_messages_total",
		"Messages in the ledger that no stage of ours wrote, or that say what cannot be true. They change nothing.")
	descOversized = stageDesc("oversized_entries_total",
		"Entries that did not fit into the ledger; a rejection stands in their place.")
	descDiverged = stageDesc("diverged_entries_total", "Entries of another process of the stage that are not what this "+
		"one would have written: the two are not the same version.")
)

// Describe implements prometheus.Collector.
func (c *stageCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReady, descFolded, descPublished, descWaiting, descLag, descActive,
		descFence, descTaken, descAhead, descDiverged, descOwed, descIgnored, descOversized, descNoRoom} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stageCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	stages, _ := c.p.list()
	ch <- prometheus.MustNewConstMetric(descNoRoom, prometheus.GaugeValue, truth(c.p.obstacle() != nil))
	for _, s := range stages {
		send := func(d *prometheus.Desc, t prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(d, t, v, s.name)
		}
		send(descReady, prometheus.GaugeValue, truth(s.stats.Ready.Load()))
		send(descFolded, prometheus.CounterValue, float64(s.stats.Entries.Load()))
		send(descPublished, prometheus.CounterValue, float64(s.stats.Published.Load()))
		send(descWaiting, prometheus.GaugeValue, float64(s.stats.Waiting.Load()))
		send(descActive, prometheus.GaugeValue, truth(s.stats.Active.Load()))
		send(descFence, prometheus.CounterValue, float64(s.stats.FenceLost.Load()))
		send(descTaken, prometheus.CounterValue, float64(s.stats.TakenOver.Load()))
		send(descAhead, prometheus.CounterValue, float64(s.stats.Ahead.Load()))
		send(descDiverged, prometheus.CounterValue, float64(s.stats.Diverged.Load()))
		owed, _ := s.stats.Owes()
		send(descOwed, prometheus.GaugeValue, owed.Seconds())
		send(descIgnored, prometheus.CounterValue, float64(s.stats.Ignored.Load()))
		send(descOversized, prometheus.CounterValue, float64(s.stats.Oversized.Load()))
		if lag, err := s.lag(ctx); err == nil {
			send(descLag, prometheus.GaugeValue, float64(lag))
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func counters(p *Process, name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lazaret_" + name, Help: help}, labels)
	p.reg.MustRegister(v)
	return v
}

func gauge(p *Process, name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lazaret_" + name, Help: help})
	p.reg.MustRegister(g)
	return g
}
