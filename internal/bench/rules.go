package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// epoch is the time of the first event of a benchmark.
var epoch = time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)

// broadRules is the number of rules that are evaluated for every event: they apply to all agents, and no
// index can decide their conditions. Ten more rules apply to the half of the events that have an origin or a
// level.
const broadRules = 6

// ruleSet returns a group core of n generated rules:
//
//	1 in 4   the tool has a given name, or one of three (of 2,000 tools)
//	1 in 6   the source is on a given host (of 1,500 hosts), with an origin condition
//	1 in 3   the content, or a view of it, contains a literal of two words
//	1 in 6   a regular expression with required literals
//	1 in 12  a number or a signal, combined with one of the above
//
// and sixteen broad rules, so that at least six rules are evaluated for every event, however small n is.
// unindexed is the number of additional rules that no index can decide.
func ruleSet(n, unindexed int) map[string]string {
	c := newCorpus(1)
	files := map[string]string{"groups.yaml": "groups:\n  core: [bench]\n",
		"bench/pack.yaml": "name: bench\ntitle: Made for measuring\n"}
	all := "observation, memory, recall, tools, session, decision, action, outcome"
	var b strings.Builder
	made, file := 0, 0
	add := func(on, when string) {
		if b.Len() == 0 {
			b.WriteString("rules:\n")
		}
		fmt.Fprintf(&b, "  - {id: r%05d, title: T, severity: low, on: [%s], effect: alert, subject: observation, message: "+
			"\"'m'\", when: %q}\n", made, on, when)
		if made++; made%250 == 0 {
			files[fmt.Sprintf("bench/rules%03d.yaml", file)] = b.String()
			b.Reset()
			file++
		}
	}
	agents := make([]string, benchAgents)
	for i := range agents {
		agents[i] = fmt.Sprintf("'agent-%d'", i)
	}
	for i := range broadRules {
		add(all, fmt.Sprintf("event.agent in [%s] && event.size / 2 > %d", strings.Join(agents, ", "), 40_000+i))
	}
	for i := range 5 {
		add("observation", fmt.Sprintf("event.origin in ['web', 'tool', 'email'] && event.size - %d > 30000", i))
		add("action", fmt.Sprintf("action.level in [1, 2, 3, 4, 5] && event.size - %d > 30000", i))
	}
	for made < n {
		tool, host := c.pick(c.tools), c.pick(c.hosts)
		two := func() string { return c.pick(c.words) + " " + c.pick(c.words) }
		contents := c.pick([]string{"observation", "memory", "observation, memory", "action",
			"observation, memory, action, outcome"})
		switch made % 12 {
		case 0, 4:
			add("observation, action", fmt.Sprintf("event.tool == '%s' && event.size * 3 > 90000", tool))
		case 8:
			add("action", fmt.Sprintf(
				"action.tool in ['%s', '%s', '%s'] && action.level >= 3 && !event.synthetic && event.size > 60000", tool,
				c.pick(c.tools), c.pick(c.tools)))
		case 1, 6:
			add("observation, memory",
				fmt.Sprintf("event.source == 'https://%s/' && event.origin == '%s' && content.text.size() > 50000", host,
					c.pick([]string{"web", "tool", "email", "document"})))
		case 2, 5:
			add(contents, fmt.Sprintf("content.text.contains('%s')", two()))
		case 3, 10:
			add(contents, fmt.Sprintf("content.views.exists(v, v.contains('%s'))", two()))
		case 7:
			add(contents, fmt.Sprintf("content.views.exists(v, v.matches('%s (to|from|with) %s'))", c.pick(c.words),
				c.pick(c.words)))
		case 9:
			add(contents, fmt.Sprintf("content.text.matches('(?i)\\\\b%s[ -]%s[0-9]*\\\\b')", c.pick(c.words), c.pick(c.words)))
		case 11:
			add("action", []string{
				fmt.Sprintf("action.tool == '%s' && signal.echo.size() > 0", tool),
				fmt.Sprintf("action.tool == '%s' && action.lineage.exists(l, l.first_origin == 'external')", tool),
				fmt.Sprintf("event.size > 900 && content.text.contains('%s') && signal.cluster_size > 3", two()),
				fmt.Sprintf("action.level >= 4 && content.carriers.exists(c, c.endsWith('%s'))", host),
			}[made/12%4])
		}
	}
	for i := range unindexed {
		add("observation, memory, action", fmt.Sprintf("content.text.size() * 2 > %d", 30_000+i))
	}
	if b.Len() > 0 {
		files[fmt.Sprintf("bench/rules%03d.yaml", file)] = b.String()
	}
	return files
}

