package ruletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// TestDoc is the YAML form of a test file.
type TestDoc struct {
	Tests []testCase `yaml:"tests" doc:"Tests of the pack's rules. Each starts with an empty state."`
}

type testCase struct {
	Name     string           `yaml:"name" is:"required" doc:"The test's name: what it checks."`
	Group    string           `yaml:"group" is:"id" doc:"The sentinel group whose rules are tested. Default: the first."`
	Project  string           `yaml:"project" is:"id" doc:"Default: test."`
	Given    []TestEvent      `yaml:"given" is:"required,some" doc:"Events, in order."`
	Repeat   int              `yaml:"repeat" is:"natural" doc:"How many times the given events are played."`
	Fires    map[string]Wants `yaml:"fires" is:"ids" doc:"The rules that fire, with exactly the alerts of each: a number of alerts, one expected alert, or a list of expected alerts."`
	Silent   []string         `yaml:"silent" is:"id" doc:"Rules that must not fire."`
	Verdict  Verdicts         `yaml:"verdict" doc:"The verdict on the last proposal, or a list with the verdict on each."`
	Message  string           `yaml:"message" doc:"A text that the message of at least one alert contains."`
	Messages []string         `yaml:"messages" doc:"Texts. For each, the message of at least one alert contains it."`
}

// Wants are the alerts that a rule must raise: a number of alerts, one kind of alert, or a list of kinds. Of each
// alert, only the fields that the kind names are compared.
type Wants []want

type want struct {
	Count     *int   `yaml:"count" is:"natural" doc:"Default: 1."`
	Severity  string `yaml:"severity" is:"severity"`
	Effect    string `yaml:"effect" is:"effect"`
	Mode      string `yaml:"mode" is:"mode"`
	Subject   string `yaml:"subject" doc:"A kind, or a kind and an id."`
	Message   string `yaml:"message" doc:"A text that the message contains."`
	Exception string `yaml:"exception" is:"id" doc:"The exception that removes the alert's effect."`
}

// UnmarshalYAML implements yaml.InterfaceUnmarshaler.
func (ws *Wants) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	switch v.(type) {
	case map[string]any:
		*ws = make(Wants, 1)
		return decode(&(*ws)[0])
	case []any:
		return decode((*[]want)(ws))
	}
	var n int
	if err := decode(&n); err != nil {
		return err
	}
	*ws = Wants{{Count: &n}}
	return nil
}

func (w *want) Wanted() int {
	if w.Count == nil {
		return 1
	}
	return *w.Count
}

func (w *want) matches(a *streams.Alert) bool {
	is := func(want string, got ...string) bool { return want == "" || slices.Contains(got, want) }
	return is(w.Severity, a.Severity) && is(w.Effect, a.Effect) && is(w.Mode, a.Mode) && is(w.Subject, a.Subject.Kind,
		a.Subject.Kind+" "+a.Subject.ID) &&
		is(w.Exception, a.Exception) &&
		strings.Contains(a.Message, w.Message)
}

func (w *want) String() string {
	var b strings.Builder
	for _, f := range [][2]string{{"severity", w.Severity}, {"effect", w.Effect}, {"mode", w.Mode},
		{"subject", w.Subject}, {"message", w.Message}, {"exception", w.Exception}} {
		if f[1] != "" {
			fmt.Fprintf(&b, " %s %q", f[0], f[1])
		}
	}
	return b.String()
}

// Verdicts is the expected verdict on the last proposal of a test. If it is a list, it has the expected verdict on each
// proposal.
type Verdicts struct {
	each bool
	all  []string
}

// UnmarshalYAML implements yaml.InterfaceUnmarshaler.
func (v *Verdicts) UnmarshalYAML(decode func(any) error) error {
	var x any
	if err := decode(&x); err != nil {
		return err
	}
	if _, v.each = x.([]any); v.each {
		return decode(&v.all)
	}
	v.all = make([]string, 1)
	return decode(&v.all[0])
}

// Options selects tests and what to measure.
type Options struct {
	Run      *regexp.Regexp // tests whose file/name matches; nil means all
	Coverage bool           // measure the coverage
}

