package backtest

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// History is a set of entries by project, each in ledger order.
type History struct {
	Projects map[string][]*rules.Prepared
	Entries  int // number of entries that rules judge
	First    time.Time
	Last     time.Time
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{Projects: make(map[string][]*rules.Prepared)} }

// Add adds an entry. It ignores entries that rules do not judge. Entries of a project must be added in ledger order.
func (h *History) Add(e *streams.Entry) error {
	if e.Stage != streams.StageIngest {
		return nil
	}
	p, err := rules.Prepare(e)
	if err != nil || p.Empty() {
		return err
	}
	h.Projects[e.Project] = append(h.Projects[e.Project], p)
	h.Entries++
	if h.First.IsZero() || e.Time.Before(h.First) {
		h.First = e.Time
	}
	if e.Time.After(h.Last) {
		h.Last = e.Time
	}
	return nil
}

// Change is a kind of difference between two judgments of an entry.
type Change string

// The kinds of changes. An entry whose verdict changes is not also counted under OtherAlert.
const (
	NewlyHeld    Change = "newly_held" // allowed before, held or denied after
	NoLongerHeld Change = "no_longer_held"
	Tightened    Change = "hold_to_deny"
	Loosened     Change = "deny_to_hold"
	NewAlert     Change = "new_alert"
	AlertGone    Change = "alert_gone"
	OtherAlert   Change = "other_alert" // both sets give the same verdict, by different rules or effects
)

// Flip is an entry that the two rule sets judge differently.
type Flip struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Project string          `json:"project"`
	Agent   string          `json:"agent,omitzero"`
	Event   string          `json:"event"`
	Type    streams.Type    `json:"type"`
	Change  Change          `json:"change"`
	Before  streams.Verdict `json:"before"`
	After   streams.Verdict `json:"after"`
	Gone    []string        `json:"gone,omitzero"`    // rules whose alerts only the first set raises
	New     []string        `json:"new,omitzero"`     // rules whose alerts only the second set raises
	Message string          `json:"message,omitzero"` // message of the first different alert, inert
	Content string          `json:"content,omitzero"` // clipped, inert
	// Position is the position of the entry; entries of one frame share a Seq.
	Position uint64 `json:"-"`
}

// RuleReport has the results of one rule under both sets.
type RuleReport struct {
	Rule   string  `json:"rule"`
	Status string  `json:"status"`        // changed, new, gone or same
	Before uint64  `json:"alerts_before"` // number of alerts by the first set
	After  uint64  `json:"alerts_after"`
	PerDay float64 `json:"alerts_per_day_after"` // After divided by Report.Days
	// NewlyHeld is the number of entries with a stricter verdict and a new alert of the rule. NoLongerHeld is the
	// number of entries with a milder verdict and an alert of the rule that the second set does not raise.
	NewlyHeld    int    `json:"newly_held"`
	NoLongerHeld int    `json:"no_longer_held"`
	Evaluated    uint64 `json:"evaluated_after"` // how often the second set evaluated the rule
	NS           int64  `json:"ns_per_evaluation_after"`
}

// Report is the result of a back-test.
type Report struct {
	Before  string         `json:"before"` // digests of the rule sets
	After   string         `json:"after"`
	Events  int            `json:"events"`
	Days    float64        `json:"days"` // from the first entry to the last one, at least 1
	Full    bool           `json:"full"` // every rule was judged, not only the changed ones
	Changed []string       `json:"changed_rules"`
	Flips   map[Change]int `json:"flips"`
	Rules   []RuleReport   `json:"rules"`
	Samples []Flip         `json:"samples"`
	Seconds float64        `json:"seconds"` // duration of the comparison; 0 for a Watch
	PerSec  float64        `json:"events_per_s"`
}

// Options configure a back-test.
type Options struct {
	Full    bool // judge every rule of both sets
	Samples int  // number of listed flips per change
	Workers int  // zero: one per processor
}

// side has one set's evaluators in one project, one per group.
type side struct {
	evs    []*rules.Evaluator
	stores []index.Store
	meter  *rules.Meter
}

