package rules

import (
	"time"

	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// RuleCost counts the evaluations and alerts of one rule, and measures the time of some evaluations.
type RuleCost struct {
	Evaluated uint64 // evaluations of its expression
	Fired     uint64 // alerts, including repeated ones
	timed     uint64
	spent     time.Duration
}

// PerEvaluation returns the mean time of one evaluation. It is computed from the evaluations that were timed.
func (c *RuleCost) PerEvaluation() time.Duration {
	if c.timed == 0 {
		return 0
	}
	return c.spent / time.Duration(c.timed)
}

// Add adds the counts of o, which must be counts of the same rule.
func (c *RuleCost) Add(o *RuleCost) {
	c.Evaluated, c.Fired, c.timed, c.spent = c.Evaluated+o.Evaluated, c.Fired+o.Fired, c.timed+o.timed, c.spent+o.spent
}

// sampleEvery says how many evaluations are timed: one in sampleEvery.
const sampleEvery = 16

// Meter measures the cost of rules. It is not safe for concurrent use.
type Meter struct {
	Costs map[*Rule]*RuleCost

	alerts []streams.Alert
	cost   *RuleCost
	start  time.Time
}

// NewMeter returns an empty meter.
func NewMeter() *Meter { return &Meter{Costs: make(map[*Rule]*RuleCost)} }

// Eval evaluates a prepared entry and measures it. It returns the verdict and every alert, including repeated alerts
// that Evaluator.Eval would leave out. The alerts are valid until the next call of Eval.
func (m *Meter) Eval(ev *Evaluator, st index.Store, p *Prepared) (streams.Verdict, []streams.Alert, error) {
	m.alerts = m.alerts[:0]
	res, err := ev.judge(st, p.Entry, p.inputs, m)
	return res.Verdict, m.alerts, err
}

// Evaluations returns how many evaluations of rules were counted.
func (m *Meter) Evaluations() (n uint64) {
	for _, c := range m.Costs {
		n += c.Evaluated
	}
	return n
}

// Before implements Watcher.
func (m *Meter) Before(r *Rule) {
	c := m.Costs[r]
	if c == nil {
		c = new(RuleCost)
		m.Costs[r] = c
	}
	m.cost = c
	if c.Evaluated%sampleEvery == 0 {
		m.start = time.Now()
	}
}

// After implements Watcher.
func (m *Meter) After(_ *compiled.Activation, _ *Rule, alerts []streams.Alert) {
	c := m.cost
	if c.Evaluated%sampleEvery == 0 {
		c.spent += time.Since(m.start)
		c.timed++
	}
	c.Evaluated++
	c.Fired += uint64(len(alerts))
	m.alerts = append(m.alerts, alerts...)
}
