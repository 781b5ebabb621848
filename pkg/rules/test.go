package rules

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// testDoc is a test file.
type testDoc struct {
	Tests []testCase `yaml:"tests"`
}

type testCase struct {
	Name    string         `yaml:"name"`
	Group   string         `yaml:"group"` // default: the first
	Given   []given        `yaml:"given"`
	Repeat  int            `yaml:"repeat"` // play the given events so often
	Fires   map[string]int `yaml:"fires"`  // rule → alerts published, exactly
	Silent  []string       `yaml:"silent"` // rules that must not fire
	Verdict string         `yaml:"verdict"`
	Message string         `yaml:"message"` // some alert's message holds this
}

// given is one event, in the words of ledger entries, with what a test leaves
// out filled in.
type given struct {
	After       string       `yaml:"after"` // time since the event before
	Session     string       `yaml:"session"`
	Agent       string       `yaml:"agent"`
	Observation *givenObs    `yaml:"observation"`
	Memory      *givenMemory `yaml:"memory"`
	Decision    *givenDec    `yaml:"decision"`
	Action      *givenAction `yaml:"action"`
}

type givenObs struct {
	Origin string `yaml:"origin"`
	Tool   string `yaml:"tool"`
	Source string `yaml:"source"`
	Text   string `yaml:"text"`
}

type givenMemory struct {
	Origin    string `yaml:"origin"`
	Inherited string `yaml:"inherited"`
	Key       string `yaml:"key"`
	Category  string `yaml:"category"`
	Channel   string `yaml:"channel"`
	KeyHolder string `yaml:"key_holder"`
	Text      string `yaml:"text"`
	Times     int    `yaml:"times"` // the text so often, for size
	Age       string `yaml:"age"`   // since the same content was first met
}

type givenDec struct {
	Beliefs []givenBelief `yaml:"beliefs"`
}

type givenBelief struct {
	ID         string  `yaml:"id"`
	Truth      string  `yaml:"truth"`
	Quality    string  `yaml:"quality"`
	Confidence float64 `yaml:"confidence"`
}

type givenAction struct {
	Tool       string         `yaml:"tool"`
	Level      int            `yaml:"level"`
	Effects    []string       `yaml:"effects"`
	Args       map[string]any `yaml:"args"`
	Confidence *float64       `yaml:"confidence"`
	Beliefs    []givenBelief  `yaml:"beliefs"`
}

// TestReport is what a run of tests found.
type TestReport struct {
	Passed, Failed int
	Failures       []string
	// Fired counts, by rule, in how many tests it fired.
	Fired map[string]int
}

func (r TestReport) String() string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintln(&b, "FAIL", f)
	}
	fmt.Fprintf(&b, "%d tests passed, %d failed\n", r.Passed, r.Failed)
	return b.String()
}

