package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// When the ledger is full, a proposal must be answered with an error, which means hold. If the intake still has space
// for the proposal, the error is a timeout. If not, the proposal is refused.
func TestAFullLedgerIsAnErrorAndNotSilence(t *testing.T) {
	long(t)
	p := newPipeline(t, embedded.Config{Storage: wire.Storage{LedgerBytes: 48 << 20, IntakeBytes: 8 << 20},
		AnswerTimeout: 3 * time.Second})
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Fatalf("%+v", v)
	}
	// The test publishes events without asking for verdicts. The ledger fills up. Then ingest stops, and the intake
	// fills up too.
	body := strings.Repeat("The minutes of a long meeting about nothing. ", 6000)
	ledgerEnd := func() uint64 {
		st, err := p.js.Stream(p.ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.LastSeq
	}
	end, since := ledgerEnd(), time.Now()
	for i := 0; time.Since(since) < 4*time.Second; i++ {
		_, err := p.c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{Session: "s"}, Tool: "web.fetch",
			Content: fmt.Sprintf("%d %s", i, body)})
		var api *jetstream.APIError
		switch {
		case err == nil:
			since = time.Now()
		case !errors.As(err, &api):
			t.Fatal(err)
		default:
			// Go on until the ledger has not grown for some time, because only then the refusals are permanent.
			if now := ledgerEnd(); now != end {
				end, since = now, time.Now()
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, c := range []struct {
		id   string
		body string
		want []streams.Code // which one depends on the remaining space
	}{
		{"small", "x", []streams.Code{streams.CodeTimeout, streams.CodeIntakeFull}},
		{"large", body, []streams.Code{streams.CodeIntakeFull}},
	} {
		for range 2 { // a repeat with the same id must have the same result
			_, err := p.c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: c.id, Session: "s"}, Tool: "read_file",
				Args: fmt.Appendf(nil, `{"path":%q}`, c.body)})
			var le *client.Error
			if !errors.As(err, &le) || le.Code != c.want[0] && le.Code != c.want[len(c.want)-1] {
				t.Errorf("%s: %v, want one of %v", c.id, err, c.want)
			}
		}
	}
	m, err := p.agent.Request("lz.svc.decide.demo.agent",
		fmt.Appendf(nil, `{"id":"raw","tool":"read_file","args":{"path":%q}}`, body), 20*time.Second)
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != string(streams.CodeIntakeFull) ||
		!strings.Contains(string(m.Data), `"verdict":"hold"`) {
		t.Errorf("the raw answer is %v, %v", m, err)
	}
}
