package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestARunningPipelineSendsSpans starts lazaret up with a receiver of spans, and runs lazaret otel for the spans that
// lazaret up has not sent. The receiver must get spans. Their content is tested in internal/otel.
func TestARunningPipelineSendsSpans(t *testing.T) {
	long(t)
	t.Parallel()
	names := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil {
			t.Error(err)
		}
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					names <- s.Name
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer srv.Close()
	await := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-names:
				if got == want {
					return
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("no span %s", want)
			}
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	at := freePort(t)
	p := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", at, "--otlp", srv.URL)
	must(t, data, "decide", "read_file", "--args", `{"path":"notes.txt"}`)
	await("apply_guardrail lazaret")
	must(t, data, "remember", "--origin", "user", "tea without sugar")
	await("upsert_memory")
	p.interrupt()

	p = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", at)
	must(t, data, "recall", "tea")
	if out := must(t, data, "otel", "--endpoint", srv.URL, "--once"); !strings.Contains(out, "2 spans sent") {
		t.Errorf("the recall and its verdict: %s", out)
	}
	await("search_memory")
	if out := must(t, data, "otel", "--endpoint", srv.URL, "--once"); !strings.Contains(out, "0 spans sent") {
		t.Errorf("nothing new: %s", out)
	}
	if out, code := command(t, data, "otel", "--endpoint", "collector:4318"); code != 1 ||
		!strings.Contains(out, "want http://HOST:PORT") {
		t.Errorf("exit %d: %s", code, out)
	}
	p.interrupt()
}
