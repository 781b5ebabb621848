package otel

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"lazaret/client"
	"lazaret/internal/auditor"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// receiver is an OTLP receiver with the protocol of the OpenTelemetry Collector.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	away  int    // number of requests still to refuse
	bytes []byte // all request bodies as received
	spans []*tracepb.Span
	from  []string // service names
}

func newReceiver(t *testing.T, away int) *receiver {
	r := &receiver{away: away}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.away > 0 {
			r.away--
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, zerr := gzip.NewReader(bytes.NewReader(body))
			if zerr != nil {
				t.Error(zerr)
				return
			}
			body, err = io.ReadAll(z)
		}
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %q: %v", req.Method, req.URL, req.Header.Get("Content-Type"), err)
		}
		r.bytes = append(r.bytes, body...)
		for _, rs := range m.ResourceSpans {
			r.from = append(r.from, attr(rs.Resource.Attributes, "service.name"))
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func attr(kvs []*commonpb.KeyValue, key string) string {
	for _, kv := range kvs {
		if kv.Key != key {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			return fmt.Sprint(v.BoolValue)
		}
	}
	return ""
}

// shape formats a span as one line, for messages and comparisons.
func shape(s *tracepb.Span) string {
	out := fmt.Sprintf("%x/%x<%x %s", s.TraceId, s.SpanId, s.ParentSpanId, s.Name)
	for _, kv := range s.Attributes {
		out += fmt.Sprintf(" %s=%s", kv.Key, attr(s.Attributes, kv.Key))
	}
	return fmt.Sprintf("%s %d-%d %v", out, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Status)
}

func (r *receiver) shapes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, s := range r.spans {
		out = append(out, shape(s))
	}
	slices.Sort(out)
	return out
}

// one returns the span with a name and an attribute.
func (r *receiver) one(t *testing.T, name, key, value string) *tracepb.Span {
	t.Helper()
	var found *tracepb.Span
	for _, s := range r.spans {
		if s.Name == name && attr(s.Attributes, key) == value {
			if found != nil {
				t.Errorf("there are two spans %s with %s=%s", name, key, value)
			}
			found = s
		}
	}
	if found == nil {
		t.Fatalf("no span %s with %s=%s in\n%s", name, key, value, strings.Join(r.shapes(), "\n"))
	}
	return found
}

const secret = "the vault code of the north door is blue heron seven"

// play plays a session with every kind of event in two projects.
func play(t *testing.T, p *embedded.Pipeline, project string) {
	t.Helper()
	ctx := context.Background()
	creds, err := p.Server.Minter().Agent(natsserver.Agent{Project: project, Name: "ana", Origins: beliefs.Origins()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(natsserver.AgentInbox(project, "ana")))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, project, "ana")
	if err != nil {
		t.Fatal(err)
	}
	head := func(id string) streams.Head { return streams.Head{ID: id, Session: "s1"} }
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Remember(ctx, beliefs.OriginUser, &streams.Memory{Head: head("m1"), Key: "vault", Content: secret,
		Sensitivity: beliefs.Secret}))
	must(c.Remember(ctx, beliefs.OriginUser, &streams.Memory{Head: head("m2"), Key: "tea",
		Content: "I take tea without sugar"}))
	must(c.Recall(ctx, &streams.Recall{Head: head("r1"), Query: "tea sugar"}))
	must(c.Observe(ctx, beliefs.OriginWeb, &streams.Observation{Head: head("o1"), Tool: "web.fetch", Call: "c1",
		Content: "a page about kettles"}))
	read := &streams.Action{Head: head("a1"), Tool: "read_file", Args: []byte(`{"path":"kettles.txt"}`)}
	rep, err := c.Decide(ctx, read)
	must(nil, err)
	must(c.Observe(ctx, beliefs.OriginTool, &streams.Observation{Head: head("o2"), Tool: "read_file", Call: "a1",
		Content: "kettles boil"}))
	must(c.Executed(ctx, read, rep, "error"))
	silent := &streams.Action{Head: head("a2"), Tool: "list_files", Args: []byte(`{}`)}
	must(c.Decide(ctx, silent))
	must(c.Observe(ctx, beliefs.OriginTool, &streams.Observation{Head: head("o3"), Tool: "list_files", Call: "a2",
		Content: "two files"}))
	must(c.Decide(ctx, &streams.Action{Head: head("a3"), Tool: "send_email",
		Args: []byte(`{"to":"bob@example.org","body":"` + secret + `"}`)}))
}