func compile(files map[string]string) (*rules.Evaluator, error) {
	bundle, err := rules.PackFiles(files)
	if err != nil {
		return nil, err
	}
	set, err := rules.CompileBundle(bundle)
	if err != nil {
		return nil, err
	}
	return set.Group("core"), nil
}

// shippedSet returns the shipped rule set.
func shippedSet() (*rules.Set, error) {
	bundle, err := rules.Pack(shipped.FS())
	if err != nil {
		return nil, err
	}
	return rules.CompileBundle(bundle)
}

// RulesReport is the cost of the rule engine.
type RulesReport struct {
	Rules  int `json:"rules"`  // rules of the large set
	Events int `json:"events"` // distinct events, 1 KiB each
	Rounds int `json:"rounds"` // number of rounds; the figures are their medians

	// Small is the cost with 100 rules and Large the cost with as many rules as the options say, in ns per event. Both
	// include updating the signals.
	Small float64 `json:"ns_per_event_100"`
	Large float64 `json:"ns_per_event_10000"`
	Ratio float64 `json:"ratio"` // Large divided by Small
	// Fold is the cost of updating the signals, without rules.
	Fold float64 `json:"fold_ns_per_event"`
	// RatioRules is the ratio of the costs of the rules alone, without updating the signals: (Large - Fold) divided by
	// (Small - Fold).
	RatioRules float64 `json:"ratio_without_fold"`
	// Naive is the cost with the large set if each rule is evaluated on each event, in ns per event. Speedup is Naive
	// divided by Large.
	Naive   float64 `json:"naive_ns_per_event_10000"`
	Speedup float64 `json:"speedup"`
	// Shipped is the time to judge 1 KiB by the shipped packs, in microseconds.
	Shipped     float64            `json:"shipped_pack_us_median_1k"`
	ShippedP99  float64            `json:"shipped_pack_us_p99_1k"`
	ShippedKind map[string]float64 `json:"shipped_pack_us_median_by_kind"`
	// Unindexed is the cost of a rule that no index can select, in ns per event.
	Unindexed float64 `json:"unindexed_ns_per_rule"`

	// CandidatesSmall and CandidatesLarge are the mean numbers of rules that are evaluated for an event, with the two
	// sets.
	CandidatesSmall float64 `json:"candidates_per_event_100"`
	CandidatesLarge float64 `json:"candidates_per_event_10000"`
	CandidatesLeast int     `json:"candidates_least"` // fewest rules evaluated for any event, with either set
	CompileMS       float64 `json:"compile_ms_10000"` // time to compile the large set
}

// variant is one of the configurations that Rules measures in turn.
type variant struct {
	ev     *rules.Evaluator
	events []*rules.Prepared
	ns     [][]float64 // durations in nanoseconds, by event and round
}

// run judges all events, beginning with empty signals.
func (v *variant) run() error {
	if v.ns == nil {
		v.ns = make([][]float64, len(v.events))
	}
	st := index.NewMemStore()
	runtime.GC()
	for i, p := range v.events {
		start := time.Now()
		if _, err := v.ev.EvalPrepared(st, p); err != nil {
			return err
		}
		v.ns[i] = append(v.ns[i], float64(time.Since(start)))
	}
	return nil
}

// mean takes for each event the median of its times over all rounds, and returns the mean of these medians.
// The median suppresses short disturbances by other processes.
func (v *variant) mean() float64 {
	sum := 0.0
	for _, ns := range v.ns {
		sum += median(ns)
	}
	return sum / float64(max(len(v.ns), 1))
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	return s[len(s)/2]
}

// Options configure the duration of a benchmark.
type Options struct {
	Rules  int // rules in the large set
	Events int
	Rounds int
}