func newSide(evs []*rules.Evaluator, meter *rules.Meter) *side {
	s := &side{evs: evs, meter: meter}
	for range evs {
		s.stores = append(s.stores, index.NewMemStore())
	}
	return s
}

func (s *side) judge(p *rules.Prepared) (v streams.Verdict, alerts []streams.Alert, err error) {
	for i, ev := range s.evs {
		gv, as, err := s.meter.Eval(ev, s.stores[i], p)
		if err != nil {
			return v, nil, err
		}
		v = v.Join(gv)
		if len(as) > 0 {
			alerts = append(alerts, as...)
		}
	}
	return v, alerts, nil
}

// comparison has the rules of both sets that must be evaluated. It is the same for every project.
type comparison struct {
	before, after []*rules.Evaluator
	// rest are the unchanged rules, which are evaluated only if a verdict may have changed. It is empty if all
	// rules are in before and after.
	rest    []*rules.Evaluator
	changed []string
	status  map[string]string
}

// compare determines which rules must be evaluated. If full is set, these are all rules.
func compare(before, after *rules.Set, full bool) *comparison {
	c := &comparison{status: make(map[string]string)}
	groups := slices.Concat(before.Groups(), after.Groups())
	slices.Sort(groups)
	for _, g := range slices.Compact(groups) {
		b, a := before.Group(g), after.Group(g)
		changed := rules.Changed(b, a)
		c.changed = append(c.changed, changed...)
		isChanged := func(r *rules.Rule) bool { return slices.Contains(changed, r.ID) }
		add := func(to *[]*rules.Evaluator, ev *rules.Evaluator) {
			if ev == nil {
				return
			}
			// Call Part even if full is set and all rules remain: it keeps only the signals that these rules read.
			if p := ev.Part(func(r *rules.Rule) bool { return full || isChanged(r) }); !p.Empty() {
				*to = append(*to, p)
			}
		}
		add(&c.before, b)
		add(&c.after, a)
		if !full && a != nil {
			if r := a.Part(func(r *rules.Rule) bool { return !isChanged(r) }); !r.Empty() {
				c.rest = append(c.rest, r)
			}
		}
	}
	slices.Sort(c.changed)
	c.changed = slices.Compact(c.changed)
	for _, id := range c.changed {
		switch {
		case before.Rule(id) == nil:
			c.status[id] = "new"
		case after.Rule(id) == nil:
			c.status[id] = "gone"
		default:
			c.status[id] = "changed"
		}
	}
	return c
}

// diff compares two judgments of an entry: bv and b are the verdict and the alerts of the rules before, av and a those
// of the rules after. rest returns the verdict of the unchanged rules.
func diff(p *rules.Prepared, bv, av streams.Verdict, b, a []streams.Alert,
	rest func() (streams.Verdict, error)) (*Flip, error) {
	if len(b) == 0 && len(a) == 0 {
		return nil, nil
	}
	gone, fresh := without(b, a), without(a, b)
	if len(gone) == 0 && len(fresh) == 0 {
		return nil, nil
	}
	e := p.Entry
	f := &Flip{Seq: e.Seq, Position: e.Position(), Time: e.Time, Project: e.Project, Type: e.Type}
	if e.Type.Proposal() {
		f.Before, f.After = bv, av
		if bv != av {
			r, err := rest()
			if err != nil {
				return nil, err
			}
			f.Before, f.After = bv.Join(r), av.Join(r)
		}
	}
	f.Gone, f.New = names(gone), names(fresh)
	first := slices.Concat(fresh, gone)[0]
	f.Agent, f.Message = first.Agent, text.InertLine(first.Message, 160)
	if len(first.Events) > 0 {
		f.Event = first.Events[0]
	}
	f.Content = text.InertLine(p.Text(), 160)
	switch {
	case f.Before == streams.Allow && f.After > streams.Allow:
		f.Change = NewlyHeld
	case f.Before > streams.Allow && f.After == streams.Allow:
		f.Change = NoLongerHeld
	case f.Before < f.After:
		f.Change = Tightened
	case f.Before > f.After:
		f.Change = Loosened
	case len(gone) == 0:
		f.Change = NewAlert
	case len(fresh) == 0:
		f.Change = AlertGone
	default:
		f.Change = OtherAlert
	}
	return f, nil
}

