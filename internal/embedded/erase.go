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

// eraseTimeout limits the request for the list of deleted messages.
const eraseTimeout = time.Minute

// serveErase handles requests of the retention credential: it removes deleted messages from the files of the
// streams, or copies the data folder. The server is stopped during the work. A client therefore repeats its
// request to get the result.
func (p *Pipeline) serveErase() error {
	nc, err := p.connect(natsserver.RoleService)
	if err != nil {
		return err
	}
	ended := make(chan streams.EraseReply, 1)
	var last streams.EraseReply // the last run; only the goroutine that answers requests uses it
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
			// The running erasure does not cover messages that were deleted later.
			p.answerErase(nc, m, streams.EraseReply{Error: "another erasure is under way: ask again"})
			return
		case req.Run == "":
			last = streams.EraseReply{Run: nuid.Next()}
		case req.Run != last.Run:
			p.answerErase(nc, m, streams.EraseReply{Run: req.Run, Done: true,
				Error: "nothing is known of this erasure: the process that ran it has ended, or another erasure followed it"})
			return
		}
		p.answerErase(nc, m, last)
		if req.Run == "" {
			run := last.Run
			// Shutdown of the server waits for this goroutine.
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

// eraseRequest reads a request to erase. Any publisher can make the server send JetStream's acknowledgement or error to
// the subject (docs/decisions/0006). These have no reply subject, and members that a request does not have.
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
