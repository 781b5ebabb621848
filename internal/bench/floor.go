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
	"lazaret/streams"
)

// Floor is what the publishes of one verdict take, one after the other, on a server
// that does nothing else: what no verdict is faster than on this machine.
type Floor struct {
	Publishes int   `json:"publishes"` // one in the intake, the others in the ledger
	P50       int64 `json:"p50"`
	P99       int64 `json:"p99"`
}

// floorRounds is how often they are measured.
const floorRounds = 1000

// MeasureFloor publishes what one verdict has left in the ledger of a running
// pipeline, and its proposal, over and over into streams of the same configuration
// that an empty folder dir is given.
func MeasureFloor(ctx context.Context, dir string, noSync bool, way []streams.Entry) (*Floor, error) {
	srv, err := natsserver.Start(natsserver.Config{Data: dir, NoSync: noSync})
	if err != nil {
		return nil, err
	}
	defer srv.Shutdown()
	if err := makeStreams(ctx, srv); err != nil {
		return nil, err
	}
	conns := make(map[natsserver.Role]*nats.Conn)
	for _, r := range append([]natsserver.Role{natsserver.RoleFront}, roles(way)...) {
		if conns[r] != nil {
			continue
		}
		if conns[r], err = srv.Connect(r); err != nil {
			return nil, err
		}
		defer conns[r].Close()
	}
	subject, err := streams.IntakeSubject(way[0].Project, "agent", streams.KindAct, "")
	if err != nil {
		return nil, err
	}
	last := make(map[string]uint64)
	var took []time.Duration
	for i := range floorRounds + floorRounds/10 {
		ask := question(i)
		ask.ID = client.NewID()
		body, err := streams.Marshal(ask)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := published(ctx, conns[natsserver.RoleFront], &nats.Msg{Subject: subject, Data: body}); err != nil {
			return nil, err
		}
		for k := range way {
			m := way[k].Msg()
			m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last[m.Subject], 10))
			if last[m.Subject], err = published(ctx, conns[natsserver.Role(way[k].Stage)], m); err != nil {
				return nil, err
			}
		}
		if i >= floorRounds/10 {
			took = append(took, time.Since(began))
		}
	}
	slices.SortFunc(took, cmp.Compare)
	return &Floor{Publishes: 1 + len(way), P50: took[len(took)/2].Microseconds(), P99: took[len(took)*99/100].Microseconds()}, nil
}

func roles(way []streams.Entry) (r []natsserver.Role) {
	for _, e := range way {
		r = append(r, natsserver.Role(e.Stage))
	}
	return r
}

// Way is what the last verdict on an action of a project left in the ledger: the
// proposal, what each group said of it, and the verdict.
func Way(ctx context.Context, js jetstream.JetStream, project string) ([]streams.Entry, error) {
	ledger, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	m, err := ledger.GetLastMsgForSubject(ctx, streams.LedgerSubject(streams.PartitionOf(project), streams.StageArbiter))
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

// makeStreams makes the streams of a pipeline on a server that has none.
func makeStreams(ctx context.Context, srv *natsserver.Server) error {
	nc, err := srv.Connect(natsserver.RoleSetup)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return streams.Ensure(ctx, js, streams.Storage{})
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