// alertKey has the properties by which two alerts on one entry count as equal. Their messages may differ.
type alertKey struct {
	rule, kind, id, effect, mode, severity, exception string
	failed                                            bool
}

func keyOf(a *streams.Alert) alertKey {
	return alertKey{a.Rule, a.Subject.Kind, a.Subject.ID, a.Effect, a.Mode, a.Severity, a.Exception, a.Error != ""}
}

// without returns the alerts of a that are not in b.
func without(a, b []streams.Alert) []streams.Alert {
	have := make(map[alertKey]int)
	for i := range b {
		have[keyOf(&b[i])]++
	}
	var out []streams.Alert
	for i := range a {
		if k := keyOf(&a[i]); have[k] > 0 {
			have[k]--
		} else {
			out = append(out, a[i])
		}
	}
	return out
}

func names(as []streams.Alert) []string {
	var out []string
	for _, a := range as {
		out = append(out, a.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// part has the results of one worker.
type part struct {
	before, after *rules.Meter
	flips         []Flip
}

// project judges the entries of one project.
func (c *comparison) project(ps []*rules.Prepared, out *part) error {
	before, after := newSide(c.before, out.before), newSide(c.after, out.after)
	// rest has the verdicts of the unchanged rules, computed on first use.
	var rest map[uint64]streams.Verdict
	ask := func(seq uint64) (streams.Verdict, error) {
		if rest == nil {
			rest = make(map[uint64]streams.Verdict)
			s := newSide(c.rest, rules.NewMeter())
			for _, p := range ps {
				v, _, err := s.judge(p)
				if err != nil {
					return v, err
				}
				if v != streams.Allow {
					rest[p.Entry.Seq] = v
				}
			}
		}
		return rest[seq], nil
	}
	for _, p := range ps {
		bv, b, err := before.judge(p)
		if err != nil {
			return err
		}
		av, a, err := after.judge(p)
		if err != nil {
			return err
		}
		f, err := diff(p, bv, av, b, a, func() (streams.Verdict, error) { return ask(p.Entry.Seq) })
		if err != nil {
			return err
		}
		if f != nil {
			out.flips = append(out.flips, *f)
		}
	}
	return nil
}

// Run compares two rule sets on history. Several Runs must not use the same History at the same time.
func Run(ctx context.Context, before, after *rules.Set, h *History, o Options) (*Report, error) {
	start := time.Now()
	c := compare(before, after, o.Full)
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	// Start with the largest projects, so that at the end no worker works alone on a large one.
	todo := slices.SortedFunc(maps.Keys(h.Projects), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(h.Projects[b]), len(h.Projects[a])), cmp.Compare(a, b))
	})
	queue := make(chan string, len(todo))
	for _, p := range todo {
		queue <- p
	}
	close(queue)
	parts := make([]part, workers)
	g, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		parts[i] = part{before: rules.NewMeter(), after: rules.NewMeter()}
		g.Go(func() error {
			for p := range queue {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := c.project(h.Projects[p], &parts[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sum := part{before: rules.NewMeter(), after: rules.NewMeter()}
	for _, p := range parts {
		sum.flips = append(sum.flips, p.flips...)
		merge(sum.before, p.before)
		merge(sum.after, p.after)
	}
	slices.SortFunc(sum.flips, func(a, b Flip) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Project, b.Project))
	})
	found := newTally(o.Samples)
	for i := range sum.flips {
		found.add(&sum.flips[i])
	}
	r := c.report(&sum, found, h.Entries, h.First, h.Last)
	r.Before, r.After, r.Full = before.Digest(), after.Digest(), o.Full
	r.Seconds = time.Since(start).Seconds()
	r.PerSec = float64(h.Entries) / max(r.Seconds, 1e-9)
	return r, nil
}

func merge(to, from *rules.Meter) {
	for r, c := range from.Costs {
		if to.Costs[r] == nil {
			to.Costs[r] = new(rules.RuleCost)
		}
		to.Costs[r].Add(c)
	}
}

// tally counts flips.
type tally struct {
	samples  int // per change
	flips    map[Change]int
	examples []Flip
	held     map[string]int // by rule
	released map[string]int
}

func newTally(samples int) *tally {
	return &tally{samples: samples, flips: make(map[Change]int), examples: []Flip{}, held: make(map[string]int),
		released: make(map[string]int)}
}

func (t *tally) add(f *Flip) {
	if t.flips[f.Change]++; t.flips[f.Change] <= t.samples {
		t.examples = append(t.examples, *f)
	}
	switch f.Change {
	case NewlyHeld, Tightened:
		for _, id := range f.New {
			t.held[id]++
		}
	case NoLongerHeld, Loosened:
		for _, id := range f.Gone {
			t.released[id]++
		}
	}
}

// report summarizes the results.
func (c *comparison) report(p *part, t *tally, events int, first, last time.Time) *Report {
	r := &Report{Events: events, Changed: c.changed, Flips: t.flips, Samples: t.examples, Rules: []RuleReport{}}
	if r.Changed == nil {
		r.Changed = []string{}
	}
	r.Days = max(last.Sub(first).Hours()/24, 1)
	rows := make(map[string]*RuleReport)
	row := func(id string) *RuleReport {
		if rows[id] == nil {
			rows[id] = &RuleReport{Rule: id, Status: cmp.Or(c.status[id], "same")}
		}
		return rows[id]
	}
	for _, id := range c.changed {
		row(id)
	}
	for rule, cost := range p.before.Costs {
		row(rule.ID).Before += cost.Fired
	}
	for rule, cost := range p.after.Costs {
		x := row(rule.ID)
		x.After += cost.Fired
		x.Evaluated += cost.Evaluated
		x.NS = cost.PerEvaluation().Nanoseconds()
		x.PerDay = float64(x.After) / r.Days
	}
	for id, n := range t.held {
		row(id).NewlyHeld = n
	}
	for id, n := range t.released {
		row(id).NoLongerHeld = n
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r.Rules = append(r.Rules, *rows[id])
	}
	return r
}

// Watch compares two rule sets on new entries. The signals of both sets are empty at first. It is not safe for
// concurrent use.
type Watch struct {
	c           *comparison
	sum         part
	found       *tally
	projects    map[string][2]*side
	events      int
	first, last time.Time
	before      string
	after       string
}

// NewWatch returns an empty comparison in which every rule of both sets is judged. samples is the
// number of listed flips per change.
func NewWatch(before, after *rules.Set, samples int) *Watch {
	return &Watch{c: compare(before, after, true), found: newTally(samples), sum: part{before: rules.NewMeter(),
		after: rules.NewMeter()}, projects: make(map[string][2]*side),
		before: before.Digest(), after: after.Digest()}
}

// Add judges an entry by both sets, and returns a Flip if they differ.
func (w *Watch) Add(e *streams.Entry) (*Flip, error) {
	if e.Stage != streams.StageIngest {
		return nil, nil
	}
	p, err := rules.Prepare(e)
	if err != nil || p.Empty() {
		return nil, err
	}
	s, ok := w.projects[e.Project]
	if !ok {
		s = [2]*side{newSide(w.c.before, w.sum.before), newSide(w.c.after, w.sum.after)}
		w.projects[e.Project] = s
	}
	if w.events++; w.first.IsZero() {
		w.first = e.Time
	}
	w.last = e.Time
	bv, b, err := s[0].judge(p)
	if err != nil {
		return nil, err
	}
	av, a, err := s[1].judge(p)
	if err != nil {
		return nil, err
	}
	f, err := diff(p, bv, av, b, a, func() (streams.Verdict, error) { return streams.Allow, nil })
	if f != nil {
		w.found.add(f)
	}
	return f, err
}

// Report returns the results so far.
func (w *Watch) Report() *Report {
	r := w.c.report(&w.sum, w.found, w.events, w.first, w.last)
	r.Before, r.After, r.Full = w.before, w.after, true
	return r
}
