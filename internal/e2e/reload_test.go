package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// says waits until the program's output, from byte from on, matches a regular expression. It returns the match and the
// end of the match.
func (p *process) says(from int, re string) (match []string, end int) {
	p.t.Helper()
	x := regexp.MustCompile(re)
	deadline := time.Now().Add(20 * time.Second)
	for {
		out := p.output()[from:]
		if at := x.FindStringSubmatchIndex(out); at != nil {
			return x.FindStringSubmatch(out), from + at[1]
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not say %s:\n%s", p.name, re, p.output())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const watched = `rules:
  - id: reads
    title: A file is read
    severity: low
    subject: action
    on: [action]
    when: "action.tool == 'read_file'"
    effect: EFFECT
    on_error: deny
    message: "'m'"
`

func TestAFolderOfRulesIsFollowed(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	dir := filepath.Join(t.TempDir(), "packs")
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verdict := func(id string) (streams.Verdict, string) {
		t.Helper()
		v := p.decide(&streams.Action{Head: streams.Head{ID: id, Session: "s"}, Tool: "read_file"})
		return v.Verdict, v.Rules
	}
	put("groups.yaml", "groups:\n  core: [p]\n")
	put("p/pack.yaml", "name: p\ntitle: P\n")
	put("p/rules.yaml", strings.Replace(watched, "EFFECT", "hold", 1))
	put("p/reads.test.yaml", `tests:
  - name: a file is read
    given: [{action: {tool: read_file}}]
    fires: {reads: 1}
    verdict: hold
  - name: a file is written
    given: [{action: {tool: write_file}}]
    silent: [reads]
`)
	if v, _ := verdict("a0"); v != streams.Allow {
		t.Fatalf("by the shipped rules: %v", v)
	}
	w := start(t, "in force: sha256:", "lazaret", "rules", "activate", dir, "--watch", "--yes", "--data", p.data)
	m, at := w.says(0, `in force: (sha256:[0-9a-f]{64}) \(2 tests passed\)\n`)
	first := m[1]
	if v, by := verdict("a1"); v != streams.Hold || by != first {
		t.Errorf("by the first set: %v under %s", v, by)
	}

	// The rule file has a typo. The output must show its position with a caret, and the old rule set must stay active.
	put("p/rules.yaml", strings.Replace(strings.Replace(watched, "EFFECT", "deny", 1), "action.tool", "action.tol", 1))
	_, at = w.says(at, `packs/p/rules.yaml:7:\d+: error: [^\n]*tol[^\n]*\n +7 \| [^\n]*action.tol[^\n]*\n +\| +\^\n(?s:.*)1 error, not activated; still in force: `+first+"\n")
	if v, by := verdict("a2"); v != streams.Hold || by != first {
		t.Errorf("after a broken edit: %v under %s", v, by)
	}

	// It loads, but its test fails.
	put("p/rules.yaml", strings.Replace(watched, "EFFECT", "deny", 1))
	_, at = w.says(at, `FAIL p/reads.test.yaml:\d+: a file is read: [^\n]*\n(?s:.*)not activated; still in force: `+
		first+"\n")
	if v, by := verdict("a3"); v != streams.Hold || by != first {
		t.Errorf("after an edit whose test fails: %v under %s", v, by)
	}

	// Corrected.
	b, err := os.ReadFile(filepath.Join(dir, "p/reads.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	put("p/reads.test.yaml", strings.Replace(string(b), "verdict: hold", "verdict: deny", 1))
	m, at = w.says(at, `in force: (sha256:[0-9a-f]{64}) \(2 tests passed\)\n`)
	if v, by := verdict("a4"); v != streams.Deny || by != m[1] || by == first {
		t.Errorf("by the mended set: %v under %s", v, by)
	}

	// The folder is missing for some time, as it may be when another branch is checked out.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	_, at = w.says(at, `no such file or directory\nnot activated; still in force: `+m[1]+"\n")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	w.says(at, `in force already: `+m[1]+` \(2 tests passed\)`)
	w.interrupt()
	if v, _ := verdict("a5"); v != streams.Deny {
		t.Errorf("once nobody follows the folder: %v", v)
	}
	if out, code := command(t, p.data, "rules", "activate", "--watch"); code != 1 ||
		!strings.Contains(out, "needs a folder") {
		t.Errorf("without a folder: exit %d, %s", code, out)
	}
}

// lazaret does not sign rules that do not compile. But another program or another version may do so. Ingest must refuse
// such rules.
func TestASignedBundleThatDoesNotCompileIsRefused(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{Rules: ruleSet(t, strings.Replace(watched, "EFFECT", "hold", 1))})
	live, err := p.op.SubscribeSync("lz.live." + streams.SystemProject + ".rejected")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	before := inForce(t, p)
	signer, err := keys.LoadSigner(datafolder.OperatorKey(p.data))
	if err != nil {
		t.Fatal(err)
	}
	bad := ruleSet(t, strings.Replace(watched, "action.tool", "action.tol", 1))
	if err := embedded.Activate(p.ctx, p.op, signer, streams.DoActivateRules, bad); err != nil {
		t.Fatal(err)
	}
	var es []streams.Entry
	natstest.Eventually(t, time.Minute, "refusals", func() bool {
		es = p.entries(streams.TypeRejected)
		return len(es) == streams.Partitions
	})
	for _, e := range es {
		var r streams.RejectedEntry
		if err := streams.Unmarshal(e.Body, &r); err != nil {
			t.Fatal(err)
		}
		if r.Code != streams.CodeBundle || !strings.Contains(r.Reason, "tol") {
			t.Errorf("partition %d: %s %s", e.Partition, r.Code, r.Reason)
		}
	}
	m, err := live.NextMsg(5 * time.Second)
	if err != nil || !strings.Contains(string(m.Data), string(streams.CodeBundle)) {
		t.Errorf("its operator does not hear of it: %v", err)
	}
	if now := inForce(t, p); now != before {
		t.Errorf("in force was %+v, is %+v", before, now)
	}
	if v := p.decide(read("s")); v.Verdict != streams.Hold || v.Rules != before.Rules || len(v.Degraded) > 0 {
		t.Errorf("the running set does not go on: %+v", v)
	}
	if n := len(p.entries(streams.TypeActivation)); n != 3*streams.Partitions {
		t.Errorf("%d activations, want those of the start", n)
	}
}

// inForce returns the rule set and the policy that are active in all partitions.
func inForce(t *testing.T, p *pipeline) ingest.ActiveAnswer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all ingest.ActiveAnswer
	for part := range streams.Partitions {
		var a ingest.ActiveAnswer
		if err := query.Ask(ctx, p.op, ingest.AskActive, part, struct{}{}, &a); err != nil {
			t.Fatal(err)
		}
		if part > 0 && a != all {
			t.Fatalf("partition %d has %+v, others %+v", part, a, all)
		}
		all = a
	}
	return all
}
