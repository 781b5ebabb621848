package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// heldLetters lets an agent propose letters, which need an approval. It returns the ids of their holds.
func heldLetters(t *testing.T, project string, n int) (ids []string) {
	t.Helper()
	cl := keeper(t, project)
	for i := range n {
		rep, err := cl.Decide(t.Context(), &streams.Action{Head: streams.Head{ID: fmt.Sprintf("letter%d", i), Session: "s"},
			Tool: "GmailSendEmail", Args: []byte(fmt.Sprintf(`{"to":"dana@example.org","body":"minutes of meeting %d"}`, i))})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Entry == nil || rep.Entry.Hold == nil {
			t.Fatalf("not held: %+v", rep)
		}
		ids = append(ids, rep.Entry.Hold.ID)
	}
	shared.c.watch()
	await(t, "the holds in the index", func() bool {
		return len(shared.c.index.openHolds(func(p string) bool { return p == project })) == n
	})
	return ids
}

func TestSeveralHoldsAreSignedOneAfterTheOtherUntilTheFirstRefusal(t *testing.T) {
	long(t)
	const project = "queue"
	ids := heldLetters(t, project, 4)
	b := newBrowser(t)
	call(t, b, webauthn.Enable, webauthn.EnableParams{})
	added := call(t, b, webauthn.AddVirtualAuthenticator,
		webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: "internal", HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
	b.open(t, link(t, User{Name: "quentin", Role: RoleApprover, Ceiling: beliefs.Secret}))
	registerPasskey(t, b, "quentin")

	// The form of a group of holds must lead to a page that shows each selected hold with its whole content.
	b.open(t, "/holds?project="+project)
	eval[bool](t, b, `document.querySelector("details").open = true,
		document.querySelector('input[value="`+project+`/`+ids[3]+`"]').checked = false,
		document.querySelector('form[action="/queue"] button').click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signall button[value=approve]:not([disabled])")))
	if n := eval[int](t, b, `document.querySelectorAll("#queue [data-hold]").length`); n != 3 {
		t.Fatalf("%d holds are selected", n)
	}
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	b.shot(t, "console-queue")
	page := eval[string](t, b, `location.pathname + location.search`)

	settled := func() string {
		s := ""
		for _, id := range ids {
			h, err := shared.c.findHold(t.Context(), project, id)
			if err != nil {
				t.Fatal(err)
			}
			s += h.State + " "
		}
		return strings.TrimSpace(s)
	}
	// The page gets another revision for the second hold, as if the hold had new reasons. The arbiter must refuse this
	// signature.
	second := eval[string](t, b, `(() => { const x = document.querySelectorAll("#queue [data-hold]")[1];
		x.dataset.revision = x.dataset.revision.replace(/.$/, (c) => c === "0" ? "1" : "0"); return x.dataset.hold; })()`)
	press := func(decision string) {
		t.Helper()
		eval[bool](t, b, `document.querySelector("#signall button[value=`+decision+`]").click(), true`)
		b.run(t, chromedp.WaitReady(chromedp.CSS("#progress[data-stopped], #progress[data-finished]")))
	}
	press("approve")
	if s := eval[string](t, b, `document.querySelector("#progress").dataset.stopped`); s != second {
		t.Errorf("it stopped at %q, not at %s: %q", s, second, eval[string](t, b, `document.querySelector("#progress").textContent`))
	}
	if s := settled(); strings.Count(s, "approved") != 1 || strings.Count(s, "open") != 3 {
		t.Errorf("after the refusal the holds are %s", s)
	}

	// If the authenticator does not verify the user, the page must sign nothing.
	b.open(t, page)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signall button[value=approve]:not([disabled])")))
	call(t, b, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: added.AuthenticatorID})
	press("reject")
	if s := settled(); strings.Count(s, "open") != 3 {
		t.Errorf("without the person the holds are %s", s)
	}
	call(t, b, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: added.AuthenticatorID,
		IsUserVerified: true})
	b.open(t, page)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signall button[value=approve]:not([disabled])")))
	press("approve")
	if n := eval[string](t, b, `document.querySelector("#progress").dataset.finished || ""`); n != "2" {
		t.Errorf("%q are finished: %q", n, eval[string](t, b, `document.querySelector("#progress").textContent`))
	}
	if s := settled(); s != "approved approved approved open" {
		t.Errorf("the holds are %s", s)
	}
	// Each hold has a separate signature.
	notes := make(map[string]bool)
	for _, id := range ids[:3] {
		notes[resolution(t, project, id)] = true
	}
	if len(notes) != 3 {
		t.Errorf("%d notes", len(notes))
	}
	c := visitor(t, User{Name: "carl", Role: RoleApprover, Projects: []string{"elsewhere"}})
	if code, _ := get(t, c, page); code != 404 {
		t.Errorf("of a project that the user may not see: %d", code)
	}
	for path, want := range map[string]int{"/queue": 400, "/queue?hold=" + project + "/nope": 404, "/queue?hold=x": 404} {
		if code, _ := get(t, visitor(t, viewer), path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
}
