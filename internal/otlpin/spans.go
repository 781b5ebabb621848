package otlpin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// AttrOrigin is an attribute defined by Lazaret. It is the origin of the span's content.
const AttrOrigin = "lazaret.origin"

// Event is an event with the kind and origin of its intake subject.
type Event struct {
	Kind   streams.Kind
	Origin beliefs.Origin // empty for kinds without one
	Body   streams.Event
}

// Span is a span that gives events.
type Span struct {
	Traceparent string
	Events      []Event // in the order in which they must be recorded
}

// Left counts the spans that give no event, by reason.
type Left map[string]int

// Total is the number of spans.
func (l Left) Total() int {
	n := 0
	for _, c := range l {
		n += c
	}
	return n
}

func (l Left) String() string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, fmt.Sprintf("%d: %s", l[why], why))
	}
	return strings.Join(parts, "; ")
}

// The reasons why a span gives no event.
const (
	notGenAI  = "no execute_tool, retrieval or memory operation"
	ours      = "a span that Lazaret sent"
	noIDs     = "no valid trace id and span id"
	noContent = "a retrieval or memory operation without content (record gen_ai.retrieval.documents or " +
		"gen_ai.memory.records)"
	noTool   = "execute_tool without gen_ai.tool.name"
	noOrigin = AttrOrigin + " is not an origin"
	notJSON  = "a value that is not JSON"
)

// span is a span with the data of its resource and trace.
type span struct {
	*tracepb.Span
	attrs   map[string]*commonpb.AnyValue // attributes of the span and of its resource; the span's take precedence
	trace   string
	session string
}

// Map returns the events of a request's spans, in the order in which the spans ended.
func Map(req *collector.ExportTraceServiceRequest) ([]*Span, Left) {
	left := Left{}
	var list []*span
	sessions := map[string]string{} // by trace
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.GetScopeSpans() {
			for _, ps := range ss.GetSpans() {
				s := &span{Span: ps, attrs: map[string]*commonpb.AnyValue{}, trace: hex.EncodeToString(ps.GetTraceId())}
				for _, kv := range slices.Concat(rs.GetResource().GetAttributes(), ps.GetAttributes()) {
					s.attrs[kv.GetKey()] = kv.GetValue()
				}
				if !valid(ps.GetTraceId(), 16) || !valid(ps.GetSpanId(), 8) {
					left[noIDs]++
					continue
				}
				if s.session = s.text("gen_ai.conversation.id"); s.session != "" && sessions[s.trace] == "" {
					sessions[s.trace] = s.session
				}
				list = append(list, s)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *span) int { return cmp.Compare(a.EndTimeUnixNano, b.EndTimeUnixNano) })
	var out []*Span
	for _, s := range list {
		// Often only one span of a trace names the conversation. The other spans of the trace take its name.
		s.session = id(cmp.Or(s.session, sessions[s.trace], s.trace))
		events, why := s.events()
		if why != "" {
			left[why]++
			continue
		}
		out = append(out, &Span{Events: events,
			Traceparent: "00-" + s.trace + "-" + hex.EncodeToString(s.SpanId) + "-01"})
	}
	return out, left
}

func valid(id []byte, n int) bool { return len(id) == n && !bytes.Equal(id, make([]byte, n)) }