// Report is the result of a test run.
type Report struct {
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures,omitempty"`
	// Fired is the number of tests in which each rule fired.
	Fired    map[string]int `json:"fired"`
	Coverage *Coverage      `json:"coverage,omitempty"`
}

// Failure says what a test expected and did not get.
type Failure struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Test string `json:"test"`
	Text string `json:"text"`
}

// String returns the failure on one line, with its position at the beginning.
func (f Failure) String() string { return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Test, f.Text) }

// String lists the failures, and says how many tests ran and failed.
func (r Report) String() string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintln(&b, "FAIL", f)
	}
	fmt.Fprintf(&b, "%d tests passed, %d failed\n", r.Passed, r.Failed)
	return b.String()
}

// Run runs all tests of a rule set.
func Run(ctx context.Context, src *rules.Source) (Report, error) {
	return RunWith(ctx, src, Options{})
}

// RunWith runs those tests of a rule set that the options select.
func RunWith(ctx context.Context, src *rules.Source, o Options) (Report, error) {
	rep := Report{Fired: make(map[string]int)}
	set, err := rules.Compile(src)
	if err != nil {
		return rep, err
	}
	var cov *coverage
	if o.Coverage {
		if cov, err = newCoverage(src, set); err != nil {
			return rep, err
		}
	}
	var bad rules.Problems
	for _, name := range slices.Sorted(maps.Keys(src.Files)) {
		if !strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		var td TestDoc
		c := rules.Draft{Source: src}
		d := c.Decode(name, &td)
		bad = append(bad, c.Problems...)
		for i := range td.Tests {
			if err := ctx.Err(); err != nil {
				return rep, err
			}
			tc := &td.Tests[i]
			if o.Run != nil && !o.Run.MatchString(name+"/"+tc.Name) {
				continue
			}
			t := &testRun{testCase: tc, doc: d, path: []any{"tests", i}, set: set, cov: cov}
			for r := range t.run(ctx) {
				rep.Fired[r]++
			}
			if err := ctx.Err(); err != nil {
				return rep, err // ctx has ended, so failures of this test have no meaning
			}
			if len(t.failures) == 0 {
				rep.Passed++
			} else {
				rep.Failed++
			}
			rep.Failures = append(rep.Failures, t.failures...)
		}
	}
	if len(bad) > 0 {
		return rep, bad
	}
	if cov != nil {
		rep.Coverage = cov.report()
	}
	return rep, nil
}

// testRun is the state of one running test.
type testRun struct {
	*testCase
	doc      *strictyaml.Document
	path     []any
	set      *rules.Set
	cov      *coverage
	failures []Failure
}

// fail records a failure of the test, at the place of the test file that path leads to.
func (t *testRun) fail(path []any, format string, args ...any) {
	e := t.doc.Errorf(append(slices.Clip(t.path), path...), format, args...)
	t.failures = append(t.failures, Failure{e.File, e.Line, t.Name, e.Msg})
}

// run evaluates the test's events, and compares alerts and verdicts with the expected ones. It returns the alerts by
// rule.
func (t *testRun) run(ctx context.Context) map[string][]streams.Alert {
	group := cmp.Or(t.Group, t.set.Groups()[0])
	ev := t.set.Group(group)
	if ev == nil {
		t.fail([]any{"group"}, "there is no group %q%s", group, rules.Suggest(group, t.set.Groups()))
		return nil
	}
	t.checkNames(ev)
	tl, st := newTimeline(t.Project), index.NewMemStore()
	watch := func(*streams.Entry) error { return nil }
	if t.cov != nil {
		watch = t.cov.watch(ev)
	}
	got := make(map[string][]streams.Alert)
	var verdicts, messages []string
	for range max(t.Repeat, 1) {
		if ctx.Err() != nil {
			return got
		}
		for i := range t.Given {
			at := []any{"given", i}
			e, err := tl.add(&t.Given[i])
			if err != nil {
				t.fail(at, "%v", err)
				return got
			}
			res, err := ev.Eval(st, e)
			if err = errors.Join(err, watch(e)); err != nil {
				t.fail(at, "%v", err)
				return got
			}
			for _, a := range res.Alerts {
				got[a.Rule] = append(got[a.Rule], a)
				messages = append(messages, a.Message)
				if a.Error != "" {
					t.fail(at, "rule %s failed: %s", a.Rule, a.Error)
				}
			}
			if e.Type.Proposal() {
				verdicts = append(verdicts, res.Verdict.String())
			}
			if err := tl.hear(ev, st, e, res.Verdict); err != nil {
				t.fail(at, "%v", err)
				return got
			}
		}
	}
	t.compare(got, verdicts, messages)
	return got
}

