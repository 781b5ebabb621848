package rules

import (
	"time"

	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// RuleCost is what one rule did and cost.
type RuleCost struct {
	Evaluated uint64 // how often its expression was evaluated
	Fired     uint64 // how many alerts it raised, repeated ones included
	timed     uint64
	spent     time.Duration
}

// PerEvaluation is what one evaluation costs, from a sample of them.
func (c *RuleCost) PerEvaluation() time.Duration {
	if c.timed == 0 {
		return 0
	}
	return c.spent / time.Duration(c.timed)
}

// Add adds another count of the same rule.
func (c *RuleCost) Add(o *RuleCost) {
	c.Evaluated, c.Fired, c.timed, c.spent = c.Evaluated+o.Evaluated, c.Fired+o.Fired, c.timed+o.timed, c.spent+o.spent
}

// sampleEvery is how many evaluations are made for one whose time is taken.
const sampleEvery = 16

// Meter sees what rules do. It belongs to one goroutine.
type Meter struct {
	Costs map[*Rule]*RuleCost

	alerts []streams.Alert
	cost   *RuleCost
	start  time.Time
}

// NewMeter returns a meter that has seen nothing.
func NewMeter() *Meter { return &Meter{Costs: make(map[*Rule]*RuleCost)} }

// Eval judges a prepared entry and returns the sentinels' verdict and every
// alert, repeated ones too, which Evaluator.Eval would have folded. They are
// good until the next call.
func (m *Meter) Eval(ev *Evaluator, st index.Store, p *Prepared) (streams.Verdict, []streams.Alert, error) {
	m.alerts = m.alerts[:0]
	res, err := ev.judge(st, p.Entry, p.inputs, m)
	return res.Verdict, m.alerts, err
}

// Evaluations is how many rules were evaluated so far.
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
