package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lazaret/internal/datafolder"
	"lazaret/internal/natstest"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

var urlIn = regexp.MustCompile(`http://[0-9.:]+/`)

// TestTheLogConvictsAsAPersonUsesIt runs an auditor's commands on a running pipeline: a witness, proofs, serving the
// log, and a change of the key. At the end an old copy of the log takes the place of the newer one, and the commands
// must notice it.
func TestTheLogConvictsAsAPersonUsesIt(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	expect := func(code int, want string, args ...string) string {
		t.Helper()
		out, got := command(t, data, args...)
		if got != code || !strings.Contains(out, want) {
			t.Fatalf("%v ended with %d, want %d and %q:\n%s", args, got, code, want, out)
		}
		return out
	}
	must(t, data, "observe", "--id", "first", "--tool", "web.fetch", "the page")

	// A separate witness.
	dir := t.TempDir()
	must(t, data, "key", "gen", "witness.example", filepath.Join(dir, "witness.key"))
	logKey := strings.Fields(must(t, data, "audit", "witness", "ls"))[1]
	w := start(t, "served at", "lazaret", "audit", "witness", "run", "--key", filepath.Join(dir, "witness.key"),
		"--state", filepath.Join(dir, "seen"), "--log", logKey, "--listen", "127.0.0.1:0")
	must(t, data, "audit", "witness", "add", "bob", strings.Fields(w.output())[0], urlIn.FindString(w.output()))
	expect(0, "witnesses vouch for", "audit", "verify")
	expect(0, "it extends the", "audit", "verify")

	// The proof of an event must show the event and nothing about other events.
	var p struct{ Type, Payload string }
	proof := filepath.Join(dir, "first.tlog-proof")
	expect(0, "proven in", "audit", "prove", "first", "--payload", "-o", proof)
	if err := json.Unmarshal([]byte(must(t, data, "audit", "prove", "--check", proof, "--json")), &p); err != nil ||
		p.Type != "observation" || !strings.Contains(p.Payload, "the page") {
		t.Errorf("the proof shows %+v, %v", p, err)
	}
	text, err := os.ReadFile(proof)
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(dir, "forged.tlog-proof")
	if err := os.WriteFile(forged, []byte(strings.Replace(string(text), "\nindex ", "\nindex 1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(2, "the proof is invalid", "audit", "prove", "--check", forged)
	expect(1, "no entry", "audit", "prove", "unknown")

	// The log that is served must be equal to the log on disk.
	s := start(t, "served at", "lazaret", "audit", "serve", "--data", data, "--listen", "127.0.0.1:0")
	url := urlIn.FindString(s.output())
	expect(0, "EQUAL", "audit", "compare", url)
	early := filepath.Join(dir, "early")
	if err := os.WriteFile(early, fetch(t, url+"checkpoint"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, data, "observe", "--tool", "web.fetch", "another page")
	natstest.Eventually(t, time.Minute, "the log has grown", func() bool {
		out, code := command(t, data, "audit", "consistency", early)
		return code == 0 && strings.Contains(out, "CONSISTENT") && !strings.Contains(out, "CONSISTENT  0")
	})
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	expect(1, "no checkpoint", "audit", "compare", other.URL)
	expect(1, "stop the auditor", "audit", "rotate")
	expect(1, "leave out --offline", "audit", "verify", "--offline")
	expect(1, "give the URL", "audit", "compare", filepath.Join(data, "audit"), url)
	// audit head must write nothing but the checkpoint to standard output.
	head, err := exec.Command(filepath.Join(bin, "lazaret"), "audit", "head", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(early, head, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(0, "CONSISTENT", "audit", "consistency", early)
	s.interrupt()
	up.interrupt()

	// While the pipeline is stopped, the test copies the log and replaces the auditor's key.
	audit := filepath.Join(data, "audit")
	old := filepath.Join(dir, "old")
	if err := os.CopyFS(old, os.DirFS(audit)); err != nil {
		t.Fatal(err)
	}
	expect(0, "", "audit", "rotate")
	up = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	must(t, data, "observe", "--tool", "web.fetch", "a third page")
	// The witness knows only the old key.
	natstest.Eventually(t, time.Minute, "what the new key signed is not vouched for", func() bool {
		out, code := command(t, data, "audit", "verify", "--against", early)
		return code == 3 && strings.Contains(out, "handovers") && strings.Contains(out, "quorum")
	})
	up.interrupt()
	if err := os.WriteFile(filepath.Join(dir, "none.policy"), []byte("quorum none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(0, "VERIFIED", "audit", "verify", "--policy", filepath.Join(dir, "none.policy"))
	out := expect(2, "DIFFERENT", "audit", "compare", tampered(t, data, dir))
	if !strings.Contains(out, "leaf 7") {
		t.Errorf("compared with a log whose leaf 7 was changed: %s", out)
	}
	if err := os.RemoveAll(audit); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(audit, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	expect(2, "truncated", "audit", "verify")
	expect(1, "no log", "audit", "verify", "--dir", filepath.Join(dir, "nothing"))
	w.interrupt()
}

// tampered makes a copy of the log with a different leaf 7, signed with the key in the data folder. It returns the
// copy's folder.
func tampered(t *testing.T, data, dir string) string {
	t.Helper()
	out := filepath.Join(dir, "tampered")
	key, err := datafolder.MasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.LoadSigner(datafolder.AuditorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	src, err := chain.Open(filepath.Join(data, "audit"), chain.Options{MasterKey: key, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := chain.Open(out, chain.Options{MasterKey: key, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if err := src.Range(0, src.Head().Size, func(i int64, l chain.Leaf) error {
		salt, payload, err := src.Salted(i)
		if err != nil {
			return err
		}
		if i == 7 {
			payload = append(payload, ' ')
		}
		return dst.Append([]chain.Entry{{Seq: l.Seq, Time: l.Time, Type: l.Type, Project: l.Project, Salt: salt,
			Payload: payload}})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := dst.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	return out
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, res.Status, err)
	}
	return b
}
