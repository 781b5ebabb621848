package retain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// filesOf is the prefix of Place.Where for the files of a stream.
const filesOf = "files of "

// notErased is Place.Left for a stream of a separate nats-server.
const notErased = "deleted, not overwritten: nats-server is a process of its own, and in an encrypted stream it " +
	"leaves a deleted message in its files until more than half of the block is deleted: stop nats-server, run " +
	"lazaret server erase STORE with its store_dir, and start nats-server again"

// notRewritten is Place.Left for a stream of a cluster; the parameter is the number of replicas.
const notRewritten = "deleted from %d replicas, not overwritten: each server leaves a deleted message in " +
	"its block files and Raft logs. To remove it, run lazaret server rewrite --url URLS; it builds all replicas again"

// leftIn returns Place.Left for a stream of a separate nats-server, which keeps deleted messages in its
// files.
func leftIn(ctx context.Context, js jetstream.JetStream, stream string) string {
	st, err := js.Stream(ctx, stream)
	if err != nil {
		return fmt.Sprintf("deleted, not overwritten; the number of replicas is unknown: %v", err)
	}
	return leftOf(st.CachedInfo())
}

func leftOf(i *jetstream.StreamInfo) string {
	if i.Cluster != nil && i.Cluster.Name != "" {
		return fmt.Sprintf(notRewritten, i.Config.Replicas)
	}
	return notErased
}

// noAnswer is Place.Left if the request was neither answered nor refused.
const noAnswer = "deleted, not overwritten: nobody answered on " + streams.EraseSubject + ". A retention credential " +
	"that an earlier version made has no permission to ask: remove creds/retention.creds from the data folder, start " +
	"lazaret up again, and repeat this command"

// answerTimeout is the limit for the first reply.
const answerTimeout = 20 * time.Second

// eraseFiles asks the process that runs nats-server to remove deleted messages from the files of the
// streams. It adds the result to the record. Only ctx limits the wait, because the work grows with the streams: the
// other process goes on when ctx ends, and a later call waits for it.
func (c *Config) eraseFiles(ctx context.Context, r *Record) error {
	c.awaited = "nats-server to overwrite deleted messages in its files"
	rep, err := c.whileStopped(ctx, streams.EraseRequest{})
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errNoAnswer) {
		js, jerr := jetstream.New(c.Conn)
		if jerr != nil {
			return jerr
		}
		for _, s := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
			left := noAnswer
			if errors.Is(err, nats.ErrNoResponders) {
				left = leftIn(ctx, js, s)
			}
			r.Places = append(r.Places, Place{Where: filesOf + s, What: "deleted messages", Left: left})
		}
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("nats-server still removes deleted messages from the files of the streams: run this "+
			"again later to see whether it has finished: %w", err)
	}
	if err != nil {
		return fmt.Errorf("removing deleted messages from the files of the streams: %w: run it again", err)
	}
	for _, e := range rep.Streams {
		p := Place{Where: filesOf + e.Stream, What: fmt.Sprintf("deleted messages, overwritten in %d block "+
			"files", e.Files),
			Count: e.Messages, Left: e.Left}
		if e.Messages == 0 && e.Left == "" {
			p.What = "they contained no deleted messages"
		}
		r.Places = append(r.Places, p)
	}
	return nil
}

var errNoAnswer = errors.New("nobody answered")

// Copy asks the process that runs nats-server to copy the data folder without the auditor's log. It
// returns the folder of the copy, and the files and folders that the copy lacks and nobody can rebuild.
func (c *Config) Copy(ctx context.Context, keys bool) (dir string, left []string, err error) {
	rep, err := c.whileStopped(ctx, streams.EraseRequest{Copy: true, Keys: keys})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "", nil, errors.New("the streams cannot be copied while they are in use: lazaret up does not run here, or " +
			"nats-server is a separate process. Stop all processes and copy the folders")
	case err != nil:
		return "", nil, fmt.Errorf("copying the data folder: %w", err)
	case rep.Dir == "":
		return "", nil, errors.New("lazaret up is of an earlier version, which makes no copies: stop it and copy the folder")
	}
	return rep.Dir, rep.NotCopied, nil
}

// whileStopped requests an erasure or a copy and waits until it ends.
func (c *Config) whileStopped(ctx context.Context, req streams.EraseRequest) (*streams.EraseReply, error) {
	var rep streams.EraseReply
	answered, told := false, false
	late := time.Now().Add(answerTimeout)
	for {
		if rep.Run != "" {
			req = streams.EraseRequest{Run: rep.Run}
		}
		err := c.ask(ctx, req, &rep)
		answered = answered || err == nil
		switch {
		case !answered && ctx.Err() == nil && time.Now().After(late):
			return nil, errNoAnswer
		case errors.Is(err, nats.ErrNoResponders) && rep.Run == "":
			return nil, err
		case err == nil && rep.Done && rep.Error != "":
			return nil, errors.New(rep.Error)
		case err == nil && rep.Done:
			return &rep, nil
		}
		if !told {
			c.tell("waiting for nats-server to stop and to start again")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Config) ask(ctx context.Context, req streams.EraseRequest, rep *streams.EraseReply) error {
	body, err := streams.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	m, err := c.Conn.RequestWithContext(ctx, streams.EraseSubject, body)
	if err != nil {
		return err
	}
	*rep = streams.EraseReply{}
	return streams.Unmarshal(m.Data, rep)
}
