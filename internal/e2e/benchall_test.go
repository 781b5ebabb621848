package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/bench"
	"lazaret/streams"
)

func TestBenchAllPrintsOneTable(t *testing.T) {
	long(t)
	if testing.Short() {
		t.Skip("SKIPPED in short mode: two benchmarks, small")
	}
	// The runs are too short to meet the budgets reliably, so exit code 2 is accepted too.
	out, code := command(t, t.TempDir(), "bench", "all", "--quick", "--run", "^(rules|idle)$")
	if code != 0 && code != 2 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	for _, want := range []string{"processors", "these figures are not representative",
		"| rules | cost of the shipped packs on 1 KB, median |", "| idle | memory, idle |"} {
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

// Nine simulated days of four seconds each, with a retention of three days. The disk use must stay within what the
// documentation says.
func TestASoakOfDaysHoldsWhatTheDocumentsSayOfTheDisk(t *testing.T) {
	long(t)
	t.Parallel()
	out, code := command(t, t.TempDir(), "bench", "soak", "--days", "9", "--retention", "3", "--day", "4s", "--events",
		"9000", "--every", "500ms", "--json")
	var rep bench.SoakReport
	if err := streams.Unmarshal([]byte(out), &rep); err != nil || code != 0 && code != 2 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	highest := uint64(0)
	for _, s := range rep.Samples {
		highest = max(highest, s.Streams)
	}
	if last := rep.Samples[len(rep.Samples)-1]; rep.Lost != 0 || last.Streams >= highest {
		t.Errorf("%d lost; the streams have %d bytes in the end, and had %d at most", rep.Lost, last.Streams, highest)
	}
	lines := rep.Lines()
	if disk := lines[len(lines)-1]; !strings.Contains(disk.What, "documented") || !disk.Pass {
		t.Errorf("%+v", disk)
	}
}

func TestASoakLeavesSamplesAndAGraph(t *testing.T) {
	long(t)
	t.Parallel()
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
