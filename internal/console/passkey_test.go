package console

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// activate pins a key as an operator does, and waits until the trust file with it is active.
func activate(t *testing.T, key string) *keys.Trust {
	t.Helper()
	trust, err := keys.LoadTrust(datafolder.TrustFile(shared.data))
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Add(keys.Pin{Key: key, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		t.Fatal(err)
	}
	if err := trust.Write(datafolder.TrustFile(shared.data)); err != nil {
		t.Fatal(err)
	}
	signer, err := keys.LoadSigner(datafolder.OperatorKey(shared.data))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(datafolder.TrustFile(shared.data))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := embedded.Activate(ctx, shared.nc, signer, streams.DoActivateTrust, b); err != nil {
		t.Fatal(err)
	}
	if err := embedded.AwaitTrust(ctx, shared.nc, streams.Digest(b)); err != nil {
		t.Fatal(err)
	}
	return trust
}

// authenticator adds a virtual authenticator to a browser. The authenticator says that it has verified the user.
func authenticator(t *testing.T, b *browser) {
	t.Helper()
	call(t, b, webauthn.Enable, webauthn.EnableParams{})
	call(t, b, webauthn.AddVirtualAuthenticator,
		webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: "internal", HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true,
			AutomaticPresenceSimulation: true}})
}

// registerPasskey registers a passkey on the page, and pins it as an operator does.
func registerPasskey(t *testing.T, b *browser, name string) *keys.Trust {
	t.Helper()
	b.open(t, "/passkeys")
	b.run(t, chromedp.Click(chromedp.CSS("#register button")), chromedp.WaitVisible(chromedp.CSS("#registered pre")))
	command := eval[string](t, b, `document.querySelector("#registered pre").textContent`)
	_, rest, _ := strings.Cut(command, "'")
	key, _, ok := strings.Cut(rest, "'")
	if !ok || !strings.HasPrefix(key, name+"+") {
		t.Fatalf("the command is %q", command)
	}
	return activate(t, key)
}

// A newcomer opens the login link, sees the attack of the demo, registers a passkey that an operator pins, and approves
// the hold with it. The approval must verify with nothing but its note in the ledger and the trust file.
func TestAStrangerApprovesAHoldWithAPasskeyAndVerifiesItOffline(t *testing.T) {
	b := newBrowser(t)
	authenticator(t, b)
	b.open(t, link(t, User{Name: "stranger", Role: RoleApprover}))
	b.open(t, "/holds") // not the page Now, which lists few groups: other tests leave holds open
	project, hold := attackAs(t, "seen")
	// The page that is open must show the new hold without a reload.
	b.run(t, chromedp.WaitReady(chromedp.CSS("#hold-"+hold)))

	trust := registerPasskey(t, b, "stranger")

	b.open(t, "/holds/"+project+"/"+hold)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#sign button[value=approve]:not([disabled])")),
		chromedp.SendKeys(chromedp.CSS("#sign input[name=reason]"), "the test says so"))
	// Chromium ignores a mouse click before the page is drawn. So the test calls the button's click method.
	eval[bool](t, b, `document.querySelector("#sign button[value=approve]").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signing[data-state], #signing.bad")))
	if said := eval[string](t, b,
		`document.querySelector("#signing").dataset.state || document.querySelector("#signing").textContent`); said != streams.HoldApproved {
		t.Fatalf("the page says %q", said)
	}
	if s := eval[string](t, b, `document.querySelector("#signing").dataset.state`); s != streams.HoldApproved {
		t.Fatalf("the hold is %s", s)
	}
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	b.shot(t, "console-approved")

	note := resolution(t, project, hold)
	s, err := approval.Open([]byte(note), trust)
	if err != nil || !s.Passkey || s.Hold != hold || s.Decision != approval.Approve || s.Signer != "stranger" ||
		s.Reason != "the test says so" {
		t.Errorf("offline: %+v, %v", s, err)
	}
	if _, err := approval.Open([]byte(strings.Replace(note, `"approve"`, `"reject"`, 1)), trust); err == nil {
		t.Error("an altered decision verifies")
	}
	if !testing.Short() {
		verifyEvidence(t, project) // it builds two programs; in a short run, tests of internal/e2e verify evidence
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
}

// resolution returns the signed note in the ledger that decides a hold.
func resolution(t *testing.T, project, hold string) (note string) {
	t.Helper()
	await(t, "the decision in the index", func() bool {
		for _, h := range shared.c.index.closedHolds(func(p string) bool { return p == project }) {
			if h.ID == hold && h.Verdict.Resolved != nil {
				e, err := stage.ReadEntry(t.Context(), shared.c.js, h.Verdict.Resolved.Entry)
				if err != nil {
					t.Fatal(err)
				}
				r, err := streams.Read[streams.ResolutionEntry](&e)
				if err != nil {
					t.Fatal(err)
				}
				note = r.Note
			}
		}
		return note != ""
	})
	return note
}

// verifyEvidence exports the evidence of a session. Then it verifies the evidence with the verifier in examples, which
// imports none of Lazaret's packages.
func verifyEvidence(t *testing.T, project string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "lazaret/cmd/lazaret",
		"lazaret/examples/verifier").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "evidence.json")
	await(t, "evidence of the session with its approval", func() bool {
		out, err := exec.Command(filepath.Join(dir, "lazaret"), "--data", shared.data, "audit", "evidence", "s1",
			"--project", project, "-o", file).CombinedOutput()
		return err == nil && strings.Contains(string(out), "1 approvals")
	})
	trust, err := keys.LoadTrust(datafolder.TrustFile(shared.data))
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, p := range trust.Pins() {
		switch p.Roles[0] {
		case keys.RoleAuditor:
			args = append(args, "-log", p.Key)
		case keys.RoleOperator:
			args = append(args, "-operator", p.Key)
		}
	}
	verify := func(file string) (string, error) {
		out, err := exec.Command(filepath.Join(dir, "verifier"), append(args, file)...).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(file); err != nil || !strings.Contains(out, "VERIFIED  session") ||
		!strings.Contains(out, "1 approvals") {
		t.Errorf("the stand-alone verifier: %v: %s", err, out)
	}
}

// An operator runs the command that pins a passkey in a shell. The name in it must not end the quotation.
func TestTheNameOfAPasskeyIsOneWordOfAShell(t *testing.T) {
	if got := keyName(`Zoe O'Brien'; echo "+1" #`); got != `Zoe-O-Brien-;-echo-"-1"-#` {
		t.Error(got)
	}
}
