package notify

import (
	"testing"

	"lazaret/streams"
)

// A later finding turns an open hold into a denial. The entry of that verdict has no open hold, and no person decided.
// The hold must be notified as settled, once.
func TestAHoldThatALaterFindingDeniesIsToldAsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		verdict streams.VerdictEntry
		want    int
	}{
		"an open hold":     {streams.VerdictEntry{Verdict: streams.Deny, Late: true, Denied: "h1"}, 1},
		"a repeat of it":   {streams.VerdictEntry{Verdict: streams.Deny, Late: true, Denied: "h1", Again: true}, 0},
		"an action at all": {streams.VerdictEntry{Verdict: streams.Deny, Late: true}, 0},
	} {
		body, err := streams.Marshal(&c.verdict)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := noticesOf(&streams.Entry{Stage: streams.StageArbiter, Type: streams.TypeVerdict, Project: "acme",
			Body: body})
		if err != nil || len(ns) != c.want {
			t.Fatalf("%s: %d notices, %v", name, len(ns), err)
		}
		if c.want == 1 && (ns[0].Kind != KindSettled || ns[0].thread() != "acme/h1" || ns[0].State != streams.HoldDenied) {
			t.Errorf("%s: %+v", name, ns[0])
		}
	}
}
