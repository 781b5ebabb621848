package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The shape of a pipeline is its load on the server: each observation is stored in the intake, read
// once, stored in the ledger in atomic batches, purged, and read from the ledger once. The rate of a
// server with this load and no processing is an upper bound for every pipeline of this shape on this
// machine.
const (
	shapeBatch  = 500                          // as in internal/stage
	shapeSingle = 12                           // smaller batches are published one by one
	shapePurge  = streams.IntakePerSubject / 8 // messages
	shapeAhead  = 2048                         // messages that a reader buffers
)

// shape measures the rate of a server with the load that the comment on shapeBatch describes. It
// sends the observation entries of the pipeline's own ledger. It omits the entries of other stages:
// sentinels write nothing about nearly all observations.
func (rep *PipelineReport) shape(ctx context.Context, dir string, o PipelineOptions, load Client,
	entries []streams.Entry) error {
	srv, err := natsserver.Start(natsserver.Config{Data: dir, Listen: "127.0.0.1:0", NoSync: !o.Sync})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	if err := makeStreams(ctx, srv); err != nil {
		return err
	}
	lo, creds, err := loaders(srv, dir, o)
	if err != nil {
		return err
	}
	w, err := srv.Connect(natsserver.RoleIngest)
	if err != nil {
		return err
	}
	defer w.Close()
	r, err := srv.Connect(natsserver.RoleFeed)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	read := make(chan time.Time, 1)
	n := 0
	stop, err := readNew(ctx, r, streams.LedgerStream, func(jetstream.Msg) {
		if n++; n == o.Events {
			read <- time.Now()
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	in := make(chan jetstream.Msg, shapeAhead)
	stopIn, err := readNew(ctx, w, streams.IntakeStream, func(m jetstream.Msg) {
		select {
		case in <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	defer stopIn()
	defer cancel(nil) // before stopping readers that are blocked
	go func() {
		if err := copyOver(ctx, w, in, entries); err != nil {
			cancel(fmt.Errorf("filling a ledger: %w", err))
		}
	}()
	began, cpu := time.Now(), cpuTime()
	if _, err := load(ctx, srv.URL(), lo, creds); err != nil {
		return err
	}
	select {
	case at := <-read:
		rep.ShapeCPU = float64((cpuTime() - cpu).Microseconds()) / float64(o.Events)
		rep.Shape = float64(o.Events) / at.Sub(began).Seconds()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readNew calls fn for each new message of a stream, in order, until stop is called.
func readNew(ctx context.Context, nc *nats.Conn, stream string, fn func(jetstream.Msg)) (stop func(), err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	st, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	cons, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: st.CachedInfo().State.LastSeq + 1,
	})
	if err != nil {
		return nil, err
	}
	cc, err := cons.Consume(fn, jetstream.PullMaxMessages(shapeAhead))
	if err != nil {
		return nil, err
	}
	return func() { cc.Stop(); <-cc.Closed() }, nil
}

// copyOver publishes an entry for each message in batches. Like ingest, it collects the next batch
// while one is being published.
func copyOver(ctx context.Context, nc *nats.Conn, in <-chan jetstream.Msg, entries []streams.Entry) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	intake, err := js.Stream(ctx, streams.IntakeStream)
	if err != nil {
		return err
	}
	var fences [streams.Partitions]uint64
	var stored, purged uint64 // intake sequences: stored in the ledger, and purged
	published := make(chan error, 1)
	published <- nil
	for i, seq := 0, uint64(0); ; {
		var batch []*nats.Msg
		var of []int // their partitions
		add := func(m jetstream.Msg) error {
			md, err := m.Metadata()
			if err != nil {
				return err
			}
			a, err := streams.ParseIntake(m.Subject())
			if err != nil {
				return err
			}
			e := entries[i%len(entries)]
			i, seq = i+1, md.Sequence.Stream
			e.Partition, e.Project, e.Src, e.Salt = a.Partition, a.Project, seq, streams.NewSalt()
			batch, of = append(batch, wire.Msg(&e)), append(of, a.Partition)
			return nil
		}
		select {
		case m := <-in:
			err = add(m)
		case <-ctx.Done():
			return nil
		}
		for busy := true; err == nil && busy && len(batch) < shapeBatch; {
			select {
			case m := <-in:
				err = add(m)
			case err = <-published:
				published <- err
				busy = len(in) > 0
			}
		}
		if err == nil {
			err = <-published
		}
		if err != nil {
			return err
		}
		if stored-purged >= shapePurge {
			if err := intake.Purge(ctx, jetstream.WithPurgeSequence(stored+1)); err != nil {
				return err
			}
			purged = stored
		}
		stored = seq
		go func() { published <- publishBatch(ctx, nc, batch, of, &fences) }()
	}
}

// publishBatch publishes entries as a stage does: with fences, and as one atomic batch unless there are
// few.
func publishBatch(ctx context.Context, nc *nats.Conn, batch []*nats.Msg, of []int,
	fences *[streams.Partitions]uint64) error {
	fence := func(i int) {
		batch[i].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(fences[of[i]], 10))
	}
	if len(batch) < shapeSingle {
		for i, m := range batch {
			fence(i)
			seq, err := published(ctx, nc, m)
			if err != nil {
				return err
			}
			fences[of[i]] = seq
		}
		return nil
	}
	id := nats.NewInbox()
	var fenced [streams.Partitions]bool
	for i, m := range batch {
		if !fenced[of[i]] {
			fence(i)
			fenced[of[i]] = true
		}
		m.Header.Set("Nats-Batch-Id", id[len(nats.InboxPrefix):])
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i < len(batch)-1 {
			if err := nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		last, err := published(ctx, nc, m)
		if err != nil {
			return err
		}
		for k := range batch {
			fences[of[k]] = last - uint64(len(batch)-1-k)
		}
	}
	return nil
}

// loaders returns the subjects of a load on a server, and files with the credentials for them.
func loaders(srv *natsserver.Server, dir string, o PipelineOptions) (lo LoadOptions, creds []string, err error) {
	lo = LoadOptions{Events: o.Events, Projects: o.Projects, Batch: o.Batch, Distinct: o.Distinct}
	for i := range o.Projects {
		subject, err := streams.IntakeSubject(projectName(i), "agent", streams.KindObs, beliefs.OriginWeb)
		if err != nil {
			return lo, nil, err
		}
		file, err := srv.Minter().Agent(natsserver.Agent{Project: projectName(i), Name: "agent",
			Origins: []beliefs.Origin{beliefs.OriginWeb}})
		if err != nil {
			return lo, nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("load%d.creds", i))
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return lo, nil, err
		}
		lo.Subjects, creds = append(lo.Subjects, subject), append(creds, path)
	}
	return lo, creds, nil
}
