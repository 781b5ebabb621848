package natsserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Rewritten says what RewriteReplicas did with a stream.
type Rewritten struct {
	Stream   string
	Replicas int    // that it has now
	First    string // the server that kept its files in the first round
	Second   string // the server whose files, new since the first round, were kept in the second
}

// RewriteReplicas replaces all files of the streams on a cluster, so that none holds a deleted message.
//
// A server removes the files of a replica and of its Raft log when the replica is taken away. A new replica
// gets the messages that are there. The stream is therefore scaled to one replica and back, is led by a server
// that has new files then, and is scaled to one and back again. Each stream has one replica for a while.
// replicas is how many there are to be in the end; 0: as many as now.
func RewriteReplicas(ctx context.Context, nc *nats.Conn, replicas int, tell func(string)) ([]Rewritten, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	var out []Rewritten
	for _, name := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		r := rewriter{nc: nc, js: js, stream: name, tell: tell}
		done, err := r.run(ctx, replicas)
		if err != nil {
			return out, fmt.Errorf("stream %s: %w: its files are not all new: run it again with --replicas %d", name, err,
				r.replicas)
		}
		out = append(out, *done)
	}
	return out, nil
}

// rewriter replaces the replicas of one stream.
type rewriter struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	stream   string
	replicas int
	tell     func(string)
}

func (r *rewriter) run(ctx context.Context, replicas int) (*Rewritten, error) {
	st, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	before := st.CachedInfo()
	r.replicas = replicas
	if replicas == 0 {
		r.replicas = before.Config.Replicas
	}
	if before.Cluster == nil || r.replicas < 2 {
		return nil, fmt.Errorf("it has %d replica: use lazaret server erase for a nats-server that runs alone",
			before.Config.Replicas)
	}
	if before.Config.Replicas > 1 {
		if _, err := r.await(ctx, before.Config.Replicas); err != nil { // no replica may be missing
			return nil, err
		}
	}
	done := &Rewritten{Stream: r.stream, Replicas: r.replicas}
	if done.First, err = r.scaleDownAndUp(ctx); err != nil {
		return nil, err
	}
	for done.Second = done.First; done.Second == done.First; {
		if err := r.handOver(ctx, done.First); err != nil {
			return nil, err
		}
		if done.Second, err = r.scaleDownAndUp(ctx); err != nil {
			return nil, err
		}
	}
	after, err := st.Info(ctx)
	if err != nil {
		return nil, err
	}
	if after.State.LastSeq < before.State.LastSeq {
		return nil, fmt.Errorf("it ended at %d, and ends at %d now", before.State.LastSeq, after.State.LastSeq)
	}
	return done, nil
}

// scaleDownAndUp leaves one replica, makes the others anew, and returns the server that had the one.
func (r *rewriter) scaleDownAndUp(ctx context.Context) (kept string, err error) {
	if err := r.scale(ctx, 1); err != nil {
		return "", err
	}
	if kept, err = r.await(ctx, 1); err != nil {
		return "", err
	}
	r.tell(fmt.Sprintf("%s: only %s has it, the others get it anew", r.stream, kept))
	if err := r.scale(ctx, r.replicas); err != nil {
		return "", err
	}
	_, err = r.await(ctx, r.replicas)
	return kept, err
}

func (r *rewriter) scale(ctx context.Context, replicas int) error {
	return retry(ctx, func(ctx context.Context) error {
		st, err := r.js.Stream(ctx, r.stream)
		if err != nil {
			return err
		}
		cfg := st.CachedInfo().Config
		if cfg.Replicas == replicas {
			return nil
		}
		cfg.Replicas = replicas
		_, err = r.js.UpdateStream(ctx, cfg)
		return err
	})
}

// await returns the stream's leader once the stream has so many replicas and all are current.
func (r *rewriter) await(ctx context.Context, replicas int) (leader string, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		st, err := r.js.Stream(ctx, r.stream)
		if err != nil {
			return err
		}
		i := st.CachedInfo()
		if i.Cluster == nil || i.Cluster.Leader == "" {
			return errors.New("it has no leader")
		}
		late := slices.ContainsFunc(i.Cluster.Replicas, func(p *jetstream.PeerInfo) bool {
			return p.Offline || !p.Current || p.Lag > 0
		})
		if i.Config.Replicas != replicas || len(i.Cluster.Replicas) != replicas-1 || late {
			return fmt.Errorf("not all of %d replicas are there and current", replicas)
		}
		leader = i.Cluster.Leader
		return nil
	})
	return leader, err
}

// handOver has the stream led by another server than from.
func (r *rewriter) handOver(ctx context.Context, from string) error {
	return retry(ctx, func(ctx context.Context) error {
		leader, err := r.await(ctx, r.replicas)
		if err != nil || leader != from {
			return err
		}
		m, err := r.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+r.stream, nil)
		if err != nil {
			return err
		}
		var rep struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &rep); err != nil {
			return err
		}
		if rep.Error != nil {
			return rep.Error
		}
		return fmt.Errorf("%s leads it still", from)
	})
}

// retry calls fn until it succeeds or ctx ends. A cluster that elects answers late or not at all.
func retry(ctx context.Context, fn func(ctx context.Context) error) error {
	for last := errors.New("nobody answered"); ; {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := fn(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