// Rules runs the benchmark of the rule engine.
func Rules(ctx context.Context, o Options) (*RulesReport, error) {
	rep := &RulesReport{Rules: o.Rules, Events: o.Events, Rounds: o.Rounds, ShippedKind: make(map[string]float64)}
	const extra = 500
	sets := make([]*rules.Evaluator, 4)
	for i, size := range [][2]int{{16, 0}, {100, 0}, {o.Rules, 0}, {100, extra}} {
		files := ruleSet(size[0], size[1])
		if i == 0 {
			files["groups.yaml"] = "groups:\n  core: []\n"
		}
		start := time.Now()
		var err error
		if sets[i], err = compile(files); err != nil {
			return nil, err
		}
		if i == 2 {
			rep.CompileMS = float64(time.Since(start)) / 1e6
		}
	}
	events, err := newCorpus(2).events(o.Events, "")
	if err != nil {
		return nil, err
	}
	var contents []*rules.Prepared
	for _, p := range events {
		switch p.Entry.Type {
		case streams.TypeObservation, streams.TypeMemory, streams.TypeAction:
			contents = append(contents, p)
		}
	}
	if err := rep.candidates(sets[1], sets[2], events); err != nil {
		return nil, err
	}
	fold := &variant{ev: sets[0], events: events}
	small := &variant{ev: sets[1], events: events}
	large := &variant{ev: sets[2], events: events}
	naive := &variant{ev: sets[2].Exhaustive(), events: events[:min(len(events), 40)]}
	base := &variant{ev: sets[1], events: contents[:min(len(contents), 800)]}
	plus := &variant{ev: sets[3], events: base.events}
	all := []*variant{fold, small, large, base, plus, naive}
	ship, err := newShippedRun(o.Events)
	if err != nil {
		return nil, err
	}
	for round := range o.Rounds + 1 {
		for _, v := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := v.run(); err != nil {
				return nil, err
			}
		}
		if err := ship.run(); err != nil {
			return nil, err
		}
		if round == 0 { // the first round was a warm-up
			for _, v := range all {
				v.ns = nil
			}
			ship.reset()
		}
	}
	rep.Fold, rep.Small, rep.Large, rep.Naive = fold.mean(), small.mean(), large.mean(), naive.mean()
	rep.Ratio, rep.Speedup = rep.Large/rep.Small, rep.Naive/rep.Large
	rep.RatioRules = (rep.Large - rep.Fold) / max(rep.Small-rep.Fold, 1)
	rep.Unindexed = (plus.mean() - base.mean()) / extra
	rep.Shipped, rep.ShippedP99 = ship.quantile("", 0.5), ship.quantile("", 0.99)
	for _, t := range shippedKinds {
		rep.ShippedKind[string(t)] = ship.quantile(t, 0.5)
	}
	return rep, nil
}

func (rep *RulesReport) candidates(small, large *rules.Evaluator, events []*rules.Prepared) error {
	rep.CandidatesLeast = -1
	for i, ev := range []*rules.Evaluator{small, large} {
		st, sum, m := index.NewMemStore(), 0, rules.NewMeter()
		for _, p := range events {
			before := m.Evaluations()
			if _, _, err := m.Eval(ev, st, p); err != nil {
				return err
			}
			n := int(m.Evaluations() - before)
			if sum += n; rep.CandidatesLeast < 0 || n < rep.CandidatesLeast {
				rep.CandidatesLeast = n
			}
		}
		*[]*float64{&rep.CandidatesSmall, &rep.CandidatesLarge}[i] = float64(sum) / float64(len(events))
	}
	return nil
}

// shippedKinds are the event types for which the shipped packs are measured, in equal numbers.
var shippedKinds = []streams.Type{streams.TypeObservation, streams.TypeMemory, streams.TypeAction}

// shippedRun measures the shipped packs event by event. Each event is parsed right before it is judged, as in a
// sentinel. So the processor's cache holds the event's text, and as much of the signals' state as fits.
type shippedRun struct {
	ev     *rules.Evaluator
	events []*streams.Entry
	us     map[streams.Type][]float64
}

