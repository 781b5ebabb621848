package e2e

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/metrics"
	"lazaret/internal/natstest"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// get requests a page from a process's metrics server. It returns the body and the status code.
func get(t *testing.T, addr, path string) (string, int) {
	t.Helper()
	c := http.Client{Timeout: 10 * time.Second}
	r, err := c.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), r.StatusCode
}

// scrape returns the values of Lazaret's metrics. The key is the name of a metric with its labels.
func scrape(t *testing.T, addr string) map[string]string {
	t.Helper()
	page, code := get(t, addr, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d\n%s", code, page)
	}
	out := make(map[string]string)
	for s := bufio.NewScanner(strings.NewReader(page)); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), " "); ok && strings.HasPrefix(name, "lazaret_") {
			out[name] = value
		}
	}
	return out
}

// expect waits until the metrics have the values in want. It waits because counters are updated with a delay.
func expect(t *testing.T, addr string, want map[string]string) {
	t.Helper()
	var wrong string
	natstest.Eventually(t, time.Minute, "the metrics", func() bool {
		got := scrape(t, addr)
		wrong = ""
		for name, v := range want {
			if got[name] != v {
				wrong += fmt.Sprintf("%s is %q, want %q\n", name, got[name], v)
			}
		}
		if wrong != "" {
			t.Log(wrong)
		}
		return wrong == ""
	})
}

