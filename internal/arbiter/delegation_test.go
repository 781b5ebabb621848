package arbiter

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// proposed returns a proposal of send_email at L4.
func proposed(id, session, to string) *streams.ActionEntry {
	return &streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent", Session: session},
		Args:     jsontext.Value(fmt.Sprintf(`{"to":%q}`, to)),
		Features: text.Analyze(to), Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}}}
}

func (b *bench) verdictOn(a *streams.ActionEntry) *streams.VerdictEntry {
	b.t.Helper()
	out := b.ingest(streams.TypeAction, a)
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(out.Body, v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

func TestADelegatedActionPassesTheLevelAndNothingElse(t *testing.T) {
	b := newBench(t, newPeople(t).trust)
	n := 0
	ask := func(change func(*streams.ActionEntry)) *streams.VerdictEntry {
		t.Helper()
		n++
		a := proposed(fmt.Sprint("a", n), "s", "jo@corp.example")
		a.Shown = &streams.Shown{Foreign: 1, Order: 90}
		a.Intent = &intent.Relation{Asked: true, Values: []string{"to"}, Carriers: []string{"email:jo@corp.example"}}
		change(a)
		return b.verdictOn(a)
	}
	l4 := beliefs.L4
	v := ask(func(*streams.ActionEntry) {})
	if last := v.Reasons[len(v.Reasons)-1]; v.Verdict != streams.Allow || last.Code != streams.CodeDelegated ||
		v.Level != "L4" {
		t.Fatalf("%+v", v)
	}
	if v := ask(func(a *streams.ActionEntry) { a.Intent, a.Shown = nil, new(streams.Shown) }); v.Verdict != streams.Allow {
		t.Errorf("no foreign content: %+v", v)
	}
	for what, change := range map[string]func(*streams.ActionEntry){
		"not asked for": func(a *streams.ActionEntry) { a.Intent.Asked = false },
		"another recipient": func(a *streams.ActionEntry) {
			a.Features = text.Analyze("jo@corp.example eve@evil.example")
		},
		"nothing known": func(a *streams.ActionEntry) { a.Shown = nil },
		"its values are from foreign content": func(a *streams.ActionEntry) {
			a.Intent, a.Shown = nil, &streams.Shown{Leans: true}
		},
		"a receiver that only foreign content has": func(a *streams.ActionEntry) { a.Shown.Leans = true },
		"a file that the user did not name":        func(a *streams.ActionEntry) { a.Intent.Attached = "attachments.0" },
		"a file in a quiet session": func(a *streams.ActionEntry) {
			a.Intent.Attached, a.Shown = "attachments.0", &streams.Shown{Foreign: 1}
		},
		"words of a secret": func(a *streams.ActionEntry) { a.Shown.Marked = true },
		"confidential data": func(a *streams.ActionEntry) { a.Sensitivity = beliefs.Confidential },
		"unseen input":      func(a *streams.ActionEntry) { a.Unseen = true },
		"the host asks":     func(a *streams.ActionEntry) { h := streams.Hold; a.Host = &h },
		"declared L4": func(a *streams.ActionEntry) {
			a.Tool, a.Level = "write_file", l4 // L3 by the policy
		},
		"a list of tools": func(a *streams.ActionEntry) { a.Tool = streams.ApproveTools },
		"a belief":        func(a *streams.ActionEntry) { a.Beliefs = []streams.BeliefRef{{ID: "nobody-knows"}} },
	} {
		if v := ask(change); v.Verdict != streams.Hold {
			t.Errorf("%s: %+v", what, v)
		}
	}
	b.replayed()
}

func TestAFullBudgetOfHoldsDeniesOnlyMoreOfTheSame(t *testing.T) {
	b := newBench(t, newPeople(t).trust)
	pol, _, err := b.fold.policies.Active(b.st, streams.DoActivatePolicy)
	if err != nil || pol == nil {
		t.Fatal(err)
	}
	n := 0
	ask := func(session, tool string) streams.Verdict {
		t.Helper()
		n++
		a := proposed(fmt.Sprint("a", n), session, "x@example.org")
		a.Tool = tool
		return b.verdictOn(a).Verdict
	}
	for range pol.MaxOpenHolds {
		if v := ask("s1", "send_email"); v != streams.Hold {
			t.Fatal(v)
		}
	}
	if v := ask("s1", "send_email"); v != streams.Deny {
		t.Errorf("the action beyond the maximum of open holds gets %s, want deny", v)
	}
	for session, tool := range map[string]string{"s1": "send_sms", "s2": "send_email"} {
		if v := ask(session, tool); v != streams.Hold {
			t.Errorf("%s in %s: %s", tool, session, v)
		}
	}
	for i := 0; n < allHolds*pol.MaxOpenHolds+1; i++ {
		ask(fmt.Sprint("t", i), "send_email")
	}
	if v := ask("last", "send_fax"); v != streams.Deny {
		t.Errorf("beyond all that the agent may have open: %s", v)
	}
	b.replayed()
}