func newShippedRun(n int) (*shippedRun, error) {
	set, err := shippedSet()
	if err != nil {
		return nil, err
	}
	s := &shippedRun{ev: set.Group("core"), us: make(map[streams.Type][]float64)}
	c, now := newCorpus(3), epoch
	for i := range n {
		now = now.Add(5 * time.Second)
		e, err := c.event(shippedKinds[i%len(shippedKinds)], uint64(i+1), now)
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, e)
	}
	return s, nil
}

func (s *shippedRun) reset() { clear(s.us) }

func (s *shippedRun) run() error {
	st := index.NewMemStore()
	runtime.GC()
	for _, e := range s.events {
		p, err := rules.Prepare(e)
		if err != nil {
			return err
		}
		start := time.Now()
		if _, err := s.ev.EvalPrepared(st, p); err != nil {
			return err
		}
		d := float64(time.Since(start)) / 1e3
		s.us[e.Type] = append(s.us[e.Type], d)
	}
	return nil
}

// quantile returns a quantile over the events of a type, or of all types.
func (s *shippedRun) quantile(t streams.Type, q float64) float64 {
	var xs []float64
	for k, v := range s.us {
		if t == "" || k == t {
			xs = append(xs, v...)
		}
	}
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return xs[min(int(q*float64(len(xs))), len(xs)-1)]
}

// Line is one figure with its budget.
type Line struct {
	What   string
	Value  float64
	Unit   string
	Budget string // empty: none
	Pass   bool
	// Limit marks a figure of the machine itself, measured in the same run for comparison. It has no budget.
	Limit bool
}

// Lines returns the figures and their budgets.
func (r *RulesReport) Lines() []Line {
	line := func(what string, v float64, unit string) Line { return Line{What: what, Value: v, Unit: unit} }
	atMost := func(l Line, n float64) Line {
		l.Budget, l.Pass = fmt.Sprintf("<= %g %s", n, l.Unit), l.Value <= n
		return l
	}
	atLeast := func(l Line, n float64) Line {
		l.Budget, l.Pass = fmt.Sprintf(">= %g %s", n, l.Unit), l.Value >= n
		return l
	}
	return []Line{
		line("cost of an event at 100 rules", r.Small, "ns"),
		line(fmt.Sprintf("cost of an event at %d rules", r.Rules), r.Large, "ns"),
		atMost(line("  ratio of large to small set", r.Ratio, "x"), 2),
		line("  of that, updating the signals", r.Fold, "ns"),
		line("  ratio without updating signals", r.RatioRules, "x"),
		line("cost of an event, each rule evaluated", r.Naive, "ns"),
		atLeast(line("  ratio to the cost with the index", r.Speedup, "x"), 200),
		atMost(line("cost of the shipped packs on 1 KB, median", r.Shipped, "us"), 15),
		line("  99th percentile", r.ShippedP99, "us"),
		line("  observation, median", r.ShippedKind["observation"], "us"),
		line("  memory, median", r.ShippedKind["memory"], "us"),
		line("  action, median", r.ShippedKind["action"], "us"),
		atMost(line("cost of each rule without an indexable condition", r.Unindexed, "ns"), 1000),
		line("rules evaluated per event, of 100", r.CandidatesSmall, ""),
		line(fmt.Sprintf("rules evaluated per event, of %d", r.Rules), r.CandidatesLarge, ""),
		line("  minimum of all events", float64(r.CandidatesLeast), ""),
		line("compiling the large set", r.CompileMS, "ms"),
	}
}

// Missed reports whether a figure misses its budget.
func Missed(lines []Line) bool {
	return slices.ContainsFunc(lines, func(l Line) bool { return l.Budget != "" && !l.Pass })
}

// Table prints figures with their budgets.
func Table(w io.Writer, lines []Line) {
	width := 42
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.What))
	}
	for _, l := range lines {
		verdict := ""
		if l.Budget != "" {
			verdict = "MISS"
			if l.Pass {
				verdict = "pass"
			}
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-*s %14.2f %-4s %-14s %s", width, l.What, l.Value, l.Unit, l.Budget,
			verdict), " "))
	}
}
