package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lazaret/streams"
)

// Timeout is how long the processing of one request may take.
const Timeout = 10 * time.Second

// ErrNobody means that no daemon serves the request.
var ErrNobody = errors.New("nobody answers")

// Handler answers a request about one partition.
type Handler func(ctx context.Context, partition int, req []byte) (any, error)

// Serve answers requests over a connection that may only publish to inboxes. name is the service's name
// in `nats service ls`. The keys of handlers are the values of <what>.
func Serve(svc *nats.Conn, name, description string, partitions []int, handlers map[string]Handler,
	log *slog.Logger) (stop func(), err error) {
	s, err := micro.AddService(svc, micro.Config{Name: name, Version: "0.1.0", Description: description})
	if err != nil {
		return nil, fmt.Errorf("starting service %s: %w", name, err)
	}
	run := NewAnswers()
	for what, h := range handlers {
		for _, p := range partitions {
			err := s.AddEndpoint(fmt.Sprintf("%s-%d", what, p), micro.HandlerFunc(func(r micro.Request) {
				run.Go(func(ctx context.Context) { answer(ctx, svc, r, h, log) })
			}),
				micro.WithEndpointSubject(streams.QuerySubject(what, p)))
			if err != nil {
				return nil, errors.Join(fmt.Errorf("serving %s: %w", what, err), s.Stop())
			}
		}
	}
	if err := svc.Flush(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return func() {
		_ = s.Stop()
		run.Stop()
	}, nil
}

// Answers runs the goroutines that answer requests.
type Answers struct {
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // guards stopped, so that no goroutine is added to wg after Stop
	stopped bool
	wg      sync.WaitGroup
}

// NewAnswers returns an Answers, which runs goroutines until Stop is called.
func NewAnswers() *Answers {
	a := new(Answers)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Go runs fn in a goroutine. After Stop it does nothing.
func (a *Answers) Go(fn func(ctx context.Context)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.wg.Go(func() { fn(a.ctx) })
}

// Stop cancels the context of the running goroutines and waits until they have ended. Afterwards, the data that they
// read may be closed.
func (a *Answers) Stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.cancel()
	a.wg.Wait()
}

type envelope struct {
	Error  string `json:"error,omitzero"`
	Answer any    `json:"answer,omitzero"`
}

func answer(ctx context.Context, svc *nats.Conn, r micro.Request, h Handler, log *slog.Logger) {
	if !Answerable(r.Reply()) {
		log.Warn("request with a reply subject outside of inboxes "+
			"dropped", "subject", r.Subject(), "code", streams.CodeBadReply)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p, err := strconv.Atoi(r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:])
	var v any
	if err == nil {
		v, err = h(ctx, p, r.Data())
	}
	env := envelope{Answer: v}
	if err != nil {
		env = envelope{Error: err.Error()}
	}
	body, err := streams.Marshal(env)
	if err == nil {
		err = Reply(svc, r, body, nil)
	}
	if err != nil {
		log.Warn("answer not sent", "subject", r.Subject(), "err", err)
	}
}

// Answerable reports whether a request with this reply subject may be answered. The subject must be an inbox, or a
// subject that nats-server made (_R_) because the request comes from another account.
func Answerable(reply string) bool {
	return strings.HasPrefix(reply, "_INBOX") || strings.HasPrefix(reply, "_R_.")
}

// Reply sends body to the inbox of a request, or a service error if failed is set. A handler that
// answers from another goroutine must call it instead of r.Respond and r.Error: those write a field of
// the request that package micro reads without a lock after the handler has returned.
func Reply(svc *nats.Conn, r micro.Request, body []byte, failed *streams.ReplyError) error {
	m := &nats.Msg{Subject: r.Reply(), Data: body}
	if failed != nil {
		m.Header = nats.Header{micro.ErrorHeader: {failed.Message}, micro.ErrorCodeHeader: {string(failed.Code)}}
	}
	return svc.PublishMsg(m)
}

// Ask sends a request about one partition and decodes the reply into resp.
func Ask(ctx context.Context, nc *nats.Conn, what string, partition int, req, resp any) error {
	body, err := streams.Marshal(req)
	if err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	subject := streams.QuerySubject(what, partition)
	m, err := nc.RequestWithContext(ctx, subject, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w on %s: is the pipeline running?", ErrNobody, subject)
	case err != nil:
		return fmt.Errorf("asking %s: %w", subject, err)
	}
	env := envelope{Answer: resp}
	if err := streams.Unmarshal(m.Data, &env); err != nil {
		return fmt.Errorf("answer on %s: %w", subject, err)
	}
	if env.Error != "" {
		return errors.New(env.Error)
	}
	return nil
}

// Partitions returns the partition of a project, or all partitions if project is empty.
func Partitions(project string) []int {
	if project != "" {
		return []int{streams.PartitionOf(project)}
	}
	all := make([]int, streams.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}
