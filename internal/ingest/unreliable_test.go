package ingest

import (
	"slices"
	"strings"
	"testing"

	"lazaret/internal/activation"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// dependants lets ingest write its pending entries, and returns the dependants that they name.
func (h *house) dependants() (out []beliefs.Dependant) {
	h.t.Helper()
	from := len(h.ledger)
	h.followUps()
	for _, e := range h.ledger[from:] {
		if e.Type != streams.TypeRevision {
			continue
		}
		r := new(streams.RevisionsEntry)
		if err := streams.Unmarshal(e.Body, r); err != nil {
			h.t.Fatal(err)
		}
		out = append(out, r.Dependants...)
	}
	return out
}

// TestWhatCitesABeliefThatFallsIsFlagged makes beliefs unreliable in four ways: one is contradicted by the user, one
// superseded, one quarantined by a sentinel, one rejected by a person. Each time, an entry must list the decision that
// cites the belief, and the action that cites the decision.
func TestWhatCitesABeliefThatFallsIsFlagged(t *testing.T) {
	h := newHouse(t, offline(t))
	h.keep = true
	s := h.pin()
	for _, c := range []struct {
		how  string
		fall func(id string)
		why  string
	}{
		{"contradicted", func(string) {
			h.remember(beliefs.OriginUser, mem("user1", "the depot", triple("depot", "gate", "nine")))
		}, "contradicted by "},
		{"superseded", func(string) {
			h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "user2"}, Key: "size",
				Content: "My size is 12"})
		}, "superseded by "},
		{"found", func(id string) { h.alert(id, "quarantine") }, "it is quarantined"},
		{"rejected", func(id string) { h.word(h.statement(id, approval.RejectBelief), s.alice) }, "it is quarantined"},
	} {
		m, origin := mem(c.how, "the depot", triple("depot", "gate", "four")), beliefs.OriginAgent
		if c.how == "superseded" {
			m, origin = &streams.Memory{Head: streams.Head{ID: c.how}, Key: "size", Content: "My size is 43"}, beliefs.OriginUser
		}
		if c.how == "found" || c.how == "rejected" {
			m = mem(c.how, "a fact that was "+c.how)
		}
		id := h.remember(origin, m)
		h.say(streams.KindDec, "", &streams.Decision{Head: streams.Head{ID: "d-" + c.how, Session: "s"},
			Decision: beliefs.Decision{Beliefs: []string{id}}})
		h.say(streams.KindAct, "", &streams.Action{Head: streams.Head{ID: "a-" + c.how, Session: "s"}, Tool: "read_file",
			Decision: "d-" + c.how})
		if got := h.dependants(); len(got) != 0 {
			t.Fatalf("%s: flagged before it fell: %+v", c.how, got)
		}
		c.fall(id)
		got := h.dependants()
		if len(got) != 2 || got[0].Kind != "decision" || got[0].ID != "d-"+c.how || got[1].Kind != "action" ||
			got[1].ID != "a-"+c.how {
			t.Fatalf("%s: the dependants are %+v, want a decision and an action", c.how, got)
		}
		for _, d := range got {
			if d.Belief != id || d.Agent != "agent" || !strings.HasPrefix(d.Why, c.why) || d.At.IsZero() {
				t.Errorf("%s: a dependant is %+v", c.how, d)
			}
		}
	}
}

func TestADecisionThatCitesNothingIsWhatThePolicySays(t *testing.T) {
	for uncited, want := range map[string]string{"": "finding", "alert": "finding", "allow": "entry",
		"reject": "refused"} {
		h := newHouse(t, offline(t))
		if uncited != "" {
			if err := activation.Put(h.st, streams.DoActivatePolicy, append(slices.Clone(policy.Default),
				"\ndecisions: {uncited: "+uncited+"}\n"...)); err != nil {
				t.Fatal(err)
			}
		}
		id := h.remember(beliefs.OriginUser, mem("m1", "My size is 43"))
		for what, d := range map[string]beliefs.Decision{"nothing": {Summary: "go"},
			"unknown": {Beliefs: []string{"bnobody"}}, "none": {CitesNone: true}, "one": {Beliefs: []string{id, "bnobody"}}} {
			got := ""
			switch e := h.say(streams.KindDec, "", &streams.Decision{Head: streams.Head{ID: "d-" + what, Session: "s"},
				Decision: d}).(type) {
			case *streams.DecisionEntry:
				if got = "entry"; e.Uncited != "" {
					got = "finding"
				}
			case *streams.RejectedEntry:
				if got = "refused"; e.Code != streams.CodeUncited || !strings.Contains(e.Reason, "d-"+what) {
					t.Errorf("the refusal does not name the decision: %+v", e)
				}
			}
			if bad := what == "nothing" || what == "unknown"; bad && got != want || !bad && got != "entry" {
				t.Errorf("uncited %q, a decision on %s: %s", uncited, what, got)
			}
		}
		if e, ok := h.say(streams.KindDec, "", &streams.Decision{Head: streams.Head{ID: "d-both"},
			Decision: beliefs.Decision{CitesNone: true, Beliefs: []string{id}}}).(*streams.RejectedEntry); !ok ||
			e.Code != streams.CodeInvalid {
			t.Errorf("a decision that cites and says that it cites none: %+v", e)
		}
	}
	if _, err := policy.Compile("p", append(slices.Clone(policy.Default),
		"\ndecisions: {uncited: deny}\n"...)); err == nil {
		t.Error("a policy with an unknown word is taken")
	}
}
