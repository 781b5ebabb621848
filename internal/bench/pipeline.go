package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/auditor"
	"lazaret/internal/backtest"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/internal/wire"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// PipelineOptions configure the load of a pipeline.
type PipelineOptions struct {
	Events   int  // observations of 1 KiB
	Projects int  // number of projects
	Rules    int  // number of generated rules; zero: the shipped packs
	Batch    int  // observations per message; 0 and 1: one
	Distinct bool // no two observations have the same text
	Sync     bool
	// CPUProfile is a file for the CPU profile of this process under load, and HeapProfile one for its
	// heap profile at the end; empty: none.
	CPUProfile, HeapProfile string
}

// PipelineReport is a pipeline's throughput, from the client's first publish to the auditor's last
// leaf.
type PipelineReport struct {
	Events   int    `json:"events"`
	Projects int    `json:"projects"`
	Rules    int    `json:"rules,omitzero"`
	Sync     string `json:"sync"` // always or off
	Batch    int    `json:"batch,omitzero"`

	PerSecond float64 `json:"events_per_s"`   // rate of audited observations
	Accepted  float64 `json:"accepted_per_s"` // rate at which the server acknowledged observations to the client
	// Raw is the rate at which the same client publishes to one stream of a bare nats-server with the
	// same storage, sync and message size. RawConsume is the rate of one ordered consumer.
	Raw        float64 `json:"raw_jetstream_per_s"`
	RawConsume float64 `json:"raw_jetstream_consume_per_s"`
	Ratio      float64 `json:"ratio"` // PerSecond divided by Raw
	// Serial is the rate of a bare server that would store each event first in one stream, and then, in atomic batches,
	// in a second stream, without doing both at the same time. It is computed from the two measured rates, and is an
	// upper bound for pipelines with two durable streams on one disk.
	Serial      float64 `json:"serial_bound_per_s"`
	SerialRatio float64 `json:"serial_ratio"` // PerSecond divided by Serial
	// Singles is the rate of audited observations of a second pipeline, measured in the same run, with one
	// observation per message. SinglesCPU is its processor time per observation. They are set only if Batch is
	// more than 1.
	Singles      float64 `json:"singles_per_s,omitzero"`
	SinglesCPU   float64 `json:"singles_cpu_us_per_event,omitzero"`
	SinglesRatio float64 `json:"singles_ratio,omitzero"` // rate with batches divided by Singles
	// Shape is the rate of a bare server with the same messages, streams, readers, frames and batches, but no
	// processing: see shape.go. ShapeCPU is the processor time of the server's process per observation.
	Shape      float64 `json:"shape_bound_per_s"`
	ShapeRaw   float64 `json:"shape_raw_ratio"` // Shape divided by Raw: an upper bound of Ratio
	ShapeRatio float64 `json:"shape_ratio"`     // PerSecond divided by Shape
	ShapeCPU   float64 `json:"shape_cpu_us_per_event"`
	// CPU is the processor time per event of the process with the server and all stages.
	CPU float64 `json:"cpu_us_per_event"`
	// RSS is the highest resident memory while the pipeline worked. It excludes the bare server, which is
	// measured before, and the check for lost events, which comes after. If the system cannot reset the
	// maximum, RSS is the maximum since the start of the process.
	RSS float64 `json:"rss_mb"`
	// Parts are the parts of the memory right after the last observation was audited.
	Parts      *MemoryParts `json:"memory,omitzero"`
	Entries    uint64       `json:"ledger_entries"`
	Lost       int          `json:"lost"`
	Duplicated int          `json:"duplicated"`
	Refused    int          `json:"refused"` // publishes that the server refused; the client repeated them
	Processors int          `json:"processors"`
}

