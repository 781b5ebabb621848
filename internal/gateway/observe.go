package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Media types of CloudEvents in structured mode.
const (
	typeEvent = "application/cloudevents+json"
	typeBatch = "application/cloudevents-batch+json"
)

// Batch is the answer to a batch: one reply per event, in order.
type Batch struct {
	Events []*streams.ObserveReply `json:"events"`
}

// CloudEvent is an event of CloudEvents 1.0. Its data is an observation or a text. Origin, session,
// tool and call may be extension attributes.
type CloudEvent struct {
	SpecVersion string         `json:"specversion"`
	ID          string         `json:"id"`
	Source      string         `json:"source"`
	Type        string         `json:"type"`
	Time        time.Time      `json:"time,omitzero"`
	ContentType string         `json:"datacontenttype,omitzero"`
	Data        jsontext.Value `json:"data,omitzero"`
	Base64      []byte         `json:"data_base64,omitzero"`
	Origin      beliefs.Origin `json:"origin,omitzero"`
	Session     string         `json:"session,omitzero"`
	Tool        string         `json:"tool,omitzero"`
	Call        string         `json:"call,omitzero"`
	Traceparent string         `json:"traceparent,omitzero"`
}

func observe(c *call) (any, error) {
	switch {
	case c.kind == typeBatch:
		return c.batch()
	case c.kind == typeEvent || c.r.Header.Get("ce-specversion") != "":
		e := new(CloudEvent)
		if c.kind != typeEvent {
			var err error
			if e, err = binaryEvent(c.r.Header, c.kind, c.body); err != nil {
				return nil, err
			}
		} else if err := c.decode(e); err != nil {
			return nil, err
		}
		o, err := e.observation()
		if err != nil {
			return nil, err
		}
		return c.submit(e.traced(c.ctx), o)
	}
	o := new(ObserveRequest)
	if err := c.decode(o); err != nil {
		return nil, err
	}
	return c.submit(c.ctx, o)
}

// submit records an observation and waits until it is in the ledger.
func (c *call) submit(ctx context.Context, o *ObserveRequest) (*streams.ObserveReply, error) {
	o.Origin = cmp.Or(o.Origin, beliefs.OriginTool)
	var rep *streams.ObserveReply
	c.ctx = ctx
	err := c.asks(streams.SvcObserve, o.Origin, func(ctx context.Context) (err error) {
		rep, err = c.s.client.Submit(ctx, o.Origin, &o.Observation)
		return err
	})
	if err != nil {
		p := problemOf(err)
		if rep != nil {
			p.ID, p.IntakeSeq, p.LedgerSeq, p.Unseen = rep.ID, rep.IntakeSeq, rep.Seq, rep.Unseen
		}
		return nil, p
	}
	return rep, nil
}

// batch records the events of a batch sequentially, each judged by itself. After a rejection it goes on. It stops at
// the first event whose outcome is unknown, because later events must not overtake that event. It also stops at an
// event that the credential may not send.
func (c *call) batch() (any, error) {
	var events []*CloudEvent
	if err := c.decode(&events); err != nil {
		return nil, err
	}
	if len(events) > MaxEvents || len(events) == 0 || slices.Contains(events, nil) {
		return nil, problem(streams.CodeInvalid, "the batch has %d events, use 1 to %d", len(events), MaxEvents)
	}
	list := make([]*ObserveRequest, len(events))
	for i, e := range events {
		o, err := e.observation()
		if err != nil {
			p := problemOf(err)
			p.Detail = streams.Clip(fmt.Sprintf("event %d of the batch (counted from 0), %s, so no event was sent: %s", i,
				quoted(e.ID), p.Detail), maxDetail)
			return nil, p // no event has been sent
		}
		list[i] = o
	}
	var done []*streams.ObserveReply
	var failed *Problem
	ctx := c.ctx
	for i, o := range list {
		rep, err := c.submit(events[i].traced(ctx), o)
		if err == nil {
			done = append(done, rep)
			continue
		}
		p := problemOf(err)
		p.Detail = streams.Clip(fmt.Sprintf("event %d of the batch (counted from 0): %s", i, p.Detail), maxDetail)
		if failed == nil {
			failed = p
		}
		if p.Code == streams.CodeForbidden || p.Code == streams.CodeCredential || (&client.Error{Code: p.Code}).Temporary() {
			failed = p
			break
		}
		done = append(done, &streams.ObserveReply{ID: p.ID, IntakeSeq: p.IntakeSeq, Seq: p.LedgerSeq, Unseen: p.Unseen,
			Error: &streams.ReplyError{Code: p.Code, Message: p.Detail}})
	}
	if failed != nil {
		p := *failed
		p.Events = done
		return nil, &p
	}
	return &Batch{Events: done}, nil
}

