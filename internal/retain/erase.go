package retain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

// filesOf begins the place that is the files of a stream.
const filesOf = "files of "

// eraseTimeout is how long removing deleted messages from the files may take. The server
// stops meanwhile.
const eraseTimeout = 5 * time.Minute

// notErased is left of the streams of a server that is a process of its own.
const notErased = "deleted, not overwritten: nats-server is a process of its own, and in an encrypted stream it leaves a deleted message in its files until more than half of the block is deleted; docs/forgetting.md says what removes it"

// noAnswer is left where the request was neither answered nor refused.
const noAnswer = "deleted, not overwritten: nobody answered on " + streams.EraseSubject + ". A retention credential of an earlier version may not ask: remove creds/retention.creds from the data folder, start lazaret up again, and run this again"

// answerTimeout is how long the first answer may take.
const answerTimeout = 20 * time.Second

// eraseFiles has deleted messages removed from the files of the streams by the process
// that runs nats-server, and adds to the record what that says was done.
func (c *Config) eraseFiles(ctx context.Context, r *Record) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	rep, err := c.erase(ctx)
	left := ""
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		left = notErased
	case errors.Is(err, errNoAnswer):
		left = noAnswer
	}
	if left != "" {
		for _, s := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
			r.Places = append(r.Places, Place{Where: filesOf + s, What: "deleted messages", Left: left})
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing deleted messages from the files of the streams: %w: run it again", err)
	}
	for _, e := range rep.Streams {
		p := Place{Where: filesOf + e.Stream, What: fmt.Sprintf("deleted messages, made random in %d block files", e.Files), Count: e.Messages, Left: e.Left}
		if e.Messages == 0 && e.Left == "" {
			p.What = "no deleted message was in them"
		}
		r.Places = append(r.Places, p)
	}
	return nil
}

var errNoAnswer = errors.New("nobody answered")

// erase starts an erasure and waits for its end.
func (c *Config) erase(ctx context.Context) (*streams.EraseReply, error) {
	var rep streams.EraseReply
	answered, told := false, false
	late := time.Now().Add(answerTimeout)
	for {
		err := c.ask(ctx, rep.Run, &rep)
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
			c.tell("waiting for nats-server to stop, to be without deleted messages in its files, and to start again")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Config) ask(ctx context.Context, run string, rep *streams.EraseReply) error {
	body, err := streams.Marshal(streams.EraseRequest{Run: run})
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
