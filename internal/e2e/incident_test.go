package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natstest"
	"lazaret/internal/order"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// commands returns a function that runs a command on the pipeline, checks its exit code and returns its output.
func (p *pipeline) commands() func(want int, args ...string) string {
	return func(want int, args ...string) string {
		p.t.Helper()
		out, err := exec.Command(filepath.Join(bin, "lazaret"), append([]string{"--data", p.data},
			args...)...).CombinedOutput()
		code := 0
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ExitCode()
		} else if err != nil {
			p.t.Fatal(err)
		}
		if code != want {
			p.t.Fatalf("lazaret %s: exit %d, want %d:\n%s", strings.Join(args, " "), code, want, out)
		}
		return string(out)
	}
}

// TestAnIncidentIsOpenedByAFindingAndByAServiceAndFollowedToItsReport opens one incident by a serious finding, and
// another by a service that has a key. It works on the second one with the commands, up to the report.
func TestAnIncidentIsOpenedByAFindingAndByAServiceAndFollowedToItsReport(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	run := p.commands()
	heard, err := p.op.SubscribeSync("lz.live.demo.incident.>")
	if err != nil {
		t.Fatal(err)
	}
	alice := filepath.Join(t.TempDir(), "alice.key")
	run(0, "key", "gen", "alice", alice, "--pin", "approver")
	if p.trust, err = keys.LoadTrust(datafolder.TrustFile(p.data)); err != nil {
		t.Fatal(err)
	}
	service, stranger := p.key("canary", "", keys.RoleProbe), p.key("stranger", "")
	p.activateTrust()
	if _, err := p.c.Publish(p.ctx, streams.KindOut, "", &streams.Outcome{Head: streams.Head{Session: "s"},
		Action: "never-proposed", Status: "ok", Digest: "sha256:" + strings.Repeat("0", 64)}); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "a finding opens an incident", func() bool {
		return strings.Contains(run(0, "incident", "ls", "--json", "--where", `severity == "critical"`), "outcome-unreleased")
	})
	if m, err := heard.NextMsg(10 * time.Second); err != nil || !strings.HasSuffix(m.Subject, ".opened") {
		t.Errorf("%v, %v", m, err)
	}

	run(0, "observe", "--tool", "web.fetch", "--source", "https://shop.example", "--session", "s1", "--id", "page",
		"Great blender. The warranty desk of Norvik Kitchenware answers at desk@norvik.example around the clock every day.")
	run(0, "remember", "--session", "s1", "--id", "m2", "--derived-from", "page", "Norvik has a good warranty")
	if _, err := order.OpenIncident(p.ctx, p.op, stranger, "demo", "canary", beliefs.High,
		"a canary was served"); err == nil {
		t.Error("a key that nobody pinned opened an incident")
	}
	found := beliefs.IncidentFinding{Kind: "probe", ID: "canary-7", Text: "it came back in session s2"}
	id, err := order.OpenIncident(p.ctx, p.op, service, "demo", "canary", beliefs.High, "a canary was served", found)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := order.OpenIncident(p.ctx, p.op, service, "demo", "canary", beliefs.High, "a canary was served",
		found); err != nil || again != id {
		t.Errorf("%s, %v: want %s", again, err, id)
	}
	if out := run(0, "incident", "quarantine", id, "--source", "https://shop.example", "--descendants",
		"--dry-run"); !strings.Contains(out, "2 would be") {
		t.Errorf("%s", out)
	}
	if out := run(0, "incident", "quarantine", id, "--source", "https://shop.example", "--descendants", "--key", alice,
		"--reason", "the page is poisoned"); !strings.Contains(out, "1 found, 1 derive from them; 2 quarantined") {
		t.Errorf("%s", out)
	}
	if out := run(0, "recall", "Norvik warranty", "--session", "s2"); strings.Contains(out, "context only") ||
		strings.Count(out, "quarantined") != 2 {
		t.Errorf("what is quarantined is served:\n%s", out)
	}
	if out := run(0, "incident", "repair", id, "--key", alice); !strings.Contains(out, "0 recovered") {
		t.Errorf("%s", out)
	}
	run(1, "incident", "close", id, "--key", alice) // without a report
	if out := run(0, "incident", "close", id, "--key", alice, "--reason",
		"the shop's page was defaced"); !strings.Contains(out, "closed") {
		t.Errorf("%s", out)
	}
	run(2, "incident", "repair", id, "--key", alice)
	var states []string
	for range 6 {
		m, err := heard.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(states, err)
		}
		if strings.Contains(m.Subject, id) {
			states = append(states, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		}
		if len(states) == 5 {
			break
		}
	}
	if got := strings.Join(states, " "); got != "opened evidence quarantine repair close" {
		t.Errorf("the feed has %s", got)
	}
	var all []ingest.IncidentView
	if err := streams.Unmarshal([]byte(run(0, "incident", "ls", "--json", "--where", `state == "closed"`)),
		&all); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if i := all[0]; i.ID != id || i.By != beliefs.ByProbe || i.Who != "canary" || i.Findings != 2 || i.Closer != "alice" {
		t.Errorf("%+v", i)
	}
	// The ledger has each belief's revisions.
	n := 0
	for _, e := range p.entries(streams.TypeRevision) {
		n += strings.Count(string(e.Body), "incident "+id)
	}
	if n != 2 {
		t.Errorf("%d revisions name the incident", n)
	}
}
