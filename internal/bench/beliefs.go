package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// BeliefsReport compares the costs of a project with many beliefs and of one with few.
type BeliefsReport struct {
	Few        int       `json:"few"`
	Many       int       `json:"many"`
	Window     int       `json:"window"`    // observations per measurement
	First      Window    `json:"first"`     // cost after Few beliefs, averaged over several pipelines
	Last       Window    `json:"last"`      // cost averaged over all windows with at least half of Many beliefs
	Ratio      float64   `json:"cpu_ratio"` // Last.CPU divided by First.CPU
	RecallFew  Latencies `json:"recall_few"`
	RecallMany Latencies `json:"recall_many"`
	// Phases are the phases of RecallMany's requests.
	Phases []Phase `json:"phases_many,omitzero"`
	// RecallCPU is the processor time that the server and the stages need for one recall.
	RecallCPU float64 `json:"recall_cpu_us"`
	// MemoryBytes is the resident memory of the whole pipeline with all beliefs, after it was idle for the
	// time Rest.
	MemoryBytes uint64       `json:"memory_bytes"`
	BusyBytes   uint64       `json:"memory_busy_bytes"`          // right after the last measurement
	PeakBytes   uint64       `json:"memory_peak_bytes,omitzero"` // maximum until then
	Parts       *MemoryParts `json:"memory_parts,omitzero"`
	DiskBytes   int64        `json:"state_bytes"` // ingest's state on disk
	SyncAlways  bool         `json:"sync_always"`
}

// Window is the cost of some observations, from publishing until they are audited.
type Window struct {
	Beliefs int       `json:"beliefs"`               // number of beliefs that the window added
	CPU     float64   `json:"cpu_us"`                // processor time of all stages and the server, per added belief
	Rate    float64   `json:"per_second"`            // added beliefs
	Each    []float64 `json:"cpu_us_each,omitempty"` // CPU of each averaged window
}

// Mean returns the combined cost of several windows.
func Mean(ws []Window) (m Window) {
	var cpu, seconds float64
	for _, w := range ws {
		m.Beliefs += w.Beliefs
		m.Each = append(m.Each, w.CPU)
		cpu += w.CPU * float64(w.Beliefs)
		seconds += float64(w.Beliefs) / w.Rate
	}
	if m.Beliefs > 0 {
		m.CPU, m.Rate = cpu/float64(m.Beliefs), float64(m.Beliefs)/seconds
	}
	return m
}

// Lines returns the figures and their budgets.
func (r *BeliefsReport) Lines() []Line {
	const mb = 1 << 20
	lines := []Line{
		{What: fmt.Sprintf("cost of an observation, after %d beliefs", r.Few), Value: r.First.CPU, Unit: "µs CPU"},
		{What: fmt.Sprintf("cost of an observation, from %d to %d beliefs", r.Many-r.Last.Beliefs, r.Many), Value: r.Last.CPU,
			Unit: "µs CPU"},
		{What: "  ratio of the cost with many to that with " +
			"few", Value: r.Ratio, Unit: "x", Budget: "<= 1.3 x", Pass: r.Ratio <= 1.3},
		{What: fmt.Sprintf("recall, %d beliefs, p50", r.Few), Value: float64(r.RecallFew.P50) / 1000, Unit: "ms"},
		{What: "  p99", Value: float64(r.RecallFew.P99) / 1000, Unit: "ms"},
		{What: fmt.Sprintf("recall, %d beliefs, p50", r.Many), Value: float64(r.RecallMany.P50) / 1000, Unit: "ms"},
		{What: "  p99", Value: float64(r.RecallMany.P99) / 1000, Unit: "ms", Budget: "<= 10 ms",
			Pass: r.RecallMany.P99 <= 10_000},
		{What: "  without an answer", Value: float64(r.RecallMany.Unanswered + r.RecallFew.Unanswered), Budget: "0",
			Pass: r.RecallMany.Unanswered+r.RecallFew.Unanswered == 0},
	}
	for _, p := range r.Phases {
		lines = append(lines, Line{What: "  " + p.Name + ", p50", Value: float64(p.P50) / 1000, Unit: "ms"})
	}
	lines = append(lines, Line{What: "  processor time of one recall", Value: r.RecallCPU / 1000, Unit: "ms CPU"},
		Line{What: "memory, resident, at rest", Value: float64(r.MemoryBytes) / mb, Unit: "MiB", Budget: "<= 600 MB",
			Pass: r.MemoryBytes <= 600_000_000},
		Line{What: "  right after the last recall", Value: float64(r.BusyBytes) / mb, Unit: "MiB"},
		Line{What: "  highest, while the beliefs were added", Value: float64(r.PeakBytes) / mb, Unit: "MiB"})
	if p := r.Parts; p != nil {
		lines = append(lines, Line{What: "  in use, of Go's heap", Value: float64(p.Live) / mb, Unit: "MiB"})
	}
	return append(lines, Line{What: "ingest's state on disk", Value: float64(r.DiskBytes) / mb, Unit: "MiB"})
}

