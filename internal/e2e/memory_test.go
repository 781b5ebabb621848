package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/streams"
)

// TestAPoisonedSourceIsFoundAndTakenOutWithWhatDerivesFromIt handles an incident with the commands. They must list the
// beliefs from a page, the beliefs that derive from these, and their earlier state. Then the beliefs are quarantined
// and restored by signed orders.
func TestAPoisonedSourceIsFoundAndTakenOutWithWhatDerivesFromIt(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	run := func(want int, args ...string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"--data", p.data},
			args...)...).CombinedOutput()
		code := 0
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Fatalf("lazaret %s: exit %d, want %d:\n%s", strings.Join(args, " "), code, want, out)
		}
		return string(out)
	}
	list := func(args ...string) (out []ingest.Belief) {
		t.Helper()
		if err := streams.Unmarshal([]byte(run(0, append(args, "--json")...)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	run(0, "observe", "--tool", "web.fetch", "--source", "https://shop.example", "--session", "s1", "--id", "o1",
		"Great blender. The warranty desk of Norvik Kitchenware answers at desk@norvik.example around the clock every day.")
	run(0, "remember", "--session", "s1", "--id", "m1", "--key", "warranty",
		"The warranty desk of Norvik Kitchenware answers at desk@norvik.example around the clock")
	run(0, "remember", "--session", "s1", "--id", "m2", "--derived-from", "o1", "Norvik has a good warranty")
	own := run(0, "remember", "--session", "s1", "--id", "m3", "--origin", "user",
		"My sister Dana lives in Lisbon with her two dogs")
	run(0, "decide", "read_file", "--id", "a1", "--args", `{"path":"notes.txt"}`, "--session", "s1")

	all := list("beliefs", "ls")
	at := slices.IndexFunc(all, func(b ingest.Belief) bool { return b.Source == "https://shop.example" })
	if len(all) != 5 || at < 0 {
		t.Fatalf("%d beliefs: %+v\n%s", len(all), all, own)
	}
	page := all[at].ID
	tree := run(0, "beliefs", "lineage", page)
	for _, want := range []string{"source https://shop.example", "event agent/o1", "Norvik has a good warranty",
		"3 beliefs"} {
		if !strings.Contains(tree, want) {
			t.Errorf("the lineage does not name %q:\n%s", want, tree)
		}
	}
	if dot := run(0, "beliefs", "impact", page, "--format", "dot"); strings.Count(dot, "->") != 2 ||
		!strings.HasPrefix(dot, "digraph") {
		t.Errorf("%s", dot)
	}
	if svg := run(0, "beliefs", "lineage", page, "--format", "svg"); strings.Count(svg, "<rect") != 5 ||
		!strings.HasSuffix(svg, "</svg>\n") {
		t.Errorf("%s", svg)
	}
	run(2, "beliefs", "lineage", "bnobody")

	key := filepath.Join(t.TempDir(), "alice.key")
	run(0, "key", "gen", "alice", key, "--pin", "approver")
	run(0, "key", "activate")
	before := time.Now().UTC().Format(time.RFC3339Nano)
	if out := run(0, "beliefs", "quarantine", "--source", "https://shop.example", "--descendants",
		"--dry-run"); !strings.Contains(out, "3 found, 0 quarantined, 3 would be") {
		t.Errorf("%s", out)
	}
	if out := run(0, "beliefs", "quarantine", "--source", "https://shop.example", "--descendants", "--key", key,
		"--reason", "poisoned page"); !strings.Contains(out, "3 found, 3 quarantined") {
		t.Errorf("%s", out)
	}
	if out := run(0, "recall", "Norvik warranty desk", "--session", "s2"); strings.Contains(out, "context only") ||
		strings.Contains(out, "admitted") || strings.Count(out, "quarantined") != 3 {
		t.Errorf("what is quarantined is served:\n%s", out)
	}
	if out := run(0, "recall", "sister Dana", "--session", "s2"); !strings.Contains(out, "admitted") {
		t.Errorf("what the user said fell with it:\n%s", out)
	}
	run(0, "beliefs", "restore", page, "--key", key)
	if out := run(0, "beliefs", "confirm", page, "--key", key); !strings.Contains(out, "CONFIRM") {
		t.Errorf("%s", out)
	}
	// The confirmation gave the belief independent support. So the quarantine of its source must spare it.
	if out := run(0, "beliefs", "quarantine", "--source", "https://shop.example", "--dry-run"); !strings.Contains(out,
		"1 spared") {
		t.Errorf("%s", out)
	}
	now, then := list("beliefs", "as-of"), list("beliefs", "as-of", "--at", before)
	standing := func(items []ingest.Belief) string {
		i := slices.IndexFunc(items, func(b ingest.Belief) bool { return b.ID == page })
		if i < 0 {
			return "unknown"
		}
		return items[i].Axes.Truth.String() + " " + items[i].Axes.Security.String()
	}
	if standing(then) != "unverified clean" || standing(list("beliefs", "ls")) != "supported clean" {
		t.Errorf("before %s, now %s by the ledger and %s by ingest", standing(then), standing(now),
			standing(list("beliefs", "ls")))
	}
	if first := list("beliefs", "as-of", "--seq", "1"); len(first) != 0 {
		t.Errorf("at the ledger's beginning %+v was believed", first)
	}
	for _, none := range []string{"0", "", "99999", "1.3", "9007199254740993"} {
		if out, code := command(t, p.data, "beliefs", "as-of", "--seq", none); code != 1 || !strings.Contains(out, "--seq: ") {
			t.Errorf("as of entry %q: exit %d: %s", none, code, out)
		}
	}
}
