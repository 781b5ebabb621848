package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchAllPrintsOneTable(t *testing.T) {
	long(t)
	if testing.Short() {
		t.Skip("SKIPPED in short mode: two benchmarks, small")
	}
	// The runs are too small for their budgets to mean anything.
	out, code := command(t, t.TempDir(), "bench", "all", "--quick", "--run", "^(rules|idle)$")
	if code != 0 && code != 2 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	for _, want := range []string{"processors", "Too small to be figures", "| rules | shipped packs on 1 KB, median |",
		"| idle | memory, idle |"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if missed := strings.Contains(out, "**missed**"); missed != (code == 2) {
		t.Errorf("exit %d\n%s", code, out)
	}
	if strings.Contains(out, "not run") {
		t.Errorf("something was not run:\n%s", out)
	}
	out, code = command(t, t.TempDir(), "bench", "all", "--run", "^beliefs$", "--json")
	var table struct {
		Machine string            `json:"machine"`
		NotRun  map[string]string `json:"not_run"`
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil || code != 0 || table.NotRun["beliefs"] == "" ||
		table.Machine == "" {
		t.Errorf("what takes long: exit %d, %v\n%s", code, err, out)
	}
}

func TestASoakLeavesSamplesAndAGraph(t *testing.T) {
	long(t)
	if testing.Short() {
		t.Skip("SKIPPED in short mode: 15,000 observations")
	}
	dir := t.TempDir()
	csv, svg := filepath.Join(dir, "s.csv"), filepath.Join(dir, "s.svg")
	out, code := command(t, dir, "bench", "soak", "--events", "15000", "--size", "256", "--every", "100ms", "--csv", csv)
	if code != 0 && code != 2 || !strings.Contains(out, "lost") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	must(t, dir, "bench", "soak", "--graph", csv, "--svg", svg)
	samples, err := os.ReadFile(csv)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(samples)), "\n")
	if last := strings.Split(lines[len(lines)-1], ","); len(lines) < 12 || last[1] != "15000" || last[3] != "0" {
		t.Errorf("%d samples, the last is %v", len(lines)-1, last)
	}
	if b, err := os.ReadFile(svg); err != nil || strings.Count(string(b), "<polyline") != 4 {
		t.Errorf("the graph: %v\n%s", err, b)
	}
}
