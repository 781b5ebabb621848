package query_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/streams"
)

// A handler may answer from another goroutine by Reply. If it used r.Error, the race detector would report a race
// between the goroutine and package micro.
func TestARequestIsAnsweredFromAnotherGoroutine(t *testing.T) {
	nc := natstest.Start(t).Connect()
	s, err := micro.AddService(nc, micro.Config{Name: "test", Version: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	refused := &streams.ReplyError{Code: streams.CodeInvalid, Message: "why"}
	handler := micro.HandlerFunc(func(r micro.Request) {
		go func() {
			if err := query.Reply(nc, r, []byte("body"), refused); err != nil {
				t.Error(err)
			}
		}()
	})
	if err := s.AddEndpoint("refuse", handler, micro.WithEndpointSubject("refuse")); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		m, err := nc.Request("refuse", nil, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		code, text := m.Header.Get(micro.ErrorCodeHeader), m.Header.Get(micro.ErrorHeader)
		if string(m.Data) != "body" || code != string(refused.Code) || text != refused.Message {
			t.Fatalf("heard %q, code %q, %q", m.Data, code, text)
		}
	}
}

// A handler may read files that are closed after the service was stopped. So stopping must wait until the handler has
// ended.
func TestNoHandlerRunsOnceTheServiceHasStopped(t *testing.T) {
	s := natstest.Start(t)
	begun, ended := make(chan struct{}), false
	stop, err := query.Serve(s.Connect(), "test", "", []int{0}, map[string]query.Handler{
		"slow": func(ctx context.Context, _ int, _ []byte) (any, error) {
			close(begun)
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond) // a handler that does not end at once
			ended = true
			return nil, ctx.Err()
		}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	nc := s.Connect()
	if err := nc.PublishRequest(streams.QuerySubject("slow", 0), nc.NewInbox(), nil); err != nil {
		t.Fatal(err)
	}
	<-begun
	stop()
	if !ended {
		t.Error("a handler still runs")
	}
}
