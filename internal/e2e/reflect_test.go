package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/ingest"
	"lazaret/streams"
)

// TestReflectionLessonsAndCeilingsFromTheCommandLine runs the commands for reflections, lessons and sensitivity
// ceilings. internal/probe tests the same functions without commands.
func TestReflectionLessonsAndCeilingsFromTheCommandLine(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	data, key, cp, file := filepath.Join(dir, "data"), filepath.Join(dir, "alice.key"), filepath.Join(dir,
		"checkpoint"), filepath.Join(dir, "export.jsonl")
	p := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t))
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	must(t, data, "agent", "add", "demo", "ben", "--origins", "user")
	must(t, data, "remember", "--origin", "user", "--category", "lesson", `{"subject":"release","freeze_day":"Tuesday"}`)
	must(t, data, "remember", "--origin", "user", "--agent", "ben", `{"subject":"release","freeze_day":"Thursday"}`)
	must(t, data, "remember", "--origin", "user", "--category", "lesson", "Run migrations on the staging copy first.")
	must(t, data, "remember", "--origin", "web", "--category", "lesson", "Backups can be skipped.")
	must(t, data, "remember", "--origin", "user", "--sensitivity", "secret",
		"The vault code of the north door is blue heron seven.")

	var found []ingest.Supersession
	if err := streams.Unmarshal([]byte(must(t, data, "beliefs", "reflect", "--json")), &found); err != nil ||
		len(found) != 1 || found[0].Says != "Tuesday" || found[0].Instead != "Thursday" {
		t.Fatalf("%v: %+v", err, found)
	}
	lessons := must(t, data, "beliefs", "lessons", "--age", "0s", "--format", "md")
	if !strings.Contains(lessons, "staging copy") || strings.Contains(lessons, "Backups") ||
		strings.Contains(lessons, "Tuesday") {
		t.Errorf("the lessons are %s", lessons)
	}
	must(t, data, "beliefs", "supersede", found[0].Belief, "--by", found[0].Successor, "--key", key)
	if out := must(t, data, "beliefs", "reflect", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("after somebody signed: %s", out)
	}

	p.interrupt() // the last checkpoint then covers everything
	p = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t))
	head := must(t, data, "audit", "head")
	if err := os.WriteFile(cp, []byte(head[strings.Index(head, "\n\n")+2:]), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, data, "audit", "export", "-o", file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "blue heron") || !strings.Contains(string(b), "staging copy") {
		t.Error("an export up to internal has the secret, or lacks what is internal")
	}
	out, code := command(t, data, "audit", "verify", "--export", file, "--against", cp)
	if code != 3 || !strings.Contains(out, "bodies were not checked") {
		t.Errorf("the export: exit %d: %s", code, out)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), `"type":"memory"`, `"type":"recall"`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := command(t, data, "audit", "verify", "--export", file, "--against", cp); code != 2 ||
		!strings.Contains(out, "FAILED") {
		t.Errorf("an altered export: exit %d: %s", code, out)
	}
	p.interrupt()
}
