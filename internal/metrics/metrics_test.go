package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

func evaluator(t testing.TB, ids ...string) *rules.Evaluator {
	t.Helper()
	text := "rules:\n"
	for _, id := range ids {
		when := "action.tool != ''"
		if strings.HasPrefix(id, "bad") {
			when = "int(action.tool) > 3"
		}
		text += fmt.Sprintf("  - {id: %s, title: T, severity: low, subject: action, on: [action], effect: hold, on_error: "+
			"deny, message: \"'m'\", when: %q}\n", id, when)
	}
	b, err := rules.Pack(fstest.MapFS{
		"groups.yaml":  {Data: []byte("groups:\n  core: [p]\n")},
		"p/pack.yaml":  {Data: []byte("name: p\ntitle: P\n")},
		"p/rules.yaml": {Data: []byte(text)},
		"exceptions.yaml": {Data: []byte("exceptions:\n  - {id: x1, rules: [one], owner: o, reason: r, expires: " +
			"2040-01-01, when: \"event.project == 'free'\"}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.CompileBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	return set.Group("core")
}

// full returns a process with all stages and metrics, each with a count.
func full(t testing.TB) *Process {
	t.Helper()
	p := New()
	p.Stage("ingest", func(context.Context) (uint64, error) { return 0, nil })
	p.Sentinel("core").InForce(0, "sha256:1", evaluator(t, "one"))
	p.Arbiter().Required("core")
	p.Ingest().Published(&streams.Entry{Type: streams.TypeObservation}, &streams.ObservationEntry{})
	p.Auditor()
	p.Complete()
	return p
}

// row formats a metric as in docs/operations.md.
func row(name, kind string, labels []string, help string) string {
	for i, l := range labels {
		labels[i] = "`" + l + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", name, kind, strings.Join(labels, ", "), help)
}

// table returns the metrics of the registry in the format of row.
func table(t testing.TB, p *Process) (rows []string) {
	t.Helper()
	fams, err := p.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fams {
		if !strings.HasPrefix(f.GetName(), "lazaret_") {
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		rows = append(rows, row(f.GetName(), strings.ToLower(f.GetType().String()), labels, f.GetHelp()))
	}
	// Every registered metric must have been gathered.
	ch := make(chan *prometheus.Desc)
	go func() { p.reg.Describe(ch); close(ch) }()
	described := 0
	for d := range ch {
		if strings.Contains(d.String(), `fqName: "lazaret_`) {
			described++
		}
	}
	if described != len(rows) || described == 0 {
		t.Fatalf("%d metrics are registered, %d gathered: full has to touch all", described, len(rows))
	}
	return rows
}

func TestTheTableInTheDocumentsIsTheRegistry(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "| `lazaret_") {
			have = append(have, l)
		}
	}
	want := table(t, full(t))
	if !slices.Equal(have, want) {
		t.Errorf("the table in docs/operations.md has to be\n%s", strings.Join(want, "\n"))
	}
}

func TestTheExampleAlertsNameMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(b, &doc, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	known := strings.Join(table(t, full(t)), "\n")
	names, alerts := regexp.MustCompile(`\blazaret_[a-z_]+`), 0
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			alerts++
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("%q is not complete", r.Alert)
			}
			if r.For != "" {
				if _, err := time.ParseDuration(r.For); err != nil {
					t.Errorf("%s: %v", r.Alert, err)
				}
			}
			found := names.FindAllString(r.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s asks for no metric of ours: %s", r.Alert, r.Expr)
			}
			for _, n := range found {
				if !strings.Contains(known, "`"+n+"`") {
					t.Errorf("%s: there is no metric %s", r.Alert, n)
				}
			}
			for _, l := range regexp.MustCompile(`by \((\w+)\)`).FindAllStringSubmatch(r.Expr, -1) {
				if !regexp.MustCompile("`" + found[0] + "`.*\\| .*`" + l[1] + "`").MatchString(known) {
					t.Errorf("%s: %s has no label %s", r.Alert, found[0], l[1])
				}
			}
		}
	}
	if alerts != 13 {
		t.Errorf("%d alerts", alerts)
	}
}

func TestReadyMeansCaughtUp(t *testing.T) {
	p := New()
	tail, away := uint64(0), error(nil)
	ask := func(want int, says string) {
		t.Helper()
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != want || !strings.Contains(w.Body.String(), says) {
			t.Errorf("status %d, want %d with %q: %s", w.Code, want, says, w.Body)
		}
	}
	ask(http.StatusServiceUnavailable, "starting")
	st := p.Stage("ingest", func(context.Context) (uint64, error) { return tail, away })
	st.Ready.Store(true)
	ask(http.StatusServiceUnavailable, "starting")
	p.Complete()
	ask(http.StatusOK, "ingest: ready, 0 entries behind")
	st.Ready.Store(false)
	ask(http.StatusServiceUnavailable, "reading the ledger")
	st.Ready.Store(true)
	tail = ReadyLag + 1
	ask(http.StatusServiceUnavailable, "5001 entries behind, more than 5000")
	st.Folded.Store(1)
	ask(http.StatusOK, "5000 entries behind")
	st.Folded.Store(tail + 7) // the tail was read earlier
	ask(http.StatusOK, "0 entries behind")
	away = errors.New("no servers")
	ask(http.StatusServiceUnavailable, "no servers")
	if n, err := testutil.GatherAndCount(p.reg, "lazaret_stage_lag_entries"); err != nil || n != 0 {
		t.Errorf("the lag is unknown, but there are %d metrics of it, %v", n, err)
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("the process is live, but /healthz answers %d", w.Code)
	}
	w = httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/readyz", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func judge(t testing.TB, ev *rules.Evaluator, project string) {
	t.Helper()
	body, err := streams.Marshal(&streams.ActionEntry{EntryHead: streams.EntryHead{ID: "e", Agent: "a", Session: "s"},
		Action: beliefs.Action{Tool: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ev.Eval(index.NewMemStore(), &streams.Entry{Seq: 1, Project: project, Stage: streams.StageIngest,
		Type: streams.TypeAction, Body: body}); err != nil {
		t.Fatal(err)
	}
}

func TestRulesAreCountedAndForgottenWithTheirSet(t *testing.T) {
	p := New()
	s := p.Sentinel("core")
	value := func(c *prometheus.CounterVec, labels ...string) float64 {
		return testutil.ToFloat64(c.WithLabelValues(labels...))
	}
	first, second := evaluator(t, "bad", "one"), evaluator(t, "one", "two")
	s.InForce(0, "sha256:1", first)
	s.InForce(1, "sha256:1", first)
	for range sampleEvery - 1 {
		judge(t, first, "p")
	}
	if v := value(s.v.seconds, "one"); v != 0 {
		t.Errorf("timed before the %dth evaluation: %v", sampleEvery, v)
	}
	judge(t, first, "free")
	if v := value(s.v.seconds, "one"); v <= 0 || v > 1 {
		t.Errorf("%v s in a rule", v)
	}
	for name, got := range map[string][2]float64{
		"evaluations":         {value(s.v.evaluations, "one"), sampleEvery},
		"errors":              {value(s.v.errors, "bad"), sampleEvery},
		"fires of on_error":   {value(s.v.fires, "bad", "deny", "enforce"), sampleEvery},
		"fires":               {value(s.v.fires, "one", "hold", "enforce"), sampleEvery - 1},
		"fires, with no bite": {value(s.v.fires, "one", "hold", excepted), 1},
		"partitions":          {testutil.ToFloat64(s.v.info.WithLabelValues("sha256:1", "core")), 2},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}

	s.InForce(0, "sha256:2", second)
	if n := testutil.CollectAndCount(s.v.errors); n != 3 {
		t.Errorf("%d rules while both sets are in force", n)
	}
	s.InForce(1, "sha256:2", second)
	if n := testutil.CollectAndCount(s.v.errors); n != 2 || value(s.v.evaluations, "one") != sampleEvery {
		t.Errorf("%d rules once the first set is gone", n)
	}
	if n := testutil.CollectAndCount(s.v.info); n != 1 {
		t.Errorf("%d rule sets", n)
	}
	// The first rule set comes into force again after its counters were removed. Its counters must count from zero.
	s.InForce(0, "sha256:1", first)
	judge(t, first, "p")
	if v := value(s.v.errors, "bad"); v != 1 {
		t.Errorf("%v errors after the rule set came into force again", v)
	}
	s.InForce(0, "", nil)
	s.InForce(1, "", nil)
	if n := testutil.CollectAndCount(s.v.info) + testutil.CollectAndCount(s.v.errors) +
		testutil.CollectAndCount(s.v.fires); n != 0 {
		t.Errorf("%d series with nothing in force", n)
	}
}

func TestVerdictsAreCountedOnce(t *testing.T) {
	a := New().Arbiter()
	v := streams.VerdictEntry{Type: streams.TypeAction, Verdict: streams.Hold, Degraded: []string{"core"}}
	give := func(v streams.VerdictEntry, note bool) {
		e := &streams.Entry{Type: streams.TypeVerdict}
		var n any
		if note {
			n = &Verdict{Entry: &v, Proposed: time.Now().Add(-time.Second)}
		} else {
			b, err := streams.Marshal(&v)
			if err != nil {
				t.Fatal(err)
			}
			e.Body = b
		}
		a.Published(e, n)
	}
	give(v, true)
	give(v, false) // decided before a restart: the duration is unknown
	v.Again = true
	give(v, false)
	v.Again, v.Late, v.Verdict = false, true, streams.Deny
	give(v, true)
	a.Published(&streams.Entry{Type: streams.TypeDue}, nil)
	if h, d := testutil.ToFloat64(a.verdicts.WithLabelValues("action", "hold")), testutil.ToFloat64(
		a.verdicts.WithLabelValues("action", "deny")); h != 2 || d != 1 {
		t.Errorf("%v holds, %v denies", h, d)
	}
	if n := testutil.ToFloat64(a.silent.WithLabelValues("core")); n != 2 {
		t.Errorf("%v times silent", n)
	}
	out, err := testutil.CollectAndFormat(a.seconds, expfmt.TypeTextPlain, "lazaret_verdict_seconds")
	if err != nil || !strings.Contains(string(out), "lazaret_verdict_seconds_count 1\n") ||
		!strings.Contains(string(out), `le="0.5"} 0`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNobodyLooking(t *testing.T) {
	var p *Process
	p.Complete()
	if p.Stage("s", nil) != nil {
		t.Error("counts are kept")
	}
	p.Sentinel("g").InForce(0, "d", nil)
	p.Arbiter().Published(&streams.Entry{Type: streams.TypeVerdict}, nil)
	p.Arbiter().Holds(1)
	p.Arbiter().Required("g")
	p.Ingest().Published(&streams.Entry{}, nil)
	p.Auditor().Head(1, 0)
	p.Auditor().Signed(1)
	p.Auditor().Uncosigned(1)
}

func BenchmarkObserved(b *testing.B) {
	ev := evaluator(b, "one", "two")
	New().Sentinel("core").InForce(0, "d", ev)
	for b.Loop() {
		judge(b, ev, "p")
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana/lazaret.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	known := strings.Join(table(t, full(t)), "\n")
	asked := 0
	for _, p := range doc.Panels {
		for _, q := range p.Targets {
			for _, n := range regexp.MustCompile(`\blazaret_[a-z_]+`).FindAllString(q.Expr, -1) {
				asked++
				if n = strings.TrimSuffix(n, "_bucket"); !strings.Contains(known, "`"+n+"`") {
					t.Errorf("%s: there is no metric %s", p.Title, n)
				}
			}
			for _, l := range regexp.MustCompile(`by \((\w+)\) \(\w*\(?(lazaret_\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if n := strings.TrimSuffix(l[2], "_bucket"); l[1] != "le" && !regexp.MustCompile("`"+n+"`.*\\| .*`"+l[1]+
					"`").MatchString(known) {
					t.Errorf("%s: %s has no label %s", p.Title, n, l[1])
				}
			}
		}
	}
	if asked < 15 {
		t.Errorf("only %d metrics are asked for", asked)
	}
}

// Decisions in synthetic projects, which replays and probes use, are not counted.
func TestSyntheticProjectsCountNowhere(t *testing.T) {
	p := New()
	a, i := p.Arbiter(), p.Ingest()
	s := p.Sentinel("core")
	ev := evaluator(t, "one")
	s.InForce(0, "d", ev)
	o := s.v.observer(ev)
	for _, c := range []struct {
		project string
		want    float64
	}{{"syn-probe-tea", 0}, {"demo", 1}} {
		v := &streams.VerdictEntry{Type: streams.TypeAction, Verdict: streams.Hold, Degraded: []string{"core"}}
		a.Published(&streams.Entry{Type: streams.TypeVerdict, Project: c.project}, &Verdict{Entry: v})
		i.Published(&streams.Entry{Type: streams.TypeAction, Project: c.project}, nil)
		i.Published(&streams.Entry{Type: streams.TypeRejected, Project: c.project},
			&streams.RejectedEntry{Code: streams.CodeInvalid})
		i.Published(&streams.Entry{Type: streams.TypeRepeat, Project: c.project}, nil)
		for r := range o.by {
			o.End(r, time.Time{}, []streams.Alert{{Rule: r.ID, Effect: "hold", Mode: "enforce", Project: c.project}})
		}
		for what, m := range map[string]prometheus.Collector{"verdicts": a.verdicts.WithLabelValues("action", "hold"),
			"silent groups": a.silent.WithLabelValues("core"),
			"admitted":      i.admitted.WithLabelValues("action"),
			"rejected":      i.rejected.WithLabelValues(string(streams.CodeInvalid)), "repeats": i.repeats,
			"fires": o.v.fires.WithLabelValues("one", "hold", "enforce")} {
			if got := testutil.ToFloat64(m); got != c.want {
				t.Errorf("after an entry of %s there are %v %s, want %v", c.project, got, what, c.want)
			}
		}
	}
}
