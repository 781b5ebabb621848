package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/probe"
	"lazaret/streams"
)

// TestProbesFromTheCommandLine runs single scenarios with the command. A test of internal/probe runs all scenarios.
func TestProbesFromTheCommandLine(t *testing.T) {
	long(t)
	t.Parallel()
	run := func(args ...string) (string, int) {
		t.Helper()
		out, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"probe", "run"}, args...)...).CombinedOutput()
		if e, ok := err.(*exec.ExitError); ok {
			return string(out), e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		return string(out), 0
	}
	out, code := run("explicit-command", "--contrast", "--json")
	var results []probe.Result
	if err := streams.Unmarshal([]byte(out), &results); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != 0 || len(results) != 1 || results[0].Verdict != probe.Pass || results[0].Contrast != probe.ContrastFailed {
		t.Errorf("exit %d, %+v", code, results)
	}
	if out, code := run("no-such-probe"); code != 1 || !strings.Contains(out, `no scenario is called "no-such-probe"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	pack := t.TempDir()
	text := "name: wrong\nscenario: x\nasserts: x\ndoes_not_claim: x\nsteps: [{decide: {tool: send_report}, expect: " +
		"{verdict: allow}}]\n"
	if err := os.WriteFile(filepath.Join(pack, "wrong.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := run("--pack", pack); code != 2 || !strings.Contains(out, "1 failed") {
		t.Errorf("exit %d: %s", code, out)
	}
	// The probes run in projects of their own in a running pipeline.
	p := start(t, "lazaret is up", "lazaret", "up", "--data", filepath.Join(pack, "data"), "--listen", freePort(t))
	if out, code := run("--running", "--data", filepath.Join(pack, "data"), "sleeper-memory",
		"restart-changes-nothing"); code != 0 || !strings.Contains(out, "1 passed, 0 failed, 1 skipped") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := run("--running", "--data", filepath.Join(pack, "data"), "--contrast"); code != 1 ||
		!strings.Contains(out, "contrast cannot switch off a defence of a running pipeline") {
		t.Errorf("exit %d: %s", code, out)
	}
	p.interrupt()
}
