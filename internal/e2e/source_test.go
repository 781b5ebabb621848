package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// errands is a list with four messages to send and a payment. The user asks the agent to do what it says.
const errands = `Errands for Monday
- Send lena@bakery.example a mail about the bread for the offsite
- Send omar@florist.example a mail about the flowers for the offsite
- Send ines@printer.example a mail about the badges for the offsite
- Send karl@caterer.example a mail about the soup for the offsite
- Pay the deposit of the hall, 400 EUR
`

// delegating is a pipeline in which the user has asked the agent to do what a list says.
type delegating struct {
	*approving
	session string
	again   int // number of times that the list was read again
}

func newDelegating(t *testing.T) *delegating {
	p := &delegating{newApproving(t, embedded.Config{}), "s", 0}
	return p
}

// read publishes the user's request to do what the list says. Then it publishes the list as content that the agent
// reads.
func (p *delegating) read(session, list string) {
	p.t.Helper()
	p.session = session
	p.tell(beliefs.OriginUser, &streams.Observation{Head: p.head("u"),
		Content: "Please do what the list in errands.md says."})
	if v := p.act("r", "read_file", `{"path":"errands.md"}`); v.Verdict != streams.Allow {
		p.t.Fatalf("%+v", v)
	}
	p.tell(beliefs.OriginTool, &streams.Observation{Head: p.head("o"), Tool: "read_file",
		Source: "errands.md", Args: jsontext.Value(`{"path":"errands.md"}`), Content: list})
}

func (p *delegating) tell(origin beliefs.Origin, o *streams.Observation) {
	p.t.Helper()
	if _, err := p.c.Publish(p.ctx, streams.KindObs, origin, o); err != nil {
		p.t.Fatal(err)
	}
}

func (p *delegating) head(id string) streams.Head {
	return streams.Head{ID: fmt.Sprint(id, "-", p.session, "-", p.again), Session: p.session}
}

func (p *delegating) act(id, tool, args string) *streams.VerdictEntry {
	p.t.Helper()
	return p.decide(&streams.Action{Head: p.head(id), Tool: tool, Args: jsontext.Value(args)})
}

// mail proposes one of the messages on the list: a mail to one person about one thing.
func (p *delegating) mail(id, to, about string) *streams.VerdictEntry {
	p.t.Helper()
	return p.act(id, "send_email", fmt.Sprintf(`{"to":%q,"subject":%q}`, to, about))
}

// approveSource returns a statement that approves a hold and also the source of the held action.
func (p *delegating) approveSource(v *streams.VerdictEntry) *approval.Statement {
	p.t.Helper()
	if len(v.Sources) != 1 {
		p.t.Fatalf("the hold follows %d sources: %+v", len(v.Sources), v)
	}
	s := statementOn(v)
	s.Source = &approval.Source{Digest: v.Sources[0].Digest, Session: v.Session, Actions: 10,
		Expires: time.Now().UTC().Add(time.Hour).Truncate(time.Second)}
	return s
}

func TestASourceIsApprovedOnceAndItsOtherStepsAreNotHeld(t *testing.T) {
	p := newDelegating(t)
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	p.read("s1", errands)
	first := p.mail("a1", "lena@bakery.example", "bread for the offsite")
	if first.Verdict != streams.Hold {
		t.Fatalf("%+v", first)
	}
	shown := p.hold(first.Hold.ID)
	if len(shown.Sources) != 1 || shown.Sources[0].Missing != "" || shown.Sources[0].Source != "errands.md" {
		t.Fatalf("%+v", shown.Sources)
	}
	here, asks := 0, 0
	for _, l := range shown.Sources[0].Lines(shown.Body) {
		if l.Here {
			here++
		}
		if l.Asks {
			asks++
		}
	}
	if here != 1 || asks != 5 {
		t.Errorf("%d lines name a value of the call and %d ask for something, want 1 and 5: %+v", here, asks,
			shown.Sources[0].Texts)
	}
	rep := p.resolve(first.Hold.ID, signed(t, p.approveSource(first), alice))
	if rep.State != streams.HoldApproved {
		t.Fatalf("%+v", rep)
	}
	for i, x := range [][2]string{{"omar@florist.example", "flowers for the offsite"},
		{"ines@printer.example", "badges for the offsite"}, {"karl@caterer.example", "soup for the offsite"}} {
		v := p.mail(fmt.Sprint("b", i), x[0], x[1])
		if v.Verdict != streams.Allow || v.Covered == nil || v.Covered.Number != i+1 || v.Covered.By != "alice" ||
			v.Covered.Hold != first.Hold.ID || !has(v, streams.CodeSource) {
			t.Fatalf("%s: %+v", x[0], v)
		}
	}
	for what, v := range map[string]*streams.VerdictEntry{
		"a receiver that is not on the list": p.mail("c1", "eve@evil.example", "bread for the offsite"),
		"a subject that is not on the list":  p.mail("c2", "lena@bakery.example", "password of the safe"),
		"money":                              p.act("c3", "pay_deposit", `{"for":"deposit of the hall","amount":400}`),
	} {
		if v.Verdict == streams.Allow || v.Covered != nil {
			t.Errorf("%s: %+v", what, v)
		}
	}
	if shown := p.hold(first.Hold.ID); len(shown.Sources) != 1 || shown.Sources[0].Approved == nil ||
		shown.Sources[0].Approved.Number != 3 {
		t.Errorf("%+v", shown.Sources)
	}
	natstest.Eventually(t, time.Minute, "a log with the covered actions", func() bool {
		out, code := command(t, p.data, "audit", "verify")
		return code != 2 && strings.Contains(out, "3 actions are covered by a signed approval of their source")
	})
	// The approval counts for one session and one version of the list. In another session, or with another version, a
	// message must be held.
	p.read("s2", errands)
	if v := p.mail("d1", "omar@florist.example", "flowers for the offsite"); v.Verdict != streams.Hold {
		t.Errorf("another session: %+v", v)
	}
	p.again++
	p.read("s1", errands+"- Send ruth@tailor.example a mail about the suits\n")
	if v := p.mail("e1", "ruth@tailor.example", "the suits"); v.Verdict != streams.Hold {
		t.Errorf("another version of the list: %+v", v)
	}
}
