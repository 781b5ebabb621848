package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// Useful figures need an idle machine. So this test checks only that bench decide, with its client in a process of its
// own, reports figures.
func TestBenchDecideMeasuresFromAProcessOfItsOwn(t *testing.T) {
	long(t)
	t.Parallel()
	for _, args := range [][]string{{"--requests", "50", "--warm", "5"}, {"--requests", "50", "--warm", "5", "--rate",
		"50"}, {"--flat", "--few", "20", "--many", "120", "--requests", "30", "--warm", "5"}} {
		out, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"bench", "decide", "--json"},
			args...)...).Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) { // 2: over a budget
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		var rep struct {
			P50   int64   `json:"p50_us"`
			P99   int64   `json:"p99_us"`
			Sync  bool    `json:"sync_always"`
			Rate  float64 `json:"rate"`
			Got   float64 `json:"rate_achieved"`
			N     int     `json:"requests"`
			Floor *struct {
				Publishes int   `json:"publishes"`
				P50       int64 `json:"p50"`
			} `json:"sync_floor_us"`
			Flat *struct {
				Ratio float64 `json:"p99_ratio"`
			} `json:"flat"`
		}
		if err := json.Unmarshal(out, &rep); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if rep.N == 0 || rep.P50 <= 0 || rep.P99 < rep.P50 || !rep.Sync || rep.Rate > 0 && rep.Got <= 0 ||
			args[0] == "--flat" && (rep.Flat == nil || rep.Flat.Ratio <= 0) {
			t.Errorf("%v: %s", args, out)
		}
		if f := rep.Floor; args[0] != "--flat" && (f == nil || f.Publishes != 4 || f.P50 <= 0) {
			t.Errorf("%v: no floor of four publishes: %s", args, out)
		}
	}
}

func TestBenchPipelineSaysWhatTheServerAloneCarries(t *testing.T) {
	long(t)
	t.Parallel()
	for _, args := range [][]string{{"--events", "600"}, {"--events", "600", "--projects", "3", "--sync", "always"}} {
		out, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"bench", "pipeline", "--json"},
			args...)...).Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) { // 2: over a budget
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		var rep struct {
			PerSecond float64 `json:"events_per_s"`
			Shape     float64 `json:"shape_bound_per_s"`
			Ratio     float64 `json:"shape_ratio"`
			CPU       float64 `json:"shape_cpu_us_per_event"`
			Lost      int     `json:"lost"`
		}
		if err := json.Unmarshal(out, &rep); err != nil {
			t.Fatalf("%v: %s", args, out)
		}
		if rep.PerSecond <= 0 || rep.Shape <= 0 || rep.Ratio <= 0 || rep.CPU <= 0 || rep.Lost > 0 {
			t.Errorf("%v: %s", args, out)
		}
	}
}

func TestBenchPipelineComparesBatchesWithSinglePublishes(t *testing.T) {
	long(t)
	t.Parallel()
	out, err := exec.Command(filepath.Join(bin, "lazaret"), "bench", "pipeline", "--json", "--events", "600", "--batch",
		"64").Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) { // 2: over a budget
		t.Fatalf("%v\n%s", err, out)
	}
	var rep struct {
		PerSecond float64 `json:"events_per_s"`
		Ratio     float64 `json:"ratio"`
		Singles   float64 `json:"singles_ratio"`
		Lost      int     `json:"lost"`
		Doubled   int     `json:"duplicated"`
	}
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatalf("%s", out)
	}
	if rep.PerSecond <= 0 || rep.Ratio <= 0 || rep.Singles <= 0 || rep.Lost > 0 || rep.Doubled > 0 {
		t.Errorf("%s", out)
	}
}

func TestBenchMCPComparesProxiedCallsWithDirectOnes(t *testing.T) {
	long(t)
	t.Parallel()
	out, err := exec.Command(filepath.Join(bin, "lazaret"), "bench", "mcp", "--json", "--calls", "20", "--warm", "2",
		"--no-sync").Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) { // 2: over a budget
		t.Fatalf("%v\n%s", err, out)
	}
	type latencies struct {
		Requests int   `json:"requests"`
		P50      int64 `json:"p50_us"`
	}
	var rep struct {
		Direct  latencies `json:"direct"`
		Proxied latencies `json:"proxied"`
		Added   int64     `json:"added_p50_us"`
		Ratio   float64   `json:"last_to_first"`
	}
	if err := json.Unmarshal(out, &rep); err != nil || rep.Direct.Requests != 20 || rep.Proxied.Requests != 20 ||
		rep.Added <= 0 || rep.Added != rep.Proxied.P50-rep.Direct.P50 || rep.Ratio <= 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
