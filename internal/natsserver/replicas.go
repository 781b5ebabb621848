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

// Rewritten is the result of RewriteReplicas for one stream. RewriteReplicas works in two rounds. In each round, the
// stream has only one replica for some time.
type Rewritten struct {
	Stream   string
	Replicas int    // number of replicas at the end
	First    string // server of the one replica in the first round; this replica had the old files
	Second   string // server of the one replica in the second round; its files were made in the first round
}

// RewriteReplicas replaces all files of the streams of a cluster, so that no file contains a deleted message.
//
// When a replica is removed, its server deletes the replica's files and its Raft log. A new replica gets only the
// messages that exist. RewriteReplicas uses this in two rounds. First it scales a stream to one replica and back. Then
// it makes a server with new files the leader, and again scales the stream to one replica and back. So each stream has
// only one replica for some time. replicas is the number of replicas at the end. If it is 0, the number does not
// change.
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
			return out, fmt.Errorf("stream %s: %w: not all files were replaced: run the command again with "+
				"--replicas %d", name, err, r.replicas)
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
		return nil, fmt.Errorf("it has %d replicas and would have %d, but a cluster needs at least 2: for an unclustered "+
			"nats-server, use lazaret server erase", before.Config.Replicas, r.replicas)
	}
	if before.Config.Replicas > 1 {
		if _, err := r.await(ctx, before.Config.Replicas); err != nil { // all replicas must be present
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
		return nil, fmt.Errorf("its last sequence was %d and is now %d", before.State.LastSeq, after.State.LastSeq)
	}
	return done, nil
}

// scaleDownAndUp removes all replicas except one and then adds new ones. It returns the server that had the one
// replica.
func (r *rewriter) scaleDownAndUp(ctx context.Context) (kept string, err error) {
	if err := r.scale(ctx, 1); err != nil {
		return "", err
	}
	if kept, err = r.await(ctx, 1); err != nil {
		return "", err
	}
	r.tell(fmt.Sprintf("stream %s: only server %s has a replica now; the other servers get new ones", r.stream, kept))
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

// await waits until the stream has this number of replicas and all of them are up to date. It returns the server that
// leads the stream.
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
			return fmt.Errorf("not all of the %d replicas exist and are current", replicas)
		}
		leader = i.Cluster.Leader
		return nil
	})
	return leader, err
}

// handOver moves the leadership of the stream away from the server named from, to any other server.
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
		return fmt.Errorf("%s is still its leader", from)
	})
}

// retry calls fn until it succeeds or ctx ends. During an election, a cluster may not answer, or answer late.
func retry(ctx context.Context, fn func(ctx context.Context) error) error {
	for last := errors.New("no answer"); ; {
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