// Lines returns the figures and their budgets.
func (r *PipelineReport) Lines() []Line {
	at := func(what string, v float64, unit string, least float64) Line {
		l := Line{What: what, Value: v, Unit: unit}
		if least > 0 {
			l.Budget, l.Pass = fmt.Sprintf(">= %g %s", least, unit), v >= least
		}
		return l
	}
	out := []Line{}
	switch {
	case r.Batch > 1:
		out = r.batchLines(at)
	case r.Sync == "off":
		out = append(out, at(fmt.Sprintf("observations audited, %d projects, no sync", r.Projects), r.PerSecond, "/s",
			30_000),
			at("  raw JetStream publish", r.Raw, "/s", 0), at("  ratio to raw publish", r.Ratio, "x", 0.15))
	default:
		out = append(out, at(fmt.Sprintf("observations audited, %d projects, sync always", r.Projects), r.PerSecond, "/s", 0),
			at("  raw JetStream publish", r.Raw, "/s", 0), at("  ratio to raw publish", r.Ratio, "x", 0),
			at("  serial bound", r.Serial, "/s", 0), at("  ratio to the serial bound", r.SerialRatio, "x", 0.8))
	}
	out = append(out, Line{What: "  the same messages through the bare server", Value: r.Shape, Unit: "/s", Limit: true},
		Line{What: "  ratio of the bare server to raw publish", Value: r.ShapeRaw, Unit: "x", Limit: true},
		at("  ratio to the bare server", r.ShapeRatio, "x", 0),
		Line{What: "  CPU time of the bare server per observation", Value: r.ShapeCPU, Unit: "us", Limit: true})
	return append(out, r.costLines(at)...)
}

// batchLines returns the figures of observations in batches.
func (r *PipelineReport) batchLines(at func(what string, v float64, unit string, least float64) Line) []Line {
	ofRaw, ofSingles := 0.30, 0.0
	if r.Sync == "always" {
		ofRaw, ofSingles = 0, 4
	}
	return []Line{
		at(fmt.Sprintf("observations audited, %d projects, sync %s, batches of %d", r.Projects, r.Sync, r.Batch),
			r.PerSecond, "/s", 0),
		at("  raw JetStream publish, one by one", r.Raw, "/s", 0), at("  ratio to raw publish", r.Ratio, "x", ofRaw),
		at("  audited, one by one", r.Singles, "/s", 0), at("  ratio to one by one", r.SinglesRatio, "x", ofSingles),
		at("  CPU time of server and stages per observation, one by one", r.SinglesCPU, "us", 0),
	}
}

// costLines returns the costs of a run, and the check of its completeness.
func (r *PipelineReport) costLines(at func(what string, v float64, unit string, least float64) Line) []Line {
	none := func(what string, n int) Line {
		return Line{What: what, Value: float64(n), Budget: "0", Pass: n == 0}
	}
	return []Line{
		at("  raw JetStream consume", r.RawConsume, "/s", 0), at("observations acknowledged to the "+
			"client", r.Accepted, "/s", 0),
		at("CPU time of server and stages per observation", r.CPU, "us", 0), at("memory, highest", r.RSS, "MB", 0),
		none("lost", r.Lost), none("doubled", r.Duplicated),
	}
}

// Client runs a load in a separate process.
type Client func(ctx context.Context, url string, o LoadOptions, creds []string) (*LoadReport, error)

// Pipeline measures a pipeline, with folders below dir.
func Pipeline(ctx context.Context, dir string, o PipelineOptions, load Client) (*PipelineReport, error) {
	rep := &PipelineReport{Events: o.Events, Projects: o.Projects, Rules: o.Rules, Sync: "off",
		Processors: runtime.GOMAXPROCS(0)}
	if o.Batch > 1 {
		rep.Batch = o.Batch
	}
	if o.Sync {
		rep.Sync = "always"
	}
	if err := rep.raw(ctx, filepath.Join(dir, "raw"), o, load); err != nil {
		return nil, fmt.Errorf("measuring raw JetStream: %w", err)
	}
	if o.Batch > 1 {
		one, single := *rep, o
		single.Batch, single.CPUProfile, single.HeapProfile = 0, "", ""
		if _, err := one.run(ctx, filepath.Join(dir, "singles"), single, load); err != nil {
			return nil, err
		}
		rep.Singles, rep.SinglesCPU = one.PerSecond, one.CPU
	}
	entries, err := rep.run(ctx, filepath.Join(dir, "data"), o, load)
	if err != nil {
		return nil, err
	}
	rep.Ratio = rep.PerSecond / rep.Raw
	if rep.Serial > 0 {
		rep.SerialRatio = rep.PerSecond / rep.Serial
	}
	if o.Batch > 1 {
		rep.SinglesRatio = rep.PerSecond / rep.Singles
	}
	if len(entries) == 0 {
		return nil, errors.New("the ledger has no observation")
	}
	if err := rep.shape(ctx, filepath.Join(dir, "shape"), o, load, entries); err != nil {
		return nil, fmt.Errorf("measuring a bare server with the messages of the pipeline: %w", err)
	}
	rep.ShapeRaw, rep.ShapeRatio = rep.Shape/rep.Raw, rep.PerSecond/rep.Shape
	return rep, nil
}

