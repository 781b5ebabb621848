package embedded

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"lazaret/internal/natsserver"
	"lazaret/streams"
)

// eraseTimeout is the time limit for the requests to the server before it is stopped.
const eraseTimeout = time.Minute

// serveErase handles two requests of the retention credential: to remove deleted messages from the files of the
// streams, and to copy the data folder. The server is stopped during this work. So a client must send its request again
// to get the result.
func (p *Pipeline) serveErase() error {
	nc, err := p.connect(natsserver.RoleService)
	if err != nil {
		return err
	}
	ended := make(chan streams.EraseReply, 1)
	var last streams.EraseReply // the latest run; used only by the goroutine that answers requests
	_, err = nc.Subscribe(streams.EraseSubject, func(m *nats.Msg) {
		req, err := eraseRequest(m)
		if err != nil {
			p.cfg.Log.Warn("request to erase dropped", "err", err)
			return
		}
		select {
		case last = <-ended:
		default:
		}
		running := last.Run != "" && !last.Done
		switch {
		case req.Run == "" && running:
			// The erasure that is running does not remove messages that were deleted after it began.
			p.answerErase(nc, m, streams.EraseReply{Error: "another erasure or copy is under way: ask again"})
			return
		case req.Run == "":
			last = streams.EraseReply{Run: nuid.Next()}
		case req.Run != last.Run:
			p.answerErase(nc, m, streams.EraseReply{Run: req.Run, Done: true,
				Error: "nothing is known of this run: the process that ran it has ended, or another run followed it"})
			return
		}
		p.answerErase(nc, m, last)
		if req.Run == "" {
			run := last.Run
			// A separate goroutine, because the shutdown of the server waits for the goroutine that answers requests.
			go func() {
				if req.Copy {
					ended <- p.copy(run, req.Keys)
				} else {
					ended <- p.erase(run)
				}
			}()
		}
	})
	return err
}

// eraseRequest decodes a request to erase. A message on this subject may also be an acknowledgement or an error of
// JetStream, because any publisher can name the subject for replies (docs/decisions/0006). Such a message has no reply
// subject, and it has members that a request does not have. eraseRequest returns an error for it.
func eraseRequest(m *nats.Msg) (req streams.EraseRequest, err error) {
	if !strings.HasPrefix(m.Reply, "_INBOX") {
		return req, errors.New("its reply subject is not an inbox")
	}
	err = streams.UnmarshalExact(m.Data, &req, json.RejectUnknownMembers(true))
	return req, err
}

func (p *Pipeline) answerErase(nc *nats.Conn, m *nats.Msg, r streams.EraseReply) {
	b, err := streams.Marshal(r)
	if err == nil {
		err = m.Respond(b)
	}
	if err == nil {
		err = nc.Flush() // send the reply before the server stops
	}
	if err != nil {
		p.cfg.Log.Warn("answering a request to erase", "err", err)
	}
}

func (p *Pipeline) erase(run string) streams.EraseReply {
	ctx, cancel := context.WithTimeout(context.Background(), eraseTimeout)
	defer cancel()
	out := streams.EraseReply{Run: run, Done: true}
	var err error
	if out.Streams, err = p.Server.EraseDeleted(ctx); err != nil {
		out.Error = err.Error()
		if !errors.Is(err, natsserver.ErrNotErased) && !errors.Is(err, natsserver.ErrStopped) {
			p.fail("nats-server", err)
		}
	}
	return out
}
