package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Floor is the time, in microseconds, that an otherwise idle server needs for the messages of one verdict,
// with each ledger entry in a message of its own. It is a lower bound for verdicts of separate daemons on
// this machine. Stages of one process put several entries into one message (docs/decisions/0037), so they
// can be faster.
type Floor struct {
	Publishes int `json:"publishes"` // number of publishes: one to the intake, the others to the ledger
	// P50 and P99 are percentiles of the total time of these publishes, made one after the other by one
	// process.
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	// ShapeP50 and ShapeP99 are percentiles of the time of all messages of a verdict without processing.
	// A client sends a request over TCP. The responder publishes it to the intake. The reader of each message
	// publishes the next entry. The responder sends the last entry as the reply.
	ShapeP50 int64 `json:"shape_p50"`
	ShapeP99 int64 `json:"shape_p99"`
}

// floorRounds is the number of measurements of each kind.
const floorRounds = 1000

// MeasureFloor repeatedly publishes the messages of one verdict to a new server in the empty folder dir. The server's
// streams are configured as those of a pipeline. way has the verdict's ledger entries, as Way returns them.
func MeasureFloor(ctx context.Context, dir string, noSync bool, way []streams.Entry) (*Floor, error) {
	srv, err := natsserver.Start(natsserver.Config{Data: dir, Listen: "127.0.0.1:0", NoSync: noSync})
	if err != nil {
		return nil, err
	}
	defer srv.Shutdown()
	if err := makeStreams(ctx, srv); err != nil {
		return nil, err
	}
	f := &floor{srv: srv, way: way, conns: make(map[natsserver.Role]*nats.Conn), last: make(map[string]*uint64)}
	for i := range way {
		f.last[streams.LedgerSubject(way[i].Partition, way[i].Stage)] = new(uint64)
	}
	for _, r := range append([]natsserver.Role{natsserver.RoleFront, natsserver.RoleFeed, natsserver.RoleService,
		natsserver.RoleIngest}, roles(way)...) {
		if f.conns[r] != nil {
			continue
		}
		if f.conns[r], err = srv.Connect(r); err != nil {
			return nil, err
		}
		defer f.conns[r].Close()
	}
	if f.subject, err = streams.IntakeSubject(way[0].Project, floorAgent, streams.KindAct, ""); err != nil {
		return nil, err
	}
	rep := &Floor{Publishes: 1 + len(way)}
	if rep.P50, rep.P99, err = measureRounds(func() error { return f.publish(ctx) }); err != nil {
		return nil, err
	}
	ask, stop, err := f.shape(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	rep.ShapeP50, rep.ShapeP99, err = measureRounds(ask)
	return rep, err
}

// measureRounds returns the percentiles of the time of once, in microseconds.
func measureRounds(once func() error) (p50, p99 int64, err error) {
	var took []time.Duration
	for i := range floorRounds + floorRounds/10 {
		began := time.Now()
		if err := once(); err != nil {
			return 0, 0, err
		}
		if i >= floorRounds/10 {
			took = append(took, time.Since(began))
		}
	}
	slices.SortFunc(took, cmp.Compare)
	return took[len(took)/2].Microseconds(), took[len(took)*99/100].Microseconds(), nil
}

const floorAgent = "agent"

// floor is a separate server and the messages of a verdict.
type floor struct {
	srv     *natsserver.Server
	conns   map[natsserver.Role]*nats.Conn
	way     []streams.Entry
	subject string             // intake subject of the proposal
	last    map[string]*uint64 // sequences of the ledger's subjects
}

// propose publishes a proposal to the intake.
func (f *floor) propose(ctx context.Context, body []byte) error {
	_, err := published(ctx, f.conns[natsserver.RoleFront], &nats.Msg{Subject: f.subject, Data: body})
	return err
}

// enter publishes entry k of the verdict to the ledger. The publish is fenced: the server refuses it if the subject's
// last entry is not the expected one.
func (f *floor) enter(ctx context.Context, k int) error {
	m := wire.Msg(&f.way[k])
	last := f.last[m.Subject]
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(*last, 10))
	seq, err := published(ctx, f.conns[natsserver.Role(f.way[k].Stage)], m)
	*last = seq
	return err
}

func (f *floor) proposal() ([]byte, error) {
	ask := question(0)
	ask.ID = client.NewID()
	return streams.Marshal(ask)
}