// checkNames records a failure for each rule that the test names and that does not exist, or is not in the test's
// group.
func (t *testRun) checkNames(ev *rules.Evaluator) {
	var known []string
	for _, r := range ev.Rules() {
		known = append(known, r.ID)
	}
	check := func(path []any, id string) {
		switch {
		case t.set.Rule(id) == nil:
			t.fail(path, "there is no rule %q%s", id, rules.Suggest(id, known))
		case !slices.Contains(known, id):
			t.fail(path, "rule %s is not in group %s", id, ev.Group)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Fires)) {
		check([]any{"fires", id}, id)
	}
	for i, id := range t.Silent {
		check([]any{"silent", i}, id)
	}
}

func (t *testRun) compare(got map[string][]streams.Alert, gave, messages []string) {
	for _, r := range slices.Sorted(maps.Keys(t.Fires)) {
		path := []any{"fires", r}
		total, left := 0, slices.Clone(got[r])
		for i := range t.Fires[r] {
			w := &t.Fires[r][i]
			n := w.Wanted()
			total += n
			for range n {
				j := slices.IndexFunc(left, func(a streams.Alert) bool { return w.matches(&a) })
				if j < 0 && len(left) > 0 {
					t.fail(path, "rule %s raised no alert with%s: %s", r, w, describeAlerts(left))
				}
				if j < 0 {
					break
				}
				left = slices.Delete(left, j, j+1)
			}
		}
		if len(got[r]) != total && t.set.Rule(r) != nil {
			t.fail(path, "rule %s raised %d alerts, want %d", r, len(got[r]), total)
		}
	}
	for i, r := range t.Silent {
		if n := len(got[r]); n > 0 {
			t.fail([]any{"silent", i}, "rule %s raised %d alerts, want none: %s", r, n, describeAlerts(got[r]))
		}
	}
	for i, m := range append([]string{t.Message}, t.Messages...) {
		if !slices.ContainsFunc(messages, func(s string) bool { return strings.Contains(s, m) }) && m != "" {
			path := []any{"message"}
			if i > 0 {
				path = []any{"messages", i - 1}
			}
			t.fail(path, "no message contains %q: %q", m, messages)
		}
	}
	t.compareVerdicts(gave)
}

func (t *testRun) compareVerdicts(gave []string) {
	path := []any{"verdict"}
	for _, v := range t.Verdict.all {
		if _, err := streams.ParseVerdict(v); err != nil {
			t.fail(path, "%v", err)
			return
		}
	}
	switch want := t.Verdict.all; {
	case t.Verdict.each:
		if !slices.Equal(want, gave) {
			t.fail(path, "the verdicts are %s, want %s", strings.Join(gave, ", "), strings.Join(want, ", "))
		}
	case len(want) == 0:
	case len(gave) == 0:
		t.fail(path, "none of the given events gets a verdict")
	case gave[len(gave)-1] != want[0]:
		t.fail(path, "the verdict is %s, want %s", gave[len(gave)-1], want[0])
	}
}

// describeAlerts describes alerts on one line, for a failure.
func describeAlerts(as []streams.Alert) string {
	var out []string
	for _, a := range as[:min(len(as), 3)] {
		s := fmt.Sprintf("severity %q effect %q mode %q subject %q message %q", a.Severity, a.Effect, a.Mode,
			a.Subject.Kind+" "+a.Subject.ID, streams.Clip(a.Message, 120))
		if a.Exception != "" {
			s += fmt.Sprintf(" exception %q", a.Exception)
		}
		out = append(out, s)
	}
	if len(as) > len(out) {
		out = append(out, fmt.Sprintf("and %d more", len(as)-len(out)))
	}
	return strings.Join(out, "; ")
}
