package client

import (
	"context"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

type traceKey struct{}

// WithTraceparent returns a context whose calls carry a W3C traceparent. The ledger entries of the
// sent events record it, and their spans belong to its trace. An invalid traceparent is ignored.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, streams.Traceparent(traceparent))
}

func message(ctx context.Context, subject string, body []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: body}
	if t, _ := ctx.Value(traceKey{}).(string); t != "" {
		m.Header = nats.Header{streams.HeaderTraceparent: {t}}
	}
	return m
}
