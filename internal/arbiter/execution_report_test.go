package arbiter

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A release allows one execution. A second execution, or the execution of something else under the
// action's id, is an incident.
func TestPromiseA11ASecondExecutionOfOneReleaseIsAnIncident(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	v := b.hold("a1")
	b.resolve(v.Hold.ID, b.sign(b.statement(v), who.alice))
	n := 0
	report := func(action, status, digest string) string {
		n++
		out := b.ingest(streams.TypeOutcome, &streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("o", n),
			Agent:   "agent",
			Session: "s"}, Outcome: beliefs.Outcome{Action: action, Status: status, Digest: digest}})
		if out == nil {
			return ""
		}
		return string(out.Body)
	}
	for _, c := range []struct{ action, status, digest, rule string }{
		{"a1", "skipped", v.Digest, ""},
		{"a1", "ok", v.Digest, ""},
		{"a1", "skipped", v.Digest, ""},
		{"a1", "ok", v.Digest, "outcome-repeated"},
		{"a1", "error", "", "outcome-repeated"},
		{"a1", "ok", "sha256:other", "outcome-mismatch"},
		{"a1", "success", v.Digest, "outcome-repeated"}, // a status of old ledgers
	} {
		said := report(c.action, c.status, c.digest)
		if (c.rule == "") != (said == "") || !strings.Contains(said, c.rule) {
			t.Errorf("%s of %s with %q: %s", c.status, c.action, c.digest, said)
		}
	}
	// An executor reports a held action with an unusual status, or none. Each counts as an execution, and makes an
	// alert.
	held := b.hold("a3")
	for _, status := range []string{"success", "OK", "done", ""} {
		if said := report("a3", status, held.Digest); !strings.Contains(said, "outcome-unreleased") {
			t.Errorf("%q of a held action: %q", status, said)
		}
	}
	// The same action, proposed and released under a new id, may be carried out once.
	next := b.hold("a2")
	b.resolve(next.Hold.ID, b.sign(b.statement(next), who.alice))
	if said := report("a2", "ok", next.Digest); said != "" {
		t.Errorf("the first execution of a2: %s", said)
	}
	b.replayed()
}
