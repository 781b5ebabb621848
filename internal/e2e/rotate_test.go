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

// An auditor that runs apart has its log, its key and its pinned keys in folders of its own.
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