// ruleSet packs rules as a rule set with one group, core, which has one pack, p.
func ruleSet(t *testing.T, text string) []byte {
	t.Helper()
	b, err := rules.Pack(fstest.MapFS{
		"groups.yaml":  {Data: []byte("groups:\n  core: [p]\n")},
		"p/pack.yaml":  {Data: []byte("name: p\ntitle: P\n")},
		"p/rules.yaml": {Data: []byte(text)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARuleThatFailsCountsAsFiringAndIsCounted(t *testing.T) {
	t.Parallel()
	m := metrics.New()
	srv, err := m.Serve("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	if page, code := get(t, srv.Addr, "/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(page, "starting") {
		t.Errorf("before the start: %d %s", code, page)
	}
	p := newPipeline(t, embedded.Config{Metrics: m, Rules: ruleSet(t, `rules:
  - id: counts-tools
    title: The tool is a number above three
    severity: high
    subject: action
    on: [action]
    when: "int(action.tool) > 3"
    effect: hold
    on_error: deny
    message: "'m'"
  - id: looks
    title: Anything at all
    severity: low
    subject: action
    on: [action]
    when: "action.tool != ''"
    mode: shadow
    effect: hold
    on_error: hold
    message: "'m'"
`)})
	v := p.decide(read("s1"))
	var by *streams.Reason
	for i, r := range v.Reasons {
		if r.Rule == "counts-tools" {
			by = &v.Reasons[i]
		}
	}
	if v.Verdict != streams.Deny || by == nil || by.Verdict != streams.Deny {
		t.Errorf("on_error was not applied: %+v", v)
	}
	es := p.entries(streams.TypeAssessment)
	if len(es) != 1 {
		t.Fatalf("%d assessments", len(es))
	}
	var a streams.AssessmentEntry
	if err := streams.Unmarshal(es[0].Body, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Alerts) != 2 || a.Alerts[0].Rule != "counts-tools" || a.Alerts[0].Error == "" ||
		a.Alerts[0].Effect != "deny" || a.Alerts[1].Error != "" {
		t.Errorf("the assessment is %s", es[0].Body)
	}
	t.Logf("the alert's error: %s", a.Alerts[0].Error)

	expect(t, srv.Addr, map[string]string{`lazaret_rule_errors_total{rule="counts-tools"}`: "1"})

	p.decide(&streams.Action{Head: streams.Head{ID: "twice", Session: "s1"}, Tool: "read_file"})
	p.publish("lz.in.demo.agent.act", `{"id":"twice","session":"s1","tool":"read_file"}`)
	p.publish("lz.in.demo.agent.obs.tool", `{"id":"o1","content":7}`)
	expect(t, srv.Addr, map[string]string{
		`lazaret_rule_errors_total{rule="counts-tools"}`:                             "2",
		`lazaret_rule_errors_total{rule="looks"}`:                                    "0",
		`lazaret_rule_evaluations_total{rule="counts-tools"}`:                        "2",
		`lazaret_rule_fires_total{effect="deny",mode="enforce",rule="counts-tools"}`: "2",
		`lazaret_rule_fires_total{effect="hold",mode="enforce",rule="counts-tools"}`: "0",
		`lazaret_rule_fires_total{effect="hold",mode="shadow",rule="looks"}`:         "2",
		`lazaret_rule_seconds_total{rule="looks"}`:                                   "0",
		`lazaret_verdicts_total{type="action",verdict="deny"}`:                       "2",
		`lazaret_verdict_seconds_count`:                                              "2",
		`lazaret_silent_groups_total{group="core"}`:                                  "0",
		`lazaret_open_holds`:                         "0",
		`lazaret_admitted_total{type="action"}`:      "2",
		`lazaret_rejected_total{code="LZ101"}`:       "1",
		`lazaret_repeats_total`:                      "1",
		`lazaret_audit_unsigned_leaves`:              "0",
		`lazaret_stage_lag_entries{stage="ingest"}`:  "0",
		`lazaret_stage_lag_entries{stage="auditor"}`: "0",
		`lazaret_stage_ready{stage="sentinel-core"}`: "1",
	})
	info := 0
	for name, v := range scrape(t, srv.Addr) {
		if strings.HasPrefix(name, "lazaret_ruleset_info{") && v == fmt.Sprint(streams.Partitions) && strings.Contains(name,
			a.Digest) {
			info++
		}
		if strings.Contains(name, "demo") || strings.Contains(name, "agent") {
			t.Errorf("%s names a project or an agent", name)
		}
	}
	if info != 1 {
		t.Errorf("%d rule sets are in force everywhere", info)
	}
	if page, code := get(t, srv.Addr, "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d\n%s", code, page)
	}
}

func TestDaemonsServeMetricsAndHealth(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	start(t, "lazaret is up", "lazaret", "up", "--server-only", "--data", data, "--listen", addr)
	has := map[string]string{"ingest": "lazaret_repeats_total",
		"sentinels": `lazaret_rule_errors_total{rule="action-from-instruction"}`,
		"arbiter":   "lazaret_open_holds", "auditor": "lazaret_audit_head_index"}
	at, procs := make(map[string]string), make(map[string]*process)
	for name := range has {
		at[name] = freePort(t)
		procs[name] = start(t, "ready", name, "--data", data, "--metrics", at[name])
	}
	c, err := client.New(connect(t, data, "agent"), "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]streams.Verdict{"read_file": streams.Allow, "send_email": streams.Hold} {
		if rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: tool}); err != nil ||
			rep.Verdict != want {
			t.Fatalf("%s: %+v, %v", tool, rep, err)
		}
	}
	for name, metric := range has {
		if page, code := get(t, at[name], "/healthz"); code != http.StatusOK {
			t.Errorf("%s: /healthz %d %s", name, code, page)
		}
		natstest.Eventually(t, time.Minute, name+" is ready", func() bool {
			_, code := get(t, at[name], "/readyz")
			return code == http.StatusOK
		})
		if got := scrape(t, at[name]); got[metric] == "" {
			t.Errorf("%s has no %s: %v", name, metric, got)
		}
	}
	expect(t, at["arbiter"], map[string]string{"lazaret_open_holds": "1",
		`lazaret_verdicts_total{type="action",verdict="hold"}`: "1"})
	procs["arbiter"].interrupt()
	start(t, "ready", "arbiter", "--data", data, "--metrics", at["arbiter"])
	expect(t, at["arbiter"], map[string]string{"lazaret_open_holds": "1",
		`lazaret_verdicts_total{type="action",verdict="hold"}`: "0"})
	out, code := command(t, t.TempDir(), "up", "--listen", "127.0.0.1:0", "--metrics", at["ingest"])
	if code != 1 || !strings.Contains(out, "in use") {
		t.Errorf("on a port that is taken: exit %d, %s", code, out)
	}
}
