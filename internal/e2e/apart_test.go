package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The daemons run apart: each has a folder of its own, and the auditor's folder has the log. The operator's data folder
// has no log, so commands get the log's folder by --dir. With it, erasing a person, trimming the ledger and expiring
// old payloads must work.
func TestAPersonIsForgottenWhereTheAuditorRunsApart(t *testing.T) {
	long(t)
	dir := t.TempDir()
	data, parts, log := filepath.Join(dir, "data"), filepath.Join(dir, "parts"), filepath.Join(dir, "own", "audit")
	start(t, "lazaret is up", "lazaret", "up", "--server-only", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	must(t, data, "server", "part", "--to", parts)
	for _, stage := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		args := []string{"--data", filepath.Join(parts, stage), "--state", filepath.Join(dir, "state-"+stage)}
		if stage == "auditor" {
			args = append(args, "--dir", log)
		}
		start(t, "ready", stage, args...)
	}
	for person, pet := range map[string]string{"p-17": "quokka", "p-18": "wombat"} {
		must(t, data, "observe", "--project", "demo", "--tool", "crm.read", "--data-subject", person, "the pet is a "+pet)
	}

	forget := []string{"audit", "forget", "--subject", "demo/p-17", "--reason", "r"}
	if out, code := command(t, data, forget...); code != 1 || !strings.Contains(out, "name its folder with --dir") {
		t.Errorf("without --dir: exit %d, %s", code, out)
	}
	if out, code := command(t, data, append(forget, "--dir", log, "--wait", "1ms")...); code != 1 ||
		!strings.Contains(out, "not finished after 1ms: the command was still waiting for the search of the ledger: ") ||
		!strings.Contains(out, "with a longer --wait") {
		t.Errorf("a time limit that is too short: exit %d, %s", code, out)
	}
	if out := must(t, data, append(forget, "--dry-run", "--dir", log)...); !strings.Contains(out, "LZ_LEDGER") {
		t.Errorf("the dry run: %s", out)
	}
	pins := filepath.Join(dir, "pins.yaml")
	if err := os.Rename(filepath.Join(data, "trust.yaml"), pins); err != nil {
		t.Fatal(err)
	}
	out, code := command(t, data, append(forget, "--dir", log, "--trust", pins)...)
	if code != 0 || !strings.Contains(out, "erased one by one") {
		t.Fatalf("exit %d, %s", code, out)
	}
	if err := os.Rename(pins, filepath.Join(data, "trust.yaml")); err != nil {
		t.Fatal(err)
	}
	entries := must(t, data, "audit", "ls", "--dir", log, "--last", "0", "--json")
	if strings.Contains(entries, "quokka") || !strings.Contains(entries, "wombat") {
		t.Errorf("the log after the erasure: %s", entries)
	}
	must(t, data, "audit", "trim", "--older", "0s", "--dir", log)
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		args := append([]string{"audit", "expire", "--older", "0s", "--dir", log}, flags...)
		if out := must(t, data, args...); !strings.Contains(out, "expire") || strings.Contains(out, "nothing expires") {
			t.Errorf("%v: %s", flags, out)
		}
	}
	if entries := must(t, data, "audit", "ls", "--dir", log, "--last", "0", "--json"); strings.Contains(entries, "wombat") {
		t.Errorf("the log after the expiry: %s", entries)
	}
}
