package console

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lazaret/pkg/approval"
	"lazaret/streams"
)

// listSession is a recorded session. In it, the user names a list, and the agent does what the list says.
const listSession = `{"session_id": "list", "steps": [
{"kind": "user", "content": "Please do what the list in errands.md says."},
{"kind": "action", "tool": "read_file", "args": {"path": "errands.md"}, "call_id": "c1"},
{"kind": "tool_result", "tool": "read_file", "call_id": "c1", "content": "Errands\n- Send lena@bakery.example a mail about the bread\n- Send omar@florist.example a mail about the <b>flowers</b>\n"},
{"kind": "action", "tool": "send_email", "args": {"to": "lena@bakery.example", "subject": "the bread"}, "call_id": "c2"}]}`

// An approver sees in Chromium the list whose instructions a held action follows. One signature with a passkey must
// approve the hold and the list. The signed statement must have the digest of the text on the page.
func TestAPasskeyApprovesTheSourceThatThePageShows(t *testing.T) {
	long(t)
	b := newBrowser(t)
	authenticator(t, b)
	b.open(t, link(t, User{Name: "lister", Role: RoleApprover}))
	trust := registerPasskey(t, b, "lister")
	var line []byte
	for _, c := range []byte(listSession) {
		if c != '\n' {
			line = append(line, c)
		}
	}
	project, hold := playAs(t, "list", line)
	b.open(t, "/holds/"+project+"/"+hold)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#sign button[value=approve]:not([disabled])")))
	if n := eval[int](t, b, `document.querySelectorAll(".reasons mark").length`); n != 1 {
		t.Errorf("%d lines are marked as those of the action, want 1", n)
	}
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	eval[bool](t, b, `document.querySelector("#sign [name=source]").click(), document.querySelector("#sign button[value=approve]").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signing[data-state], #signing.bad")))
	if said := eval[string](t, b,
		`document.querySelector("#signing").dataset.state || document.querySelector("#signing").textContent`); said != streams.HoldApproved {
		t.Fatalf("the page says %q", said)
	}
	s, err := approval.Open([]byte(resolution(t, project, hold)), trust)
	if err != nil || !s.Passkey || s.Source == nil || s.Source.Session == "" || s.Source.Actions != 20 {
		t.Fatalf("%+v, %v", s, err)
	}
	b.open(t, "/holds/"+project+"/"+hold)
	if n := eval[int](t, b, `document.querySelectorAll("#sign [name=source]").length`); n != 0 {
		t.Errorf("an approved source is offered %d times", n)
	}
	if !testing.Short() {
		verifyEvidence(t, project) // it builds two programs; in a short run, tests of internal/e2e verify evidence
	}
}
