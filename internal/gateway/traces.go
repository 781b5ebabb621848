package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"

	"lazaret/client"
	"lazaret/internal/otlpin"
	"lazaret/streams"
)

// MaxSpans is the maximum number of spans in one request that are recorded as events.
const MaxSpans = 2048

// encoded is a reply that is already encoded.
type encoded struct {
	kind string
	body []byte
}

// traces records the spans of an OTLP request. The reply counts the spans that are rejected permanently. Any
// other failure fails the whole request, so that the sender sends all its spans again.
func traces(c *call) (any, error) {
	req, err := otlpin.Decode(c.kind, c.body)
	if err != nil {
		return nil, problem(streams.CodeMalformed, "the body is not an ExportTraceServiceRequest: %v", err)
	}
	spans, left := otlpin.Map(req)
	if len(spans) > MaxSpans {
		return nil, problem(streams.CodeTooLarge, "the request has %d spans of tools and memory, send at most %d",
			len(spans), MaxSpans)
	}
	for _, s := range spans {
		if err := c.record(s); err != nil {
			p := problemOf(err)
			if !p.ofTheEvent() {
				return nil, p
			}
			left["refused, "+p.Error()]++
		}
	}
	if len(left) > 0 {
		c.g.cfg.Log.Debug("spans are left out", "credential", c.d.name, "why", left.String())
	}
	body, err := otlpin.Answer(c.kind, left.Total(), streams.Clip(left.String(), maxDetail))
	if err != nil {
		return nil, problem(streams.CodeUnavailable, "the answer: %v", err)
	}
	return &encoded{c.kind, body}, nil
}

// record stores the events of one span.
func (c *call) record(s *otlpin.Span) error {
	ctx := c.ctx
	defer func() { c.ctx = ctx }()
	c.ctx = client.WithTraceparent(ctx, s.Traceparent)
	for _, e := range s.Events {
		if _, err := c.store(e.Kind, e.Origin, e.Body); err != nil {
			return err
		}
	}
	return nil
}

// inflated decompresses a gzip body.
func inflated(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, problem(streams.CodeMalformed, "the body is not gzip: %v", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, MaxBody+1))
	if err != nil {
		return nil, problem(streams.CodeMalformed, "the body is not gzip: %v", err)
	}
	if len(b) > MaxBody {
		return nil, &http.MaxBytesError{Limit: MaxBody}
	}
	return b, nil
}
