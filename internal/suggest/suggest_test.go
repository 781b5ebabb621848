package suggest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// ledger feeds a Seen entry by entry.
type ledger struct {
	t    *testing.T
	seen *Seen
	seq  uint64
}

func (l *ledger) add(stage string, typ streams.Type, body any) {
	l.t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	l.seq++
	if err := l.seen.Add(&streams.Entry{Seq: l.seq, Stage: stage, Type: typ, Project: "demo", Body: b}); err != nil {
		l.t.Fatal(err)
	}
}

// call adds an action as classified by the shipped policy, its verdict and outcome.
func (l *ledger) call(tool, args, rule string) {
	l.t.Helper()
	p, err := policy.Compile(policy.DefaultName, policy.Default)
	if err != nil {
		l.t.Fatal(err)
	}
	c := p.Classify(tool, []byte(args), "demo", "agent")
	id := fmt.Sprint("a", l.seq)
	l.add(streams.StageIngest, streams.TypeAction,
		&streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent"}, Args: jsontext.Value(args),
			Features: text.Analyze(args), Matched: c.Entry, Action: beliefs.Action{Tool: tool, Effects: c.Effects,
				Contract: beliefs.Contract{Level: c.Level}}})
	would := c.Floor
	v := &streams.VerdictEntry{Proposal: l.seq, Type: streams.TypeAction, ID: id, Agent: "agent", Tool: tool,
		Verdict: streams.Allow, Learn: true, Would: &would,
		Level: c.Level.String(), Reasons: c.Reasons}
	if rule != "" {
		v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Rule: rule})
	}
	l.add(streams.StageArbiter, streams.TypeVerdict, v)
	l.add(streams.StageIngest, streams.TypeOutcome, &streams.OutcomeEntry{EntryHead: streams.EntryHead{Agent: "agent"},
		Outcome: beliefs.Outcome{Action: id, Status: "ok"}})
}

func TestLevelsAreProposedFromWhatWasSeen(t *testing.T) {
	l := &ledger{t: t, seen: New()}
	for range 5 {
		l.call("sensor_fusion", `{"area":"north"}`, "")
		l.call("pager", `{"host":"https://alerts.example/x"}`, "")
		l.call("frobnicate", `{}`, "action-from-instruction")
		l.call("send_email", `{"to":"jo@corp.example"}`, "")
		l.call("read_file", `{"path":"a.txt"}`, "")
	}
	l.call("rarely", `{}`, "")
	var b strings.Builder
	if err := l.seen.Write(&b, "suggested"); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile("suggested", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]beliefs.Level{
		"sensor_fusion": beliefs.L3, // only its name was unknown
		"pager":         beliefs.L4, // it accessed a host
		"frobnicate":    beliefs.L4, // a rule objected to it
		"rarely":        beliefs.L4,
		"send_email":    beliefs.L4,
		"read_file":     beliefs.L1,
		"never_seen":    beliefs.L4,
	} {
		if c := p.Classify(tool, nil, "demo", "agent"); c.Level != want {
			t.Errorf("%s is at %s, want %s\n%s", tool, c.Level, want, b.String())
		}
	}
	if n, level, why := l.seen.Tool("sensor_fusion"); n != 5 || level != beliefs.L3 || why == "" {
		t.Errorf("%d %s %s", n, level, why)
	}
	for _, want := range []string{"L3 in place of L4", "its arguments name", "rules objected to its calls", "delegation:"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, b.String())
		}
	}
}