// publish publishes all messages of a verdict.
func (f *floor) publish(ctx context.Context) error {
	body, err := f.proposal()
	if err != nil {
		return err
	}
	if err := f.propose(ctx, body); err != nil {
		return err
	}
	for k := range f.way {
		if err := f.enter(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// shape starts the responder and the readers of ShapeP50, each in its own goroutine, and returns the
// client's request as a function. Only one request may be in progress.
func (f *floor) shape(ctx context.Context) (ask func() error, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var stops []func()
	end := func() {
		cancel(nil)
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	next := make([]chan struct{}, len(f.way)+1) // next[k] signals that entry k is due, the last that the reply is
	for k := range next {
		next[k] = make(chan struct{}, 1)
	}
	for k := range f.way {
		go func() {
			for {
				select {
				case <-next[k]:
				case <-ctx.Done():
					return
				}
				if err := f.enter(ctx, k); err != nil {
					cancel(err)
				}
			}
		}()
	}
	// Read only new messages: the previous measurement left messages in both streams.
	read := func(r natsserver.Role, stream string, fn func(jetstream.Msg)) error {
		s, err := readNew(ctx, f.conns[r], stream, fn)
		if err == nil {
			stops = append(stops, s)
		}
		return err
	}
	if err := read(natsserver.RoleIngest, streams.IntakeStream, func(jetstream.Msg) {
		next[0] <- struct{}{}
	}); err != nil {
		return nil, nil, err
	}
	k := 0
	if err := read(natsserver.RoleFeed, streams.LedgerStream, func(jetstream.Msg) {
		k = k%len(f.way) + 1
		next[k] <- struct{}{}
	}); err != nil {
		return nil, nil, err
	}
	answer := []byte(f.way[len(f.way)-1].Body)
	sub, err := f.conns[natsserver.RoleService].Subscribe(streams.ServiceFilter(streams.SvcDecide), func(m *nats.Msg) {
		if err := f.propose(ctx, m.Data); err != nil {
			cancel(err)
		}
		select {
		case <-next[len(f.way)]:
			if err := m.Respond(answer); err != nil {
				cancel(err)
			}
		case <-ctx.Done():
		}
	})
	if err != nil {
		return nil, nil, err
	}
	stops = append(stops, func() { _ = sub.Unsubscribe() })
	if err := f.conns[natsserver.RoleService].Flush(); err != nil {
		return nil, nil, err
	}
	creds, err := f.srv.Minter().Agent(natsserver.Agent{Project: f.way[0].Project, Name: floorAgent,
		Origins: []beliefs.Origin{beliefs.OriginTool}})
	if err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect(f.srv.URL(), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(natsserver.InboxOfCreds(creds)))
	if err != nil {
		return nil, nil, err
	}
	stops = append(stops, nc.Close)
	subject, err := streams.ServiceSubject(streams.SvcDecide, f.way[0].Project, floorAgent, "")
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		body, err := f.proposal()
		if err != nil {
			return err
		}
		if _, err = nc.RequestWithContext(ctx, subject, body); err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}, end, nil
}

func roles(way []streams.Entry) (r []natsserver.Role) {
	for _, e := range way {
		r = append(r, natsserver.Role(e.Stage))
	}
	return r
}

// Way returns the ledger entries of the last verdict in a project: the proposal, each group's assessment,
// and the verdict.
func Way(ctx context.Context, js jetstream.JetStream, project string) ([]streams.Entry, error) {
	ledger, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	subject := streams.LedgerSubject(streams.PartitionOf(project), streams.StageArbiter)
	if m, err := stage.LastOn(ctx, js, streams.LedgerStream, streams.LedgerSubject(streams.PartitionOf(project),
		streams.StageJoint)); err != nil {
		return nil, err
	} else if m != nil {
		entries, err := wire.RawEntries(m)
		return slices.DeleteFunc(entries, func(e streams.Entry) bool {
			return !e.Type.Proposal() && e.Type != streams.TypeAssessment && e.Type != streams.TypeVerdict
		}), err
	}
	m, err := ledger.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("asking for the last verdict on %s: %w", project, err)
	}
	var v streams.VerdictEntry
	if err := streams.Unmarshal(m.Data, &v); err != nil {
		return nil, err
	}
	var way []streams.Entry
	for seq := v.Proposal; seq <= m.Sequence; seq++ {
		e, err := stage.ReadEntry(ctx, js, seq)
		if err != nil {
			return nil, err
		}
		if seq == v.Proposal || seq == m.Sequence || e.Type == streams.TypeAssessment && e.Src == v.Proposal {
			way = append(way, e)
		}
	}
	return way, nil
}

// makeStreams creates the streams of a pipeline on an empty server.
func makeStreams(ctx context.Context, srv *natsserver.Server) error {
	nc, err := srv.Connect(natsserver.RoleSetup)
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	return wire.Ensure(ctx, js, wire.Storage{})
}

// published publishes a message, waits for its acknowledgement and returns its
// sequence.
func published(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	r, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("publishing to %s: %w", m.Subject, err)
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := streams.Unmarshal(r.Data, &ack); err != nil {
		return 0, err
	}
	if ack.Error != nil {
		return 0, fmt.Errorf("publishing to %s: %w", m.Subject, ack.Error)
	}
	return ack.Seq, nil
}
