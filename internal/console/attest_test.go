package console

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/internal/wire"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// beliefsOf lists the beliefs of a project.
func beliefsOf(t *testing.T, project string) []ingest.Belief {
	t.Helper()
	var ans ingest.BeliefsAnswer
	if err := query.Ask(t.Context(), shared.nc, ingest.AskBeliefs, streams.PartitionOf(project),
		ingest.BeliefsRequest{Project: project}, &ans); err != nil {
		t.Fatal(err)
	}
	return ans.Beliefs
}

// attestations returns the signed attestations of a project's beliefs that are in the ledger.
func attestations(t *testing.T, project string) (notes []string) {
	t.Helper()
	r := &wire.Reader{Conn: shared.nc}
	list, err := r.After(t.Context(), 0)
	for ; err == nil && len(list) > 0; list, err = r.After(t.Context(), list[len(list)-1].Seq) {
		for _, e := range list {
			if e.Type != streams.TypeConfirmation || e.Project != project {
				continue
			}
			c, err := streams.Read[streams.ConfirmationEntry](e)
			if err != nil {
				t.Fatal(err)
			}
			notes = append(notes, c.Note)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

func TestABeliefIsAttestedWithAPasskey(t *testing.T) {
	long(t)
	const project = "attested"
	cl := keeper(t, project)
	for _, m := range []*streams.Memory{
		{Head: streams.Head{ID: "m1", Session: "s"}, Key: "office", Content: "The office moved to\u202e Basel in March"},
		{Head: streams.Head{ID: "m2", Session: "s"}, Key: "vault", Content: "The code of the vault is 7741",
			Sensitivity: beliefs.Secret},
		{Head: streams.Head{ID: "m3", Session: "s"}, Key: "pay", Content: "Pay with card 4111 1111 1111 1111"},
	} {
		if _, err := cl.Remember(t.Context(), beliefs.OriginWeb, m); err != nil {
			t.Fatal(err)
		}
	}
	find := func(key string) *ingest.Belief {
		t.Helper()
		for _, b := range beliefsOf(t, project) {
			if b.Key == key {
				return &b
			}
		}
		t.Fatalf("no belief %s", key)
		return nil
	}
	b := newBrowser(t)
	authenticator(t, b)
	b.open(t, link(t, User{Name: "astrid", Role: RoleApprover, Ceiling: beliefs.Secret}))
	trust := registerPasskey(t, b, "astrid")
	path := "/beliefs/" + project + "/" + find("office").ID
	press := func(decision string) string {
		t.Helper()
		b.open(t, path)
		b.run(t, chromedp.WaitReady(chromedp.CSS("#attest button[value="+decision+"]:not([disabled])")))
		if bad := b.axe(t); bad != "" {
			t.Error(bad)
		}
		eval[bool](t, b, `document.querySelector("#attest input[name=reason]").value = "looked it up",
			document.querySelector("#attest button[value=`+decision+`]").click(), true`)
		b.run(t, chromedp.WaitReady(chromedp.CSS("#attesting[data-state], #attesting.bad")))
		return eval[string](t, b, `document.querySelector("#attesting").dataset.state ||
			document.querySelector("#attesting").textContent`)
	}
	if s := press("confirm"); s != "confirm" {
		t.Fatalf("the page says %q", s)
	}
	if x := find("office"); x.Axes.Truth != beliefs.Supported || x.Signed != "astrid" {
		t.Errorf("after the confirmation: %+v", x)
	}
	if s := press("quarantine"); find("office").Axes.Security != beliefs.Quarantined {
		t.Errorf("after the quarantine, %q: %+v", s, find("office").Axes)
	}
	// A confirmation on the page must clear the findings that the page shows.
	path = "/beliefs/" + project + "/" + find("pay").ID
	if s := press("confirm"); s != "confirm" {
		t.Errorf("a belief with a finding: the page says %q", s)
	}
	// The text on the page is changed before the user signs. The page must refuse to sign, because the shown text is
	// not that of the belief.
	b.open(t, "/beliefs/"+project+"/"+find("vault").ID)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#attest button[value=confirm]:not([disabled])")))
	eval[bool](t, b, `document.querySelector('[data-f="content"]').textContent = "The code is 1234",
		document.querySelector("#attest button[value=confirm]").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#attesting.bad")))
	if x := find("vault"); x.Signed != "" {
		t.Errorf("another text was shown, and it is signed: %+v", x)
	}
	// The attestations must be in the ledger. It must be possible to verify them with the trust file alone.
	notes := attestations(t, project)
	if len(notes) != 3 {
		t.Errorf("%d attestations in the ledger", len(notes))
	}
	for _, note := range notes {
		if s, err := approval.OpenBelief([]byte(note), trust); err != nil || !s.Passkey || s.Signer != "astrid" ||
			s.Reason != "looked it up" || (len(s.Findings) > 0) != (s.Belief == find("pay").ID) {
			t.Errorf("offline: %+v, %v", s, err)
		}
	}
	for _, u := range []User{viewer, {Name: "carl", Role: RoleApprover, Projects: []string{"elsewhere"}},
		{Name: "ina", Role: RoleApprover, Ceiling: beliefs.Internal}} {
		if code := post(t, visitor(t, u), "/beliefs/"+project+"/"+find("vault").ID, shared.c.URL(),
			"same-origin"); code != 403 {
			t.Errorf("an attestation of %s: %d", u.Name, code)
		}
	}
	if code := post(t, visitor(t, viewer), path, "https://evil.example", ""); code != 403 {
		t.Errorf("of another site: %d", code)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
}