func start(t *testing.T) *embedded.Pipeline {
	t.Helper()
	p, err := embedded.Start(context.Background(), embedded.Config{Data: t.TempDir(), Listen: "127.0.0.1:0",
		NoSync: true, Policy: policy.Default})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// send sends the spans of the current ledger.
func send(t *testing.T, p *embedded.Pipeline, r *receiver, o Options, state string) {
	t.Helper()
	nc, err := p.Server.Connect(natsserver.RoleViewer)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := NewClient(r.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	res, err := NewResource(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := Run(ctx, Config{Options: o, Conn: nc, Client: c, State: state, All: true, Once: true,
		Resource: res}); err != nil {
		t.Fatal(err)
	}
}

// TestTheLedgerBecomesSpans plays a session through a pipeline and decodes what an OTLP receiver gets.
func TestTheLedgerBecomesSpans(t *testing.T) {
	p := start(t)
	play(t, p, "demo")
	play(t, p, "syn-x")
	state := filepath.Join(t.TempDir(), "otel.json")
	r := newReceiver(t, 2)
	send(t, p, r, Options{Content: true}, state)

	if !slices.Equal(slices.Compact(r.from), []string{"lazaret"}) {
		t.Errorf("sent by %v", r.from)
	}
	verdict := r.one(t, "apply_guardrail lazaret", attrToolCall, "a1")
	for key, want := range map[string]string{attrOperation: "apply_guardrail", attrResultType: "verdict",
		attrResultValue: "allow", attrSource: "tool_input", attrTool: "read_file",
		attrAgent: "ana", attrConversation: "s1", attrProject: "demo", attrLevel: "L1",
		attrToolArgs: `{"path":"kettles.txt"}`} {
		if got := attr(verdict.Attributes, key); got != want {
			t.Errorf("the verdict's %s is %q, want %q", key, got, want)
		}
	}
	run := r.one(t, "execute_tool read_file", attrToolCall, "a1")
	if !bytes.Equal(run.ParentSpanId, verdict.SpanId) || !bytes.Equal(run.TraceId, verdict.TraceId) ||
		len(verdict.ParentSpanId) != 0 ||
		attr(run.Attributes, attrErrorType) != "tool_error" || run.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
		attr(run.Attributes, attrProposed) != "true" {
		t.Errorf("the execution is %s\nbelow %s", shape(run), shape(verdict))
	}
	if got := r.one(t, "execute_tool list_files", attrToolCall, "a2"); attr(got.Attributes,
		attrToolResult) != "two files" || attr(got.Attributes, attrProposed) != "true" {
		t.Errorf("the execution with a result and no outcome is %s", shape(got))
	}
	if got := r.one(t, "execute_tool web.fetch", attrToolCall, "c1"); attr(got.Attributes, attrProposed) != "false" ||
		len(got.ParentSpanId) != 0 {
		t.Errorf("the execution that was not proposed is %s", shape(got))
	}
	held := r.one(t, "apply_guardrail lazaret", attrToolCall, "a3")
	if attr(held.Attributes, attrResultValue) != "hold" || attr(held.Attributes, attrHold) == "" ||
		attr(held.Attributes, attrRedacted) != "secret" ||
		attr(held.Attributes, attrToolArgs) != "" || len(attr(held.Attributes, attrCommitment)) != 64 ||
		len(held.Events) == 0 || attr(held.Events[0].Attributes, attrText) != "" {
		t.Errorf("the held action is %s", shape(held))
	}
	wrote := r.one(t, "upsert_memory", attrRedacted, "")
	if attr(wrote.Attributes, attrMemoryStore) != "demo" || !strings.Contains(attr(wrote.Attributes, attrMemories),
		"tea without sugar") || attr(wrote.Attributes, attrMemoryRecord) == "" {
		t.Errorf("the memory write is %s", shape(wrote))
	}
	r.one(t, "upsert_memory", attrRedacted, "secret")
	op, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	var log auditor.Answer
	if err := query.Ask(context.Background(), op, auditor.AskAudit, 0, auditor.Request{Do: "list", To: 1000},
		&log); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(log.Leaves, func(l auditor.Leaf) bool {
		return l.Commitment == attr(held.Attributes, attrCommitment) && fmt.Sprint(l.Seq) == attr(held.Attributes,
			attrProposal)
	}) {
		t.Errorf("no leaf of the log has the commitment in %s", shape(held))
	}
	found := r.one(t, "search_memory", attrMemoryQuery, "tea sugar")
	if attr(found.Attributes, attrMemoryCount) != "1" {
		t.Errorf("the recall is %s", shape(found))
	}
	for _, s := range r.spans {
		if attr(s.Attributes, attrProject) != "demo" {
			t.Errorf("a span of a synthetic project was sent: %s", shape(s))
		}
		if s.StartTimeUnixNano > s.EndTimeUnixNano || time.Since(time.Unix(0, int64(s.StartTimeUnixNano))) > time.Hour {
			t.Errorf("its times are wrong: %s", shape(s))
		}
	}
	for _, part := range []string{secret, "blue heron", "vault"} {
		if bytes.Contains(r.bytes, []byte(part)) {
			t.Errorf("%q was exported", part)
		}
	}

	// The same ledger gives the same spans; sent spans are not sent again.
	again := newReceiver(t, 0)
	send(t, p, again, Options{Content: true}, "")
	if a, b := r.shapes(), again.shapes(); !slices.Equal(a, b) {
		t.Errorf("the second export has the spans\n%s\nthe first had\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	rest := newReceiver(t, 0)
	send(t, p, rest, Options{Content: true}, state)
	if len(rest.spans) != 0 {
		t.Errorf("%d spans are sent again", len(rest.spans))
	}

	// With the highest ceiling, and without content.
	all := newReceiver(t, 0)
	send(t, p, all, Options{Content: true, Ceiling: beliefs.Secret}, "")
	if !bytes.Contains(all.bytes, []byte(secret)) {
		t.Error("with the ceiling secret, the secret text is not exported")
	}
	names := newReceiver(t, 0)
	send(t, p, names, Options{Ceiling: beliefs.Secret}, "")
	for _, part := range []string{secret, "kettles.txt", "tea", "two files", "bob@example.org"} {
		if bytes.Contains(names.bytes, []byte(part)) {
			t.Errorf("without Content, %q was exported", part)
		}
	}
	only := newReceiver(t, 0)
	send(t, p, only, Options{Project: "syn-x"}, "")
	if len(only.spans) != len(r.spans) {
		t.Errorf("of the synthetic project that is named there are %d spans, want %d", len(only.spans), len(r.spans))
	}
}

func TestAnEndpointSaysWhatItIs(t *testing.T) {
	for in, ok := range map[[2]string]bool{{"http://x:4318", ""}: true, {"https://x:4317", "grpc"}: true, {"", ""}: true,
		{"x:4318", ""}: false, {"http://", ""}: false, {"ftp://x", ""}: false, {"http://x", "http/json"}: false} {
		if _, err := NewClient(in[0], in[1]); (err == nil) != ok {
			t.Errorf("%v: %v", in, err)
		}
	}
}

// grpcReceiver is an OTLP receiver over gRPC.
type grpcReceiver struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (g *grpcReceiver) Export(_ context.Context,
	m *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	g.got <- m
	return new(collector.ExportTraceServiceResponse), nil
}

func TestSpansGoOverGRPCToo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, g := grpc.NewServer(), &grpcReceiver{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	collector.RegisterTraceServiceServer(srv, g)
	go srv.Serve(l)
	defer srv.Stop()
	c, err := NewClient("http://"+l.Addr().String(), ProtocolGRPC)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	s := newSpan(request{Project: "p", ID: "a"}, "verdict", "", "apply_guardrail lazaret", time.Now(), time.Now())
	if err := c.UploadTraces(ctx,
		[]*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{s.Span}}}}}); err != nil {
		t.Fatal(err)
	}
	if got := <-g.got; len(got.ResourceSpans) != 1 || got.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != s.Name {
		t.Errorf("%v", got)
	}
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestSpansJoinTheTraceOfTheSender sends a traceparent with a proposal, with its outcome, and with an observation
// without a proposal. Their spans must belong to the trace of the traceparent.
func TestSpansJoinTheTraceOfTheSender(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentials(natsserver.CredsFile(data, "agent")),
		nats.CustomInboxPrefix(natsserver.AgentInbox("demo", "agent")))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ctx := client.WithTraceparent(t.Context(), "00-"+trace+"-"+parent+"-01")
	act := &streams.Action{Head: streams.Head{ID: "a1", Session: "s1"}, Tool: "read_file",
		Args: []byte(`{"path":"notes.txt"}`)}
	rep, err := c.Decide(ctx, act)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Executed(t.Context(), act, rep, "ok"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(ctx, beliefs.OriginWeb, &streams.Observation{Head: streams.Head{ID: "o1", Session: "s1"},
		Tool: "web.fetch", Call: "c1", Content: "a page"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(client.WithTraceparent(t.Context(), "00-"+strings.ToUpper(trace)+"-"+parent+"-01"),
		beliefs.OriginWeb,
		&streams.Observation{Head: streams.Head{ID: "o2", Session: "s1"}, Tool: "web.fetch", Call: "c2",
			Content: "another page"}); err != nil {
		t.Fatal(err)
	}
	// The same event with another trace is still a repeat.
	if rep, err := c.Submit(t.Context(), beliefs.OriginWeb,
		&streams.Observation{Head: streams.Head{ID: "o1", Session: "s1"}, Tool: "web.fetch", Call: "c1",
			Content: "a page"}); err != nil || !rep.Repeat {
		t.Errorf("sent again: %+v, %v", rep, err)
	}
	r := newReceiver(t, 0)
	send(t, p, r, Options{}, filepath.Join(t.TempDir(), "otel.json"))
	verdict := r.one(t, "apply_guardrail lazaret", attrToolCall, "a1")
	run := r.one(t, "execute_tool read_file", attrToolCall, "a1")
	read := r.one(t, "execute_tool web.fetch", attrToolCall, "c1")
	for what, got := range map[string]string{
		"verdict":     fmt.Sprintf("%x<%x", verdict.TraceId, verdict.ParentSpanId),
		"observation": fmt.Sprintf("%x<%x", read.TraceId, read.ParentSpanId),
	} {
		if got != trace+"<"+parent {
			t.Errorf("the span of the %s is %s", what, got)
		}
	}
	if fmt.Sprintf("%x", run.TraceId) != trace || !bytes.Equal(run.ParentSpanId, verdict.SpanId) {
		t.Errorf("the execution is %s\nbelow %s", shape(run), shape(verdict))
	}
	if odd := r.one(t, "execute_tool web.fetch", attrToolCall, "c2"); fmt.Sprintf("%x", odd.TraceId) == trace ||
		len(odd.ParentSpanId) != 0 {
		t.Errorf("a traceparent that is not valid made %s", shape(odd))
	}
}
