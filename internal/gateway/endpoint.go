package gateway

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strings"

	"lazaret/client"
	"lazaret/internal/otlpin"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// endpoint is one method and path of the API. The mux and /v1/openapi.json are built from the same table,
// endpoints.
type endpoint struct {
	Method, Path string
	Summary      string
	Query        []param
	Request      reflect.Type // nil: none
	Reply        reflect.Type
	OTLP         bool // Request and Reply are OTLP messages

	answer func(c *call) (any, error)
	feed   func(s *session) string // for a feed of events: returns the live subject to subscribe to
	stop   func(err error) any     // if set, returns the body to send with status 200 instead of a problem
}

type param struct{ Name, Text string }

// takes reports whether the endpoint accepts a body of this media type.
func (e *endpoint) takes(kind string, h http.Header) bool {
	if kind == "application/json" || e.OTLP && kind == otlpin.TypeProtobuf {
		return true
	}
	return e.Path == "/v1/observe" && (kind == typeEvent || kind == typeBatch || strings.HasPrefix(kind, "text/") &&
		h.Get("ce-specversion") != "")
}

// ObserveRequest is an observation with the origin of its content. The default origin is tool.
type ObserveRequest struct {
	Origin beliefs.Origin `json:"origin,omitzero"`
	streams.Observation
}

// RememberRequest is a memory write with its origin. The default origin is agent.
type RememberRequest struct {
	Origin beliefs.Origin `json:"origin,omitzero"`
	streams.Memory
}

// Accepted is the reply to an event that gets no verdict.
type Accepted struct {
	ID        string `json:"id"`
	IntakeSeq uint64 `json:"intake_seq"`
}

var waits = []param{{"wait",
	"how long to wait while the verdict is a hold that a person may still release, such as 30s; at most 5m"}}

var endpoints = []endpoint{
	{Method: "POST", Path: "/v1/observe", Summary: "Record what the agent is about to be shown. Show it only after a " +
		"200.",
		Request: reflect.TypeFor[ObserveRequest](), Reply: reflect.TypeFor[streams.ObserveReply](), answer: observe},
	{Method: "POST", Path: "/v1/decide", Summary: "Ask for a verdict on an action. Act only on allow.", Query: waits,
		Request: reflect.TypeFor[streams.Action](), Reply: reflect.TypeFor[streams.Reply](), answer: decide},
	{Method: "POST", Path: "/v1/remember", Summary: "Ask for a verdict on a memory write.", Query: waits,
		Request: reflect.TypeFor[RememberRequest](), Reply: reflect.TypeFor[streams.Reply](), answer: remember},
	{Method: "POST", Path: "/v1/recall", Summary: "Ask which entries of memory may enter the context.",
		Request: reflect.TypeFor[streams.Recall](), Reply: reflect.TypeFor[streams.Reply](),
		answer: recall(streams.SvcRecall, (*client.Client).Recall)},
	{Method: "POST", Path: "/v1/gate", Summary: "Ask which candidates of another memory store may enter the context.",
		Request: reflect.TypeFor[streams.Recall](), Reply: reflect.TypeFor[streams.Reply](), answer: recall(streams.SvcGate,
			(*client.Client).Gate)},
	{Method: "POST", Path: "/v1/memory_tool", Query: waits,
		Summary: "Carry out a call of Anthropic's memory tool, on files that the gateway keeps.",
		Request: reflect.TypeFor[MemoryToolRequest](), Reply: reflect.TypeFor[MemoryToolResult](), answer: memoryTool},
	{Method: "POST", Path: "/v1/outcome",
		Summary: "Report what came of an action, give an answer, or withdraw a held proposal (status cancelled).",
		Request: reflect.TypeFor[streams.Outcome](), Reply: reflect.TypeFor[Accepted](),
		answer: publish[streams.Outcome](streams.KindOut)},
	{Method: "POST", Path: "/v1/session",
		Summary: "Start or end a session. A start clears the rejected observations of the session, so that they hold no " +
			"proposal any more (LZ306).",
		Request: reflect.TypeFor[streams.Session](), Reply: reflect.TypeFor[Accepted](),
		answer: publish[streams.Session](streams.KindSession)},
	{Method: "POST", Path: "/v1/decision", Summary: "Record a decision and the beliefs on which it depends.",
		Request: reflect.TypeFor[streams.Decision](), Reply: reflect.TypeFor[Accepted](),
		answer: publish[streams.Decision](streams.KindDec)},
	{Method: "POST", Path: "/v1/tools", Summary: "Record a catalogue: the tools that a server offers. Their " +
		"annotations raise levels and never lower them.",
		Request: reflect.TypeFor[streams.Tools](), Reply: reflect.TypeFor[Accepted](),
		answer: publish[streams.Tools](streams.KindTools)},
	{Method: "POST", Path: "/v1/traces", OTLP: true,
		Summary: "Record tool, retrieval and memory spans that were exported by OTLP, as observations and outcomes.",
		answer:  traces},
	{Method: "POST", Path: "/v1/hooks/{host}",
		Summary: "Answer an event of a coding agent's hooks. If the event cannot be judged, the answer is a refusal.",
		Request: reflect.TypeFor[HookEvent](), Reply: reflect.TypeFor[HookAnswer](), answer: hooked, stop: stopped},
	{Method: "GET", Path: "/v1/holds/{id}",
		Summary: "Read the state of a hold of this agent, or wait until the hold has ended.", Query: waits,
		Reply: reflect.TypeFor[streams.Reply](), answer: hold},
	{Method: "GET", Path: "/v1/holds", Summary: "Listen to the agent's own holds, as server-sent events.",
		feed: feedOf("hold")},
	{Method: "GET", Path: "/v1/alerts",
		Summary: "Listen to alerts, as server-sent events (token of operator or viewer).", Query: projects,
		feed: feedOf("alert")},
	{Method: "GET", Path: "/v1/verdicts",
		Summary: "Listen to verdicts, as server-sent events (token of operator or viewer).", Query: projects,
		feed: feedOf("verdict")},
}