// Test runs all tests of a rule set.
func Test(ctx context.Context, src *Source) (TestReport, error) {
	rep := TestReport{Fired: make(map[string]int)}
	set, err := Compile(src)
	if err != nil {
		return rep, err
	}
	var names []string
	for name := range src.files {
		if strings.HasSuffix(name, ".test.yaml") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var bad Problems
	for _, name := range names {
		var td testDoc
		c := compiler{src: src}
		c.decode(name, &td)
		bad = append(bad, c.bad...)
		for i := range td.Tests {
			if err := ctx.Err(); err != nil {
				return rep, err
			}
			tc := &td.Tests[i]
			problems, err := tc.run(set, rep.Fired)
			if err != nil {
				problems = append(problems, err.Error())
			}
			if len(problems) == 0 {
				rep.Passed++
				continue
			}
			rep.Failed++
			for _, p := range problems {
				rep.Failures = append(rep.Failures, fmt.Sprintf("%s: %s: %s", name, tc.Name, p))
			}
		}
	}
	if len(bad) > 0 {
		return rep, bad
	}
	return rep, nil
}

func (tc *testCase) run(set *Set, fired map[string]int) (problems []string, err error) {
	group := tc.Group
	if group == "" {
		group = set.Groups()[0]
	}
	ev := set.Group(group)
	if ev == nil {
		return nil, fmt.Errorf("there is no group %q", group)
	}
	st := NewMemStore()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := make(map[string]int)
	var verdict streams.Verdict
	var messages []string
	seq := uint64(0)
	for range max(tc.Repeat, 1) {
		for _, g := range tc.Given {
			if g.After != "" {
				d, err := time.ParseDuration(g.After)
				if err != nil {
					return nil, err
				}
				now = now.Add(d)
			}
			seq++
			e, err := g.entry(seq, now)
			if err != nil {
				return nil, err
			}
			res, err := ev.Eval(st, e)
			if err != nil {
				return nil, err
			}
			for _, a := range res.Alerts {
				got[a.Rule]++
				messages = append(messages, a.Message)
				if a.Error != "" {
					problems = append(problems, fmt.Sprintf("rule %s failed: %s", a.Rule, a.Error))
				}
			}
			if e.Type.Proposal() {
				verdict = res.Verdict
			}
		}
	}
	for r := range got {
		fired[r]++
	}
	for _, r := range sortedKeys(tc.Fires) {
		if got[r] != tc.Fires[r] {
			problems = append(problems, fmt.Sprintf("rule %s raised %d alerts, want %d", r, got[r], tc.Fires[r]))
		}
	}
	for _, r := range tc.Silent {
		if got[r] > 0 {
			problems = append(problems, fmt.Sprintf("rule %s raised %d alerts, want none", r, got[r]))
		}
	}
	if tc.Verdict != "" && verdict.String() != tc.Verdict {
		problems = append(problems, fmt.Sprintf("the verdict is %s, want %s", verdict, tc.Verdict))
	}
	if tc.Message != "" && !strings.Contains(strings.Join(messages, "\n"), tc.Message) {
		problems = append(problems, fmt.Sprintf("no message holds %q: %q", tc.Message, messages))
	}
	return problems, nil
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// entry builds the ledger entry that ingest would have written.
func (g *given) entry(seq uint64, now time.Time) (*streams.Entry, error) {
	h := streams.EntryHead{ID: fmt.Sprintf("e%d", seq), Agent: g.Agent, Session: g.Session, Time: now, Intake: seq}
	if h.Agent == "" {
		h.Agent = "agent"
	}
	if h.Session == "" {
		h.Session = "s1"
	}
	e := &streams.Entry{Seq: seq, Time: now, Stage: streams.StageIngest, Project: "test"}
	var body any
	switch {
	case g.Observation != nil:
		o := g.Observation
		e.Type = streams.TypeObservation
		body = &streams.ObservationEntry{EntryHead: h, Origin: beliefs.Origin(orElse(o.Origin, "tool")), Tool: o.Tool, Source: o.Source,
			Blocks: []streams.BlockEntry{{Text: o.Text, Features: text.Analyze(o.Text)}}}
	case g.Memory != nil:
		m := g.Memory
		e.Type = streams.TypeMemory
		content := strings.Repeat(m.Text, max(m.Times, 1))
		b := &streams.MemoryEntry{EntryHead: h, Origin: beliefs.Origin(orElse(m.Origin, "agent")), Inherited: beliefs.Origin(m.Inherited), Key: m.Key,
			Category: m.Category, Channel: m.Channel, KeyHolder: beliefs.Origin(m.KeyHolder), Content: content, Features: text.Analyze(content),
			Belief: streams.BeliefRef{ID: fmt.Sprintf("b%d", seq), Found: true}}
		if m.Age != "" {
			d, err := time.ParseDuration(m.Age)
			if err != nil {
				return nil, err
			}
			b.FirstSeen, b.Repeats = now.Add(-d), 1
		}
		body = b
	case g.Decision != nil:
		e.Type = streams.TypeDecision
		bs, err := refs(g.Decision.Beliefs)
		if err != nil {
			return nil, err
		}
		body = &streams.DecisionEntry{EntryHead: h, Beliefs: bs}
	case g.Action != nil:
		a := g.Action
		e.Type = streams.TypeAction
		bs, err := refs(a.Beliefs)
		if err != nil {
			return nil, err
		}
		args, err := streams.Marshal(a.Args)
		if err != nil {
			return nil, err
		}
		if a.Args == nil {
			args = nil
		}
		var lines strings.Builder
		for _, k := range argKeys(a.Args) {
			fmt.Fprintln(&lines, a.Args[k])
		}
		body = &streams.ActionEntry{EntryHead: h, Tool: a.Tool, Level: beliefs.Level(a.Level), Effects: a.Effects, Args: args, Confidence: a.Confidence,
			Beliefs: bs, Matched: "test", Text: lines.String(), Features: text.Analyze(lines.String())}
	default:
		return nil, fmt.Errorf("a given event is one of observation, memory, decision, action")
	}
	var err error
	e.Body, err = streams.Marshal(body)
	return e, err
}

func argKeys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func refs(bs []givenBelief) ([]streams.BeliefRef, error) {
	var out []streams.BeliefRef
	for _, b := range bs {
		r := streams.BeliefRef{ID: b.ID, Found: true, Confidence: b.Confidence}
		if err := r.Axes.Truth.UnmarshalText([]byte(orElse(b.Truth, "supported"))); err != nil {
			return nil, err
		}
		if err := r.Quality.UnmarshalText([]byte(orElse(b.Quality, "tool_result"))); err != nil {
			return nil, err
		}
		if b.Confidence == 0 {
			r.Confidence = 0.7
		}
		out = append(out, r)
	}
	return out, nil
}

func orElse(s, deflt string) string {
	if s == "" {
		return deflt
	}
	return s
}
