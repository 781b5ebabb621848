package console

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lazaret/internal/datafolder"
	"lazaret/internal/malformed"
	"lazaret/pkg/keys"
)

// TestAStrangerGoesFromMakeRunToAnApprovalThatVerifiesOffline follows the README, using only the programs. The steps
// are: make run, the printed link, the attack of the demo, a passkey that the operator pins, an approval. After the
// pipeline was stopped, the stand-alone verifier must accept the approval.
func TestAStrangerGoesFromMakeRunToAnApprovalThatVerifiesOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs: make ci runs it")
	}
	dir := t.TempDir()
	bin, data := filepath.Join(dir, "bin"), filepath.Join(dir, "data")
	run := exec.Command("make", "run", "BIN="+bin, "DATA="+data, "LISTEN=127.0.0.1:0", "TRIMPATH=")
	run.Dir, run.SysProcAttr = "../..", &syscall.SysProcAttr{Setpgid: true}
	out := new(malformed.Log)
	run.Stdout, run.Stderr = out, out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			syscall.Kill(-run.Process.Pid, syscall.SIGINT)
			late := time.AfterFunc(30*time.Second, func() { syscall.Kill(-run.Process.Pid, syscall.SIGKILL) })
			run.Wait()
			late.Stop()
		})
	}
	t.Cleanup(stop)
	form := regexp.MustCompile(`http://localhost:\d+/login\S+`)
	for end := time.Now().Add(5 * time.Minute); form.FindString(out.String()) == ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("make run printed no link: %s", out.String())
		}
	}
	lazaret := func(args ...string) string {
		t.Helper()
		b, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"--data", data}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("lazaret %v: %v: %s", args, err, b)
		}
		return string(b)
	}
	b := newBrowser(t)
	b.base, _, _ = strings.Cut(form.FindString(out.String()), "/login")
	authenticator(t, b)
	b.open(t, form.FindString(out.String()))
	lazaret("replay", "../../examples/poisoned-session.jsonl")
	// the page that is open must show the hold without a reload
	b.run(t, chromedp.WaitReady(chromedp.CSS("a[id^=hold-]")))
	hold := eval[string](t, b, `document.querySelector("a[id^=hold-]").getAttribute("href")`)
	project, _, _ := strings.Cut(strings.TrimPrefix(hold, "/holds/"), "/")

	b.open(t, "/passkeys")
	b.run(t, chromedp.Click(chromedp.CSS("#register button")), chromedp.WaitVisible(chromedp.CSS("#registered pre")))
	_, rest, _ := strings.Cut(eval[string](t, b, `document.querySelector("#registered pre").textContent`), "'")
	key, _, _ := strings.Cut(rest, "'")
	lazaret("key", "pin", key, "--role", "approver")
	lazaret("key", "activate")

	b.open(t, hold)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#sign button[value=approve]:not([disabled])")),
		chromedp.SendKeys(chromedp.CSS("#sign input[name=reason]"), "the stranger says so"))
	eval[bool](t, b, `document.querySelector("#sign button[value=approve]").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signing[data-state], #signing.bad")))
	if said := eval[string](t, b, `document.querySelector("#signing").dataset.state ||
		document.querySelector("#signing").textContent`); said != "approved" {
		t.Fatalf("the page says %q", said)
	}
	file := filepath.Join(dir, "evidence.json")
	await(t, "evidence of the session with its approval", func() bool {
		b, err := exec.Command(filepath.Join(bin, "lazaret"), "--data", data, "audit", "evidence", "s1",
			"--project", project, "-o", file).CombinedOutput()
		return err == nil && strings.Contains(string(b), "1 approvals")
	})
	b.mu.Lock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
	b.mu.Unlock()
	stop()
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "lazaret/examples/verifier"}
	for _, p := range trust.Pins() {
		switch p.Roles[0] {
		case keys.RoleAuditor:
			args = append(args, "-log", p.Key)
		case keys.RoleOperator:
			args = append(args, "-operator", p.Key)
		}
	}
	said, err := exec.Command("go", append(args, file)...).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "VERIFIED  session") || !strings.Contains(string(said), "1 approvals") {
		t.Errorf("the stand-alone verifier: %v: %s", err, said)
	}
	evidence, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(evidence, []byte("the stranger says so")) {
		t.Errorf("the evidence does not have the reason: %v", err)
	}
}