// asks calls f, which sends a request with this origin to a service. f must return within answerTime. asks
// returns an error if the NATS server denies the request to the call's credential.
func (c *call) asks(svc streams.Service, origin beliefs.Origin, f func(ctx context.Context) error) error {
	subject, err := streams.ServiceSubject(svc, c.s.project, c.s.agent, origin)
	if err != nil {
		return problem(streams.CodeInvalid, "%v", err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerTime)
	defer cancel()
	return c.d.asking(ctx, subject, f)
}

func decide(c *call) (any, error) {
	a := new(streams.Action)
	if err := c.decode(a); err != nil {
		return nil, err
	}
	return c.propose(&proposed{svc: streams.SvcDecide, event: a, size: len(c.body)})
}

func remember(c *call) (any, error) {
	m := new(RememberRequest)
	if err := c.decode(m); err != nil {
		return nil, err
	}
	m.Origin = cmp.Or(m.Origin, beliefs.OriginAgent)
	return c.propose(&proposed{svc: streams.SvcRemember, origin: m.Origin, event: &m.Memory, size: len(c.body)})
}

func recall(svc streams.Service, ask func(*client.Client, context.Context, *streams.Recall) (*client.Reply,
	error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		r := new(streams.Recall)
		if err := c.decode(r); err != nil {
			return nil, err
		}
		var rep *client.Reply
		err := c.asks(svc, "", func(ctx context.Context) (err error) {
			rep, err = ask(c.s.client, ctx, r)
			return err
		})
		return rep, err
	}
}

// publish returns a handler that stores an event which gets no verdict.
func publish[T any, E interface {
	*T
	streams.Event
}](kind streams.Kind) func(*call) (any, error) {
	return func(c *call) (any, error) {
		e := E(new(T))
		if err := c.decode(e); err != nil {
			return nil, err
		}
		if t, ok := any(e).(*streams.Tools); ok && t.Tools == nil {
			// Refuse a missing list here. The event is encoded again, and a missing list would then become
			// an empty one.
			return nil, problem(streams.CodeInvalid, "tools is missing: send a list, which may be empty")
		}
		h := streams.HeadOf(e)
		if h.ID == "" {
			h.ID = client.NewID()
		}
		seq, err := c.store(kind, "", e)
		if err != nil {
			return nil, err
		}
		return &Accepted{ID: h.ID, IntakeSeq: seq}, nil
	}
}

// store publishes an event to the intake and returns its sequence. It validates the event first,
// because a rejection by ingest would not reach the caller.
func (c *call) store(kind streams.Kind, origin beliefs.Origin, e streams.Event) (uint64, error) {
	body, err := streams.Marshal(e)
	if err != nil {
		return 0, problem(streams.CodeMalformed, "%v", err)
	}
	a := streams.Address{Project: c.s.project, Agent: c.s.agent, Kind: kind, Origin: origin}
	if _, err := streams.ParseEvent(a, "", body, 0); err != nil {
		return 0, err
	}
	subject, err := streams.IntakeSubject(c.s.project, c.s.agent, kind, origin)
	if err != nil {
		return 0, problem(streams.CodeInvalid, "%v", err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerTime)
	defer cancel()
	var seq uint64
	err = c.d.asking(ctx, subject, func(ctx context.Context) (err error) {
		seq, err = c.s.client.PublishRaw(ctx, subject, body)
		return err
	})
	return seq, err
}
