package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/ingest"
	"lazaret/streams"
)

// TestAProbeThatFailsOpensAnIncident runs probes as a service. One of them expects a wrong result, so it fails each
// time. The first failure must open an incident. The later ones must be added to it.
func TestAProbeThatFailsOpensAnIncident(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	data, pack, key := filepath.Join(dir, "data"), filepath.Join(dir, "pack"), filepath.Join(dir, "probe.key")
	if err := os.Mkdir(pack, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, verdict := range map[string]string{"wrong": "allow", "right": "hold"} {
		text := "name: " + name +
			"\nscenario: x\nasserts: x\ndoes_not_claim: x\nsteps: [{decide: {tool: send_report}, expect: {verdict: " +
			verdict + "}}]\n"
		if err := os.WriteFile(filepath.Join(pack, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t))
	if out, code := command(t, data, "probe", "run", "--every", "1s", "--pack", pack); code != 1 ||
		!strings.Contains(out, "the key that signs incidents") {
		t.Errorf("without a key: exit %d: %s", code, out)
	}
	must(t, data, "key", "gen", "watch", key, "--pin", "probe")
	must(t, data, "key", "activate")

	s := start(t, "1 passed, 1 failed, 0 skipped", "lazaret", "--data", data, "probe", "run", "--every", "1s", "--pack",
		pack, "--key", key)
	deadline := time.Now().Add(time.Minute)
	for strings.Count(s.output(), "1 passed, 1 failed") < 3 {
		if time.Now().After(deadline) {
			t.Fatalf("no three rounds:\n%s", s.output())
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.interrupt()
	var items []ingest.IncidentView
	if err := streams.Unmarshal([]byte(must(t, data, "incident", "ls", "--project", "syn-probe", "--json")),
		&items); err != nil {
		t.Fatal(err)
	}
	if len(items) != 1 || items[0].Key != "probe/wrong" || items[0].State.String() != "open" {
		t.Fatalf("incidents: %+v", items)
	}
	if shown := must(t, data, "incident", "show", items[0].ID, "--project", "syn-probe"); !strings.Contains(shown,
		`want "allow"`) {
		t.Errorf("the incident does not say what failed: %s", shown)
	}
	if strings.Contains(s.output(), "lazaret:") {
		t.Errorf("the service complains: %s", s.output())
	}
	p.interrupt()
}
