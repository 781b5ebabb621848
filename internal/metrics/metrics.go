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
	"lazaret/streams"
)

// ReadyLag is the number of ledger entries that a ready stage may be behind. A stage processes as many in less than a
// second.
const ReadyLag = 5000

// ReadyPending is the longest time for which an input may wait for the entry that the stage must add. If an input waits
// longer, the stage is not ready.
const ReadyPending = 10 * time.Second

// askTimeout is the timeout of reading the ledger's tail.
const askTimeout = 2 * time.Second

// Tail returns the last ledger sequence that concerns a stage; see stage.Tail.
type Tail func(ctx context.Context) (uint64, error)

// Process holds the metrics of one process. Create it with New.
type Process struct {
	reg *prometheus.Registry

	mu       sync.Mutex
	stages   []*stageOf   // guarded by mu
	complete bool         // guarded by mu
	unless   func() error // set by Unless; guarded by mu
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

// Stage adds a stage and returns the counts that the stage must update.
func (p *Process) Stage(name string, tail Tail) *stage.Stats {
	if p == nil {
		return nil
	}
	stats := new(stage.Stats)
	p.Watch(name, tail, stats)
	return stats
}

// Watch adds a stage that already updates stats.
func (p *Process) Watch(name string, tail Tail, stats *stage.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stages = append(p.stages, &stageOf{name: name, stats: stats, tail: tail})
}

// Unless sets a function that returns a reason why the process as a whole is not ready, or nil.
func (p *Process) Unless(why func() error) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unless = why
}

// Complete must be called when every stage of the process has been added. Before that, the process is not ready.
func (p *Process) Complete() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = true
}

// obstacle returns the reason why the process as a whole is not ready, or nil.
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

// Ready writes the progress of each stage to w. It reports whether the process is ready: each stage has folded the
// entries that the ledger had when the stage started, and is within ReadyLag and ReadyPending now.
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
		pending, why := s.stats.Pending()
		switch {
		case pending > ReadyPending:
			ready = false
			fmt.Fprintf(w, "%s: an entry has been pending for %v: "+
				"%s\n", s.name, pending.Round(time.Second), cmp.Or(why, "for an unknown reason"))
		case err != nil:
			ready = false
			fmt.Fprintf(w, "%s: its lag is unknown: %v\n", s.name, err)
		case !s.stats.Ready.Load():
			ready = false
			fmt.Fprintf(w, "%s: reading the ledger from before its start, %d entries behind\n", s.name, lag)
		case lag > ReadyLag:
			ready = false
			fmt.Fprintf(w, "%s: %d entries behind, more than %d\n", s.name, lag, ReadyLag)
		default:
			fmt.Fprintf(w, "%s: ready, %d entries behind\n", s.name, lag)
		}
	}
	return ready
}

// lag returns the number of ledger entries that a stage has not processed. One reader serves all
// partitions in ledger order, so the number is the sum over the partitions. For a stage that processes
// only some partitions, it is an upper bound.
func (s *stageOf) lag(ctx context.Context) (uint64, error) {
	// Read in this order, so that entries added meanwhile do not make the stage appear ahead.
	folded := s.stats.Folded.Load()
	tail, err := s.tail(ctx)
	if err != nil {
		return 0, err
	}
	return tail - min(tail, folded), nil
}

// stageCollector exports the counts of the stages as metrics.
type stageCollector struct{ p *Process }

func stageDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("lazaret_stage_"+name, help, []string{"stage"}, nil)
}

var (
	descReady     = stageDesc("ready", "1 once all entries that the ledger had at the process's start are processed.")
	descFolded    = stageDesc("folded_entries_total", "Ledger entries that were processed.")
	descPublished = stageDesc("published_entries_total", "Entries that this process added to the ledger.")
	descWaiting   = stageDesc("waiting_entries",
		"Decided entries that are not in the ledger yet; for ingest, waiting intake messages.")
	descLag = stageDesc("lag_entries", "Ledger entries that are not processed yet, over all partitions of the "+
		"stage; absent while the end of the ledger is unknown.")
	descActive = stageDesc("active", "1 if the process publishes in at least one partition, 0 if it is a standby.")
	descFence  = stageDesc("fence_losses_total", "Times that another process of the stage had written first "+
		"in a partition.")
	descTaken = stageDesc("takeovers_total", "Times that this process took over a partition in which no "+
		"progress was made.")
	descAhead = stageDesc("batches_ahead_total",
		"Batches of ingest that were decided while the previous one was being published.")
	descJoint = prometheus.NewDesc("lazaret_stage_joint_decisions_total", "Proposals that the stages of this process "+
		"decided together in one ledger message, or tried to, by the outcome: joint, or the reason why not.",
		[]string{"stage", "outcome"}, nil)
	descNoRoom = prometheus.NewDesc("lazaret_not_ready",
		"1 if the whole process is blocked, for example by a full disk; /readyz names the cause.", nil, nil)
	descPending = stageDesc("owed_seconds", "Age of the oldest pending entry: the process has read an entry "+
		"that requires one and has added none since. 0 if there is none.")
	descIgnored = stageDesc("ignored_messages_total",
		"Ledger messages that are malformed, or that no stage may write. They have no effect.")
	descOversized = stageDesc("oversized_entries_total",
		"Entries that were too large for the ledger and were replaced by a rejection.")
	descDiverged = stageDesc("diverged_entries_total", "Entries of another process of the stage that differ "+
		"from those of this process: the two processes run different versions.")
)

// Describe implements prometheus.Collector.
func (c *stageCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReady, descFolded, descPublished, descWaiting, descLag, descActive,
		descFence, descTaken, descAhead, descDiverged, descPending, descIgnored, descOversized, descJoint, descNoRoom} {
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
		pending, _ := s.stats.Pending()
		send(descPending, prometheus.GaugeValue, pending.Seconds())
		send(descIgnored, prometheus.CounterValue, float64(s.stats.Ignored.Load()))
		send(descOversized, prometheus.CounterValue, float64(s.stats.Oversized.Load()))
		if s.name == streams.StageIngest {
			joint := func(outcome string, n uint64) {
				ch <- prometheus.MustNewConstMetric(descJoint, prometheus.CounterValue, float64(n), s.name, outcome)
			}
			joint("joint", s.stats.Joint.Load())
			for _, why := range stage.Alones() {
				joint(why.String(), s.stats.Alone[why].Load())
			}
		}
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
