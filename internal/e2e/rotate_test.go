package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
)

// An auditor that runs apart has its log, its key and its pinned keys in folders of its own. Replacing its key there
// must work.
func TestTheKeyOfAnAuditorThatRunsApartIsReplaced(t *testing.T) {
	long(t)
	dir := t.TempDir()
	data, parts, own := filepath.Join(dir, "data"), filepath.Join(dir, "parts"), filepath.Join(dir, "own")
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	must(t, data, "server", "part", "--to", parts)
	part, log := filepath.Join(parts, "auditor"), filepath.Join(own, "audit")
	key, trust := filepath.Join(own, "signing.key"), filepath.Join(own, "pins.yaml")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"keys/auditor.key": key, "trust.yaml": trust} {
		if err := os.Rename(filepath.Join(part, from), to); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"--dir", log, "--key", key, "--trust", trust}
	auditor := func() *process {
		return start(t, "ready", "auditor", append([]string{"--data", part, "--state", filepath.Join(own, "state")},
			flags...)...)
	}
	aud := auditor()
	if out, code := command(t, part, append([]string{"audit", "rotate"}, flags...)...); code != 1 ||
		!strings.Contains(out, "stop the auditor") {
		t.Errorf("while the auditor runs: exit %d, %s", code, out)
	}
	aud.interrupt()
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	out := must(t, part, append([]string{"audit", "rotate"}, flags...)...)
	after, err := os.ReadFile(key)
	if err != nil || bytes.Equal(before, after) || !strings.Contains(out, "replaced_at: ") {
		t.Fatalf("the key was not replaced: %v, %s", err, out)
	}
	public, _, _ := strings.Cut(out, "\n")
	if pins, err := os.ReadFile(trust); err != nil || !bytes.Contains(pins, []byte(public)) ||
		!bytes.Contains(pins, []byte("replaced_at: ")) {
		t.Errorf("the new key %s is not pinned: %v\n%s", public, err, pins)
	}
	must(t, data, "observe", "--tool", "web.fetch", "a page after the rotation")
	if err := os.Link(trust, filepath.Join(part, "trust.yaml")); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "the new key signs the next entry", func() bool {
		auditor().interrupt()
		out, code := command(t, part, "audit", "ls", "--dir", log, "--where", `type == "observation" && covered`)
		return code == 0 && strings.Contains(out, "observation")
	})
	if out, code := command(t, part, "audit", "verify", "--offline", "--dir", log); code != 3 ||
		!strings.Contains(out, "no fault was found") || !strings.Contains(out, "1 handovers") {
		t.Errorf("exit %d, %s", code, out)
	}
}

// The auditor's key was replaced in the auditor's own folder, which has the only copy of the new key. Then the operator
// runs server part again, which writes this folder. The new key must stay.
func TestPromiseAKeyThatWasRotatedInAPartOutlivesServerPart(t *testing.T) {
	long(t)
	dir := t.TempDir()
	data, parts, log := filepath.Join(dir, "data"), filepath.Join(dir, "parts"), filepath.Join(dir, "log")
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	must(t, data, "server", "part", "--to", parts)
	part := filepath.Join(parts, "auditor")
	auditor := func() *process { return start(t, "ready", "auditor", "--data", part, "--dir", log) }
	auditor().interrupt()
	public, _, _ := strings.Cut(must(t, part, "audit", "rotate", "--dir", log), "\n")
	read := func(file string) string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	key := read(filepath.Join(part, "keys", "auditor.key"))
	for range 2 {
		out := must(t, data, "server", "part", "--to", parts)
		for _, want := range []string{"auditor.key stays as it is", "keeps replaced_at: ", "keeps the auditor's key " + public} {
			if strings.Count(out, want) != 1 {
				t.Errorf("it does not say %q once:\n%s", want, out)
			}
		}
		if read(filepath.Join(part, "keys", "auditor.key")) != key {
			t.Fatal("the only copy of the new key is lost")
		}
		if pins := read(filepath.Join(part, "trust.yaml")); !strings.Contains(pins, public) ||
			!strings.Contains(pins, "replaced_at: ") {
			t.Fatalf("the handover is lost:\n%s", pins)
		}
	}
	auditor().interrupt()
	if out, code := command(t, part, "audit", "verify", "--offline", "--dir", log); code != 3 ||
		!strings.Contains(out, "no fault was found") || !strings.Contains(out, "1 handovers") {
		t.Errorf("exit %d, %s", code, out)
	}

	// The replaced key is put back into its file. audit rotate must refuse it, and the log must not be damaged.
	old, err := filepath.Glob(filepath.Join(part, "keys", "auditor.key.*"))
	if err != nil || len(old) != 1 {
		t.Fatalf("the old key is in %q, %v", old, err)
	}
	if err := os.Rename(old[0], filepath.Join(part, "keys", "auditor.key")); err != nil {
		t.Fatal(err)
	}
	if out, code := command(t, part, "audit", "rotate", "--dir", log); code != 1 ||
		!strings.Contains(out, "put the private key of "+public) {
		t.Errorf("with the replaced key: exit %d, %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(part, "keys", "auditor.key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	auditor().interrupt()
}
