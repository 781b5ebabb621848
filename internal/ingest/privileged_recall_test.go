package ingest

import (
	"strings"
	"testing"
	"time"

	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestAPrivilegedRecallShowsWhatNobodyIsServedAndSaysSoInTheLedger stores beliefs that are quarantined, secret, or of
// another user. A normal recall must show none of them. A privileged recall with an auditor's key must show all, in an
// entry that names the signer and the reason. Another key must be refused.
func TestAPrivilegedRecallShowsWhatNobodyIsServedAndSaysSoInTheLedger(t *testing.T) {
	h := newHouse(t, offline(t))
	s := h.pin()
	bad := h.remember(beliefs.OriginUser, mem("m1", "The vault code is 1111"))
	h.alert(bad, "quarantine")
	secret := h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m2"},
		Content: "The vault code is 2222", Sensitivity: beliefs.Secret})
	bob := h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m3", User: "bob"},
		Content: "The vault code is 3333", Scope: streams.ScopeUser})
	if e := h.say(streams.KindRecall, "", &streams.Recall{Head: streams.Head{ID: "r1", Session: "s2"},
		Query: "vault code"}).(*streams.RecallEntry); len(e.Admitted)+len(e.ContextOnly) != 0 {
		t.Fatalf("a normal recall serves the hidden beliefs: %+v", e)
	}
	ask := func() *approval.Order {
		o := approval.NewOrder(approval.Disclose, "demo", h.now, time.Hour)
		o.Reason, o.Recall = "case 7", &approval.Recall{Query: "vault code", Beliefs: []string{"bnobody"}}
		return o
	}
	if e, ok := h.order(ask(), s.probe).(*streams.OrderEntry); !ok || e.Check != string(approval.CheckRole) {
		t.Errorf("with the key of a probe: %+v, want a refusal for its role", e)
	}
	if e, ok := h.order(ask(), s.stranger).(*streams.OrderEntry); !ok || e.Check != string(approval.CheckUnpinned) {
		t.Errorf("with an unpinned key: %+v, want a refusal", e)
	}
	o := ask()
	e, ok := h.order(o, s.auditor).(*streams.DisclosureEntry)
	if !ok || !e.Privileged || e.Signed.Signer != "auditor" || e.Text != "case 7" || len(e.Refused) != 1 ||
		e.Refused[0].Reason != beliefs.ReasonUnknown {
		t.Fatalf("the privileged recall is recorded as %+v", e)
	}
	shown := map[string]string{}
	for _, it := range e.Admitted {
		shown[it.ID] = it.Content
		if it.Scope != beliefs.ContextOnly {
			t.Errorf("%s may be used for %s", it.ID, it.Scope)
		}
	}
	if len(shown) != 3 || shown[bad] != "The vault code is 1111" || shown[secret] != "The vault code is 2222" ||
		shown[bob] != "The vault code is 3333" {
		t.Errorf("the privileged recall shows %+v, want three codes", shown)
	}
	if e, ok := h.order(o, s.auditor).(*streams.OrderEntry); !ok || e.Check != string(approval.CheckReplayed) {
		t.Errorf("the same order again: %+v, want a refusal", e)
	}
}

func TestAPrivilegedLookIsRecordedAndChangesNoState(t *testing.T) {
	h := newHouse(t, offline(t))
	look := func(project string, l *streams.Look) any {
		return h.control(&streams.Control{ID: "look1", Project: project, Look: l})
	}
	before, err := h.f.clock(h.st, streams.SystemProject)
	if err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Hour)
	good := &streams.Look{By: "sam", Login: "abc", Page: "/holds", Path: "/holds", Ceiling: beliefs.Secret}
	e, ok := look("demo", good).(*streams.DisclosureEntry)
	if !ok || e.Look == nil || *e.Look != *good || e.Signed != nil || !e.Privileged {
		t.Fatalf("the look is recorded as %+v", e)
	}
	if after, err := h.f.clock(h.st, streams.SystemProject); err != nil || !after.Equal(before) {
		t.Errorf("the clock moved from %v to %v: %v", before, after, err)
	}
	for name, l := range map[string]*streams.Look{"nobody": {Page: "/"}, "no page": {By: "sam"},
		"a forged line": {By: "sam\nroot", Page: "/"}, "too long": {By: strings.Repeat("s", 300), Page: "/"}} {
		if e, ok := look("demo", l).(*streams.RejectedEntry); !ok {
			t.Errorf("a look with %s: %+v, want a rejection", name, e)
		}
	}
	if e, ok := look("another", good).(*streams.RejectedEntry); !ok {
		t.Errorf("in another partition: %+v", e)
	}
}
