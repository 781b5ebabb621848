package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// The shape of a pipeline is the load that it puts on the server. Each observation is stored in the intake,
// read once, stored in the ledger in frames, purged from the intake, and read from the ledger once. The rate
// of a server with this load and no processing is an upper bound for every pipeline with the same load on
// this machine.
const (
	shapeEntries = 500                          // maximum number published at once: intakeBatch of internal/stage
	shapePurge   = streams.IntakePerSubject / 8 // messages
	shapeAhead   = 2048                         // messages that a reader buffers
)

// shape measures the rate of a server with the load of a pipeline (its shape) and no processing. entries are entries of
// observations from the pipeline's ledger. Entries of the other stages are not part of the load, because sentinels
// write nothing about nearly all observations.
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
	stop, err := readNew(ctx, r, streams.LedgerStream, func(m jetstream.Msg) {
		count, err := strconv.Atoi(m.Headers().Get(streams.HeaderCount))
		if err != nil {
			count = 1 // only frames have the header
		}
		if n += count; n == o.Events {
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
	defer cancel(nil) // so that blocked readers end before they are stopped
	go func() {
		if err := copyOver(ctx, w, in, entries, o); err != nil {
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
	js := wire.JetStream(nc)
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

// copyOver publishes a ledger entry for each observation in the intake. Like ingest, it collects the next entries while
// the last ones are being published.
func copyOver(ctx context.Context, nc *nats.Conn, in <-chan jetstream.Msg, entries []streams.Entry,
	o PipelineOptions) error {
	js := wire.JetStream(nc)
	intake, err := js.Stream(ctx, streams.IntakeStream)
	if err != nil {
		return err
	}
	pub := stage.NewPublisher(js, streams.StageIngest)
	var stored, purged uint64 // last intake sequences that are in the ledger, and that are purged
	published := make(chan error, 1)
	published <- nil
	for i, seq := 0, uint64(0); ; {
		var next []*streams.Entry
		add := func(m jetstream.Msg) error {
			md, err := m.Metadata()
			if err != nil {
				return err
			}
			a, err := streams.ParseIntake(m.Subject())
			if err != nil {
				return err
			}
			seq = md.Sequence.Stream
			for k := range min(max(o.Batch, 1), o.Events-i) {
				e := entries[i%len(entries)]
				e.Partition, e.Project, e.Src, e.Salt = a.Partition, a.Project, position.At(seq, k), streams.NewSalt()
				e.At = 0 // as in a frame of ingest, whose entries all have the same At
				i, next = i+1, append(next, &e)
			}
			return nil
		}
		select {
		case m := <-in:
			err = add(m)
		case <-ctx.Done():
			return nil
		}
		for busy := true; err == nil && busy && len(next) < shapeEntries; {
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
		slices.SortStableFunc(next, func(a, b *streams.Entry) int {
			return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Project, b.Project))
		})
		go func() { published <- pub.Publish(ctx, next) }()
	}
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
