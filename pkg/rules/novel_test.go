package rules_test

import (
	"slices"
	"testing"

	"lazaret/pkg/rules/ruletest"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// The first proposal to a receiver is held and expires, and a later one is approved. From then on, the receiver must
// not count as new.
func TestAReceiverOfAnApprovedActionIsNotNew(t *testing.T) {
	ev := evaluator(t, map[string]string{
		"p/pack.yaml": "name: p\ntitle: T\n",
		"p/r.yaml":    head + "    on: [action]\n    when: signal.novel.size() > 0\n    effect: hold\n    on_error: hold\n"})
	es, err := ruletest.Events("e.yaml", []byte(`
- action: {tool: send, args: {to: drop@out.example}}
- action: {tool: send, args: {to: drop@out.example, text: again}}
- action: {tool: send, args: {to: drop@out.example, text: once more}}
- action: {tool: send, args: {to: drop@out.example, text: and more}}
`))
	if err != nil {
		t.Fatal(err)
	}
	st := index.NewMemStore()
	hear := func(e *streams.Entry, v streams.Verdict) {
		a, err := streams.Read[streams.ActionEntry](e)
		if err != nil {
			t.Fatal(err)
		}
		if err := ev.Heard(st, e.Project, &streams.VerdictEntry{Type: e.Type, ID: a.ID, Agent: a.Agent,
			Session: a.Session, Verdict: v}); err != nil {
			t.Fatal(err)
		}
	}
	var got []streams.Verdict
	for i, e := range es {
		res, err := ev.Eval(st, e)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, res.Verdict); res.Verdict != streams.Allow {
			hear(e, res.Verdict)
		}
		if i == 2 {
			hear(e, streams.Allow) // a person's approval
		}
		*st.Memo() = nil // as after a restart
	}
	if !slices.Equal(got, []streams.Verdict{streams.Hold, streams.Hold, streams.Hold, streams.Allow}) {
		t.Error(got)
	}
}