// raw measures a bare nats-server.
func (rep *PipelineReport) raw(ctx context.Context, dir string, o PipelineOptions, load Client) error {
	ns, err := server.NewServer(&server.Options{ServerName: "raw", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, SyncAlways: o.Sync,
		JetStreamKey: strings.Repeat("k", 32), JetStreamCipher: server.AES, NoLog: true, NoSigs: true,
		MaxPayload: natsserver.MaxPayload})
	if err != nil {
		return err
	}
	ns.Start()
	defer os.RemoveAll(dir)
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	if !ns.ReadyForConnections(30 * time.Second) {
		return errors.New("nats-server was not ready within 30 s")
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	st, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.*"},
		Storage: jetstream.FileStorage, AllowAtomicPublish: true, Duplicates: time.Second})
	if err != nil {
		return err
	}
	l, err := load(ctx, ns.ClientURL(), LoadOptions{Events: o.Events, Projects: 1, Subjects: []string{"raw.0"}}, nil)
	if err != nil {
		return err
	}
	rep.Raw = float64(o.Events) / l.Seconds
	cons, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(2000))
	if err != nil {
		return err
	}
	began := time.Now()
	for range o.Events {
		if _, err := it.Next(jetstream.NextContext(ctx)); err != nil {
			return err
		}
	}
	rep.RawConsume = float64(o.Events) / time.Since(began).Seconds()
	it.Stop()
	if !o.Sync {
		return nil
	}
	batched, err := batches(ctx, nc, min(o.Events, 20_000))
	if err != nil {
		return err
	}
	rep.Serial = 1 / (1/rep.Raw + 1/batched)
	return nil
}

// batches publishes n messages of 1 KiB in atomic batches of a hundred and returns the committed rate.
func batches(ctx context.Context, nc *nats.Conn, n int) (float64, error) {
	const size = 100
	body := []byte(prose(newCorpus(79), eventSize))
	began := time.Now()
	for b := range n / size {
		for i := range size {
			m := nats.NewMsg("raw.1")
			m.Data = body
			m.Header.Set("Nats-Batch-Id", fmt.Sprint("b", b))
			m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
			if i < size-1 {
				if err := nc.PublishMsg(m); err != nil {
					return 0, err
				}
				continue
			}
			m.Header.Set("Nats-Batch-Commit", "1")
			r, err := nc.RequestMsgWithContext(ctx, m)
			if err != nil {
				return 0, err
			}
			if strings.Contains(string(r.Data), `"error"`) {
				return 0, fmt.Errorf("committing a batch: %s", r.Data)
			}
		}
	}
	return float64(n/size*size) / time.Since(began).Seconds(), nil
}

func projectName(i int) string { return fmt.Sprintf("bench%d", i) }

// mostSome is the maximum number of ledger entries that run returns. The measurement in shape.go publishes entries like
// them.
const mostSome = 512

// stuck is the time without a newly chained entry after which a run fails.
const stuck = time.Minute

// decided returns the ledger's last sequence if ingest has decided on all intake messages, otherwise 0.
func decided(ctx context.Context, js jetstream.JetStream) (last uint64, err error) {
	intake, err := js.Stream(ctx, streams.IntakeStream)
	if err != nil || intake.CachedInfo().State.Msgs > 0 {
		return 0, err
	}
	ledger, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, err
	}
	return ledger.CachedInfo().State.LastSeq, nil
}

// heapProfile writes a heap profile of this process, if a file is named.
func heapProfile(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// cpuProfile starts a CPU profile of this process, if a file is named.
func cpuProfile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sync.OnceValue(func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}), nil
}

