package otel

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// Attributes of the semantic conventions. The conventions for guardrails are still a proposal (pull request 427).
// Attributes that no convention defines start with "lazaret".
const (
	attrOperation    = "gen_ai.operation.name"
	attrProvider     = "gen_ai.provider.name"
	attrAgent        = "gen_ai.agent.name"
	attrConversation = "gen_ai.conversation.id"
	attrTool         = "gen_ai.tool.name"
	attrToolCall     = "gen_ai.tool.call.id"
	attrToolType     = "gen_ai.tool.type"
	attrToolArgs     = "gen_ai.tool.call.arguments" // only with Content
	attrToolResult   = "gen_ai.tool.call.result"    // only with Content
	attrMemoryStore  = "gen_ai.memory.store.id"     // the project
	attrMemoryRecord = "gen_ai.memory.record.id"    // a belief
	attrMemoryCount  = "gen_ai.memory.record.count"
	attrMemoryQuery  = "gen_ai.memory.query.text" // only with Content
	attrMemories     = "gen_ai.memory.records"    // only with Content
	attrErrorType    = "error.type"

	attrComponent    = "gen_ai.guardrail.component.name"
	attrPolicy       = "gen_ai.guardrail.policy.id"
	attrRule         = "gen_ai.guardrail.policy.rule.id"
	attrRuleVersion  = "gen_ai.guardrail.policy.version"
	attrResultType   = "gen_ai.guardrail.result.type"
	attrResultValue  = "gen_ai.guardrail.result.value"
	attrResultReason = "gen_ai.guardrail.result.reason"
	attrSource       = "gen_ai.guardrail.source"

	eventResult = "gen_ai.guardrail.result"

	opGuardrail    = "apply_guardrail"
	opExecuteTool  = "execute_tool"
	opSearchMemory = "search_memory"
	opUpsertMemory = "upsert_memory"

	provider   = "lazaret"
	resultType = "verdict"

	attrProject    = "lazaret.project"
	attrSeq        = "lazaret.ledger.seq" // position of the span's entry
	attrProposal   = "lazaret.proposal.seq"
	attrCommitment = "lazaret.commitment" // commitment of the proposal's leaf in the audit log, hex
	attrLevel      = "lazaret.level"
	attrClass      = "lazaret.class"
	attrRules      = "lazaret.rules.digest"
	attrHold       = "lazaret.hold.id"
	attrState      = "lazaret.hold.state"
	attrBy         = "lazaret.resolved.by"
	attrDegraded   = "lazaret.degraded"
	attrWould      = "lazaret.would"
	attrDigest     = "lazaret.action.digest"
	attrLate       = "lazaret.late"
	attrProposed   = "lazaret.proposed"
	attrRedacted   = "lazaret.redacted" // sensitivity of redacted content
	attrOrigin     = "lazaret.origin"
	attrText       = "lazaret.reason.text" // only with Content
	attrGroup      = "lazaret.group"
)

// maxText is the limit of a text attribute, in bytes.
const maxText = 8 << 10

// request identifies the trace of a request.
type request struct {
	Project string `json:"p"`
	Agent   string `json:"a"`
	Session string `json:"s,omitzero"`
	ID      string `json:"i"`
	// Parent is the request's traceparent.
	Parent string `json:"t,omitzero"`
}

// trace returns the trace's id: that of the sender's traceparent, or the first 16 bytes
// of a SHA-256 over project, agent, session and id.
func (r request) trace() []byte {
	if trace, _ := streams.ParseTraceparent(r.Parent); trace != nil {
		return trace
	}
	return r.hash("")[:16]
}

// span returns the id of the span with the name what in the request's trace.
func (r request) span(what string) []byte { return r.hash(what)[:8] }

func (r request) hash(what string) []byte {
	h := sha256.New()
	h.Write([]byte("lazaret/trace/v1"))
	for _, s := range []string{r.Project, r.Agent, r.Session, r.ID, what} {
		h.Write([]byte{0})
		h.Write([]byte(s))
	}
	return h.Sum(nil)
}

// commitment returns the commitment of the entry's leaf in the audit log: SHA-256 of salt
// and payload.
func commitment(e *streams.Entry, payload []byte) string {
	h := sha256.New()
	h.Write(e.Salt[:])
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}

// builder builds a span.
type builder struct{ *tracepb.Span }

func newSpan(r request, what, parent, name string, start, end time.Time) builder {
	if end.Before(start) {
		start = end
	}
	s := &tracepb.Span{TraceId: r.trace(), SpanId: r.span(what), Name: text.InertLine(name, 200),
		Kind: tracepb.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: uint64(start.UnixNano()),
		EndTimeUnixNano: uint64(end.UnixNano())}
	if parent != "" {
		s.ParentSpanId = r.span(parent)
	} else {
		_, s.ParentSpanId = streams.ParseTraceparent(r.Parent)
	}
	b := builder{s}
	b.str(attrProject, r.Project)
	b.str(attrAgent, r.Agent)
	b.str(attrConversation, r.Session)
	return b
}

func keyString(k, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: k,
		Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text.InertLine(v, maxText)}}}
}

func (b builder) str(k, v string) {
	if v != "" {
		b.Attributes = append(b.Attributes, keyString(k, v))
	}
}

func (b builder) strs(k string, vs []string) {
	if len(vs) == 0 {
		return
	}
	list := new(commonpb.ArrayValue)
	for _, v := range vs {
		list.Values = append(list.Values, keyString("", v).Value)
	}
	b.Attributes = append(b.Attributes,
		&commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}})
}

func (b builder) num(k string, v uint64) {
	b.Attributes = append(b.Attributes,
		&commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}})
}

func (b builder) flag(k string, v bool) {
	b.Attributes = append(b.Attributes,
		&commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}})
}

// fails sets the error status of the span.
func (b builder) fails(typ string) {
	b.str(attrErrorType, typ)
	b.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
}