// id returns a name if it is a valid id, otherwise its digest.
func id(name string) string {
	if streams.ValidID(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "x-" + hex.EncodeToString(sum[:16])
}

// events returns the events of a span, or the reason why there are none.
func (s *span) events() ([]Event, string) {
	if s.attrs["lazaret.project"] != nil || s.attrs["lazaret.ledger.seq"] != nil {
		return nil, ours
	}
	switch s.text("gen_ai.operation.name") {
	case "execute_tool":
		return s.tool()
	case "retrieval":
		return s.found("gen_ai.retrieval.documents", beliefs.OriginDocument,
			cmp.Or(s.text("gen_ai.data_source.id"), "retrieval"), s.text("gen_ai.retrieval.query.text"))
	case "search_memory":
		return s.found("gen_ai.memory.records", beliefs.OriginTool,
			cmp.Or(s.text("gen_ai.memory.store.id"), "memory"), s.text("gen_ai.memory.query.text"))
	case "create_memory", "update_memory", "upsert_memory":
		return s.written()
	}
	return nil, notGenAI
}

func (s *span) head(suffix string) streams.Head {
	return streams.Head{ID: "otlp-" + s.trace + "-" + hex.EncodeToString(s.SpanId) + suffix, Session: s.session}
}

// origin returns the origin that the span names, or o if it names none. It reports whether the origin is valid.
func (s *span) origin(o beliefs.Origin) (beliefs.Origin, bool) {
	o = beliefs.Origin(cmp.Or(s.text(AttrOrigin), string(o)))
	return o, o.Valid()
}

// tool returns the observation of a tool's result, if the span has it, and the outcome.
func (s *span) tool() ([]Event, string) {
	name := s.text("gen_ai.tool.name")
	if name == "" {
		return nil, noTool
	}
	origin, ok := s.origin(beliefs.OriginTool)
	if !ok {
		return nil, noOrigin
	}
	call := id(cmp.Or(s.text("gen_ai.tool.call.id"), "otlp-"+s.trace+"-"+hex.EncodeToString(s.SpanId)))
	failed := s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR || s.text("error.type") != ""
	content, err := content(s.attrs["gen_ai.tool.call.result"])
	if err != nil {
		return nil, notJSON
	}
	args, err := arguments(s.attrs["gen_ai.tool.call.arguments"])
	if err != nil {
		return nil, notJSON
	}
	if content == "" && failed {
		content = s.failure()
	}
	var out []Event
	if content != "" {
		out = append(out, Event{streams.KindObs, origin, &streams.Observation{Head: s.head("-o"), Tool: name, Call: call,
			Args: args, Content: content}})
	}
	status := "ok"
	if failed {
		status = "error"
	}
	return append(out, Event{streams.KindOut, "", &streams.Outcome{Head: s.head("-r"), Action: call, Status: status}}), ""
}

// failure returns the text of the exception that a span recorded, or of its status.
func (s *span) failure() string {
	for _, e := range s.GetEvents() {
		for _, kv := range e.GetAttributes() {
			if e.GetName() == "exception" && kv.GetKey() == "exception.message" && kv.GetValue().GetStringValue() != "" {
				return kv.GetValue().GetStringValue()
			}
		}
	}
	return s.GetStatus().GetMessage()
}

// found returns the observation of retrieved documents or memories.
func (s *span) found(attr string, o beliefs.Origin, tool, query string) ([]Event, string) {
	origin, ok := s.origin(o)
	if !ok {
		return nil, noOrigin
	}
	text, err := content(s.attrs[attr])
	switch {
	case err != nil:
		return nil, notJSON
	case text == "":
		return nil, noContent
	}
	obs := &streams.Observation{Head: s.head("-o"), Tool: tool, Content: text}
	if query != "" {
		if obs.Args, err = streams.Marshal(map[string]string{"query": query}); err != nil {
			return nil, notJSON
		}
	}
	return []Event{{streams.KindObs, origin, obs}}, ""
}

// written returns the memory events of a write, one for each record.
func (s *span) written() ([]Event, string) {
	origin, ok := s.origin(beliefs.OriginAgent)
	if !ok {
		return nil, noOrigin
	}
	records, err := structured(s.attrs["gen_ai.memory.records"])
	if err != nil {
		return nil, notJSON
	}
	var list []struct {
		ID      string         `json:"id"`
		Content jsontext.Value `json:"content"`
	}
	if len(records) == 0 || streams.Unmarshal(records, &list) != nil || len(list) == 0 {
		return nil, noContent
	}
	store := s.text("gen_ai.memory.store.id")
	var out []Event
	for i, r := range list {
		m := &streams.Memory{Head: s.head(fmt.Sprint("-m", i)), Content: words(r.Content)}
		if m.Content == "" {
			return nil, noContent
		}
		if name := cmp.Or(r.ID, s.text("gen_ai.memory.record.id")); name != "" && (r.ID != "" || len(list) == 1) {
			m.Key = streams.Clip("otlp:"+store+":"+name, streams.MaxNameLen)
		}
		if store != "" {
			m.Source = streams.Clip("otlp:"+store, streams.MaxNameLen)
		}
		out = append(out, Event{streams.KindMem, origin, m})
	}
	return out, ""
}
