package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// lazaret up removes by itself what is older than --retention, the log keeps it, and work goes on.
func TestUpWithARetentionTrimsByItself(t *testing.T) {
	long(t)
	data := filepath.Join(t.TempDir(), "data")
	if out, code := command(t, data, "up", "--retention", "10ms"); code != 1 || !strings.Contains(out, "1s at least") {
		t.Fatalf("a retention of 10 ms: exit %d: %s", code, out)
	}
	args := []string{"up", "--data", data, "--listen", freePort(t), "--retention", "2s", "--no-sync"}
	up := start(t, "lazaret is up", "lazaret", args...)
	h := newHost(t, data)
	action := &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file"}
	given := h.decide(action)
	js, err := jetstream.New(connect(t, data, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 2*time.Minute, "the proposal is removed from the ledger", func() bool {
		_, err := st.GetMsg(t.Context(), given.Proposal)
		return errors.Is(err, jetstream.ErrMsgNotFound)
	})
	if again := h.decide(action); again.Proposal != given.Proposal || again.Verdict != given.Verdict {
		t.Errorf("asked again: %+v, was %+v", again, given)
	}
	if out := must(t, data, "audit", "show", "a1"); !strings.Contains(out, "read_file") {
		t.Errorf("the log says: %s", out)
	}
	up.kill()
	must(t, data, "audit", "verify", "--offline")
}