// run measures the pipeline, and returns up to mostSome of its ledger entries.
func (rep *PipelineReport) run(ctx context.Context, dir string, o PipelineOptions, load Client) ([]streams.Entry,
	error) {
	cfg := embedded.Config{Data: dir, Listen: "127.0.0.1:0", NoSync: !o.Sync}
	if o.Rules > 0 {
		var err error
		if cfg.Rules, err = rules.PackFiles(ruleSet(o.Rules, 0)); err != nil {
			return nil, err
		}
	}
	p, err := embedded.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	lo, creds, err := loaders(p.Server, dir, o)
	if err != nil {
		return nil, err
	}
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		return nil, err
	}
	defer nc.Close()

	var marks []mark
	head := func() error {
		var ans auditor.Answer
		if err := query.Ask(ctx, nc, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &ans); err != nil {
			return err
		}
		if n := len(marks); n == 0 || marks[n-1].last != ans.LastSeq {
			marks = append(marks, mark{time.Now(), cpuTime(), ans.LastSeq})
		}
		return nil
	}
	js := wire.JetStream(nc)
	type done struct {
		rep *LoadReport
		err error
	}
	loaded := make(chan done, 1)
	stopProfile, err := cpuProfile(o.CPUProfile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stopProfile() }()
	debug.FreeOSMemory() // return the memory that the bare server used
	forgetPeak()
	began, cpu := time.Now(), cpuTime()
	go func() {
		l, err := load(ctx, p.Server.URL(), lo, creds)
		loaded <- done{l, err}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var l *LoadReport
	for all := uint64(0); l == nil || all == 0 || marks[len(marks)-1].last < all; {
		select {
		case <-p.Failed():
			return nil, p.Err()
		case <-ctx.Done():
			return nil, ctx.Err()
		case d := <-loaded:
			if d.err != nil {
				return nil, d.err
			}
			l = d.rep
		case <-tick.C:
			if err := head(); err != nil {
				return nil, err
			}
			if l != nil && all == 0 {
				var err error
				if all, err = decided(ctx, js); err != nil {
					return nil, err
				}
			}
			if time.Since(marks[len(marks)-1].at) > stuck {
				all = 1 // check then reports the missing observations
			}
		}
	}
	rep.Accepted, rep.Refused = float64(o.Events)/l.Seconds, l.Refused
	rep.Parts, rep.RSS = Parts(), peakMB()
	if err := stopProfile(); err != nil {
		return nil, err
	}
	if err := heapProfile(o.HeapProfile); err != nil {
		return nil, err
	}

	return rep.check(ctx, nc, o, marks, mark{at: began, cpu: cpu})
}

// peakMB returns the highest resident memory of this process, in MB.
func peakMB() float64 {
	if _, peak := residentMemory(); peak > 0 {
		return float64(peak) / 1e6
	}
	return maxRSS()
}

// mark records how far the auditor had come at a time. check needs the marks because the ledger position of
// the last observation is known only after the run.
type mark struct {
	at   time.Time
	cpu  time.Duration
	last uint64
}

// check counts lost and duplicated events, finds when the last event was logged, and returns some of the
// ledger's entries.
func (rep *PipelineReport) check(ctx context.Context, nc *nats.Conn, o PipelineOptions, marks []mark,
	began mark) ([]streams.Entry, error) {
	seen := make(map[string]int, o.Events)
	var some []streams.Entry
	var last uint64
	err := backtest.Ledger(ctx, nc, backtest.Span{}, func(e *streams.Entry) error {
		rep.Entries++
		if e.Type != streams.TypeObservation || !strings.HasPrefix(e.Project, "bench") {
			return nil
		}
		var body streams.EntryHead
		if err := streams.Unmarshal(e.Body, &body); err != nil {
			return err
		}
		if len(some) < mostSome {
			some = append(some, streams.Entry{Stage: e.Stage, Type: e.Type, At: e.At, Body: bytes.Clone(e.Body)})
		}
		seen[e.Project+" "+body.ID]++
		last = e.Seq
		return nil
	})
	if err != nil {
		return nil, err
	}
	rep.Lost = o.Events - len(seen)
	for _, n := range seen {
		rep.Duplicated += n - 1
	}
	for _, m := range marks {
		if m.last >= last {
			rep.PerSecond = float64(o.Events) / m.at.Sub(began.at).Seconds()
			rep.CPU = float64((m.cpu - began.cpu).Microseconds()) / float64(o.Events)
			break
		}
	}
	if rep.PerSecond == 0 {
		return nil, fmt.Errorf("the auditor stopped at ledger entry %d, before the last observation, entry %d",
			marks[len(marks)-1].last, last)
	}
	return some, nil
}