// Rest is the idle time before memory is measured. The server caches stored and sent data for 10 s, and
// internal/heap takes some seconds to detect that the process is idle.
const Rest = 25 * time.Second

// CPUTime returns the processor time that this process has used.
func CPUTime() time.Duration { return cpuTime() }

// Memory returns the current and the highest resident memory of this process. If the system does not
// report them, it returns the memory that Go has from the system.
func Memory() (now, peak uint64) {
	if now, peak = residentMemory(); now > 0 {
		return now, peak
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys, m.Sys
}

// fact returns statement i of a corpus: about twenty words, and a unique number.
func fact(c *corpus, i int) string {
	var b strings.Builder
	for range 12 + c.r.IntN(16) {
		b.WriteString(c.word())
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "no %d", i)
	return b.String()
}

// Fill publishes n observations with the numbers from, from+1 and so on. Each becomes one belief: nine of ten
// come from documents, the rest from the user. Fill then proposes an action. Its verdict proves that every
// required group has judged all the observations.
func Fill(ctx context.Context, nc *nats.Conn, o DecideOptions, from, n int) error {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2048))
	if err != nil {
		return err
	}
	corpus := newCorpus(uint64(1000 + from))
	for i := from; i < from+n; i++ {
		origin := beliefs.OriginDocument
		if i%10 == 0 {
			origin = beliefs.OriginUser
		}
		subject, err := streams.IntakeSubject(o.Project, o.Agent, streams.KindObs, origin)
		if err != nil {
			return err
		}
		b, err := streams.Marshal(&streams.Observation{Head: streams.Head{ID: fmt.Sprintf("f%d", i),
			Session: fmt.Sprintf("b%d", i/100)}, Content: fact(corpus, i),
			Source: fmt.Sprintf("file-%d", i%5000)})
		if err != nil {
			return err
		}
		if _, err := js.PublishAsync(subject, b, jetstream.WithStallWait(60*time.Second), jetstream.WithRetryAttempts(20),
			jetstream.WithRetryWait(200*time.Millisecond)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := client.New(nc, o.Project, o.Agent)
	if err != nil {
		return err
	}
	for {
		rep, err := c.Decide(ctx, question(0))
		var le *client.Error
		switch {
		case err == nil && len(rep.Entry.Degraded) == 0:
			return nil
		case err != nil && !errors.As(err, &le):
			return err
		}
	}
}

// RecallMany measures recalls with the purpose planning. Their queries are words from the corpus.
func RecallMany(ctx context.Context, nc *nats.Conn, o DecideOptions) (*Recalls, error) {
	c, err := client.New(nc, o.Project, o.Agent)
	if err != nil {
		return nil, err
	}
	corpus := newCorpus(uint64(time.Now().UnixNano()))
	r := new(Recalls)
	l, err := askInTurn(o.Warm, o.Requests, func(i int) (*streams.Reply, error) {
		words := make([]string, 3+corpus.r.IntN(5))
		for j := range words {
			words[j] = corpus.word()
		}
		s := Asked{Began: time.Now()}
		rep, err := c.Recall(ctx, &streams.Recall{Head: streams.Head{Session: "asked"}, Query: strings.Join(words, " ")})
		if s.Ended = time.Now(); err == nil && rep.Entry != nil && i >= o.Warm {
			s.Proposal, s.Verdict = rep.Entry.Proposal, rep.Seq
			r.Asked = append(r.Asked, s)
		}
		return rep, err
	})
	if err != nil {
		return nil, err
	}
	r.Latencies = *l
	return r, nil
}

// Recalls are the measurements of RecallMany.
type Recalls struct {
	Latencies
	Asked []Asked `json:"asked"`
}

// measure computes the percentiles of durations.
func (l *Latencies) measure(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(q float64) int64 { return took[min(int(q*float64(len(took))), len(took)-1)].Microseconds() }
	l.Requests, l.P50, l.P90, l.P99, l.Max = len(took), at(0.5), at(0.9), at(0.99), at(1)
}