func quoted(id string) string { return `"` + streams.Clip(id, streams.MaxIDLen) + `"` }

func (e *CloudEvent) traced(ctx context.Context) context.Context {
	if e.Traceparent == "" {
		return ctx
	}
	return client.WithTraceparent(ctx, e.Traceparent)
}

// binaryEvent builds an event from a request in binary mode: attributes are headers, the body is the
// data.
func binaryEvent(h http.Header, kind string, body []byte) (*CloudEvent, error) {
	var err error
	get := func(name string) string {
		v := h.Values("ce-" + name)
		if len(v) == 0 {
			return ""
		}
		s, uerr := url.PathUnescape(v[0])
		if len(v) > 1 || uerr != nil || !utf8.ValidString(s) {
			err = problem(streams.CodeRequest, "the header ce-%s is repeated, or not percent-encoded UTF-8", name)
		}
		return s
	}
	e := &CloudEvent{SpecVersion: get("specversion"), ID: get("id"), Source: get("source"), Type: get("type"),
		ContentType: kind,
		Origin:      beliefs.Origin(get("origin")), Session: get("session"), Tool: get("tool"), Call: get("call"),
		Traceparent: get("traceparent")}
	if t := get("time"); t != "" {
		at, terr := time.Parse(time.RFC3339Nano, t)
		if terr != nil {
			err = problem(streams.CodeRequest, "the header ce-time is not an RFC 3339 time")
		}
		e.Time = at
	}
	if kind == "application/json" {
		e.Data = body
	} else {
		e.Base64 = body
	}
	return e, err
}

// observation converts the event to an observation.
func (e *CloudEvent) observation() (*ObserveRequest, error) {
	switch {
	case e.SpecVersion != "1.0":
		return nil, problem(streams.CodeInvalid, "specversion is %q, use 1.0", streams.Clip(e.SpecVersion, 20))
	case e.ID == "" || e.Source == "" || e.Type == "":
		return nil, problem(streams.CodeInvalid, "a CloudEvent needs id, source and type")
	case len(e.Data) > 0 && len(e.Base64) > 0:
		return nil, problem(streams.CodeInvalid, "a CloudEvent has data or data_base64, not both")
	}
	o := new(ObserveRequest)
	switch kind := e.Data.Kind(); {
	case len(e.Base64) > 0:
		if !utf8.Valid(e.Base64) {
			return nil, problem(streams.CodeInvalid, "the data is not UTF-8 text")
		}
		o.Content = string(e.Base64)
	case len(e.Data) == 0:
	case kind == '{':
		if err := decode(e.Data, &o.Observation); err != nil {
			return nil, err
		}
	case kind == '"':
		if err := decode(e.Data, &o.Content); err != nil {
			return nil, err
		}
	default:
		if !e.Data.IsValid() {
			return nil, problem(streams.CodeMalformed, "the data is not JSON")
		}
		o.Content = string(e.Data)
	}
	if o.ID != "" && o.ID != e.ID {
		return nil, problem(streams.CodeInvalid, "the event's id is %q and that of its data %q: send one id",
			streams.Clip(e.ID, 80), streams.Clip(o.ID, 80))
	}
	o.ID, o.Origin = e.ID, e.Origin
	for _, f := range []struct {
		to   *string
		from string
	}{{&o.Session, e.Session}, {&o.Tool, e.Tool}, {&o.Call, e.Call}, {&o.Source, e.Source}} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	if o.Time.IsZero() {
		o.Time = e.Time
	}
	return o, nil
}
