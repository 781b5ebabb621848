package metrics

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lazaret/pkg/rules"
	"lazaret/streams"
)

// sampleEvery is the number of evaluations of a rule of which one is timed. Not all are timed, because reading the
// clock takes about as long as a cheap rule.
const sampleEvery = 64

// excepted is the mode label of alerts that an exception made ineffective.
const excepted = "excepted"

// sentinelVecs are the metrics that all groups of a process share.
type sentinelVecs struct {
	evaluations, fires, errors, seconds *prometheus.CounterVec
	info                                *prometheus.GaugeVec
	groups                              []*Sentinel // guarded by Process.mu
}

// Sentinel counts the work of one sentinel group.
//
// Its methods must be called from the stage's loop. The observer that it attaches to evaluators is safe
// for concurrent use.
type Sentinel struct {
	p     *Process
	v     *sentinelVecs
	group string
	force [streams.Partitions]string  // digest of the rule set in force in each partition
	sets  map[string]*rules.Evaluator // active in some partition; guarded by Process.mu
}

// Sentinel returns the counts of a group.
func (p *Process) Sentinel(group string) *Sentinel {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sentinel == nil {
		v := &sentinelVecs{
			evaluations: counters(p, "rule_evaluations_total",
				"Evaluations of a rule: one per input that the index selects for the rule.", "rule"),
			fires: counters(p, "rule_fires_total", "Alerts of a rule; each repeat counts. The label effect is "+
				"that of on_error if the evaluation failed; the label mode is excepted if an exception applied.",
				"rule", "effect", "mode"),
			errors: counters(p, "rule_errors_total", "Evaluations that failed. Each counts as an alert too.", "rule"),
			seconds: counters(p, "rule_seconds_total",
				"Estimated time spent in a rule: every 64th evaluation is timed and counts 64 times.", "rule"),
			info: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lazaret_ruleset_info",
				Help: "Partitions in which a group judges by the rule set of this digest."}, []string{"digest", "group"}),
		}
		p.reg.MustRegister(v.info)
		p.sentinel = v
	}
	s := &Sentinel{p: p, v: p.sentinel, group: group, sets: make(map[string]*rules.Evaluator)}
	s.v.groups = append(s.v.groups, s)
	return s
}

// InForce sets the active rule set of a partition; an empty digest and a nil evaluator mean none. It
// creates the counters of the evaluator's rules, so that they exist before their first count, and
// removes those of rules that are no longer active.
func (s *Sentinel) InForce(partition int, digest string, ev *rules.Evaluator) {
	if s == nil || s.force[partition] == digest && (ev == nil || s.sets[digest] == ev) {
		return
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.force[partition] = digest
	if ev != nil && s.sets[digest] != ev {
		s.sets[digest] = ev
		ev.Observe(s.v.observer(ev))
	}
	count := make(map[string]int)
	for _, d := range s.force {
		if d != "" {
			count[d]++
		}
	}
	for d, n := range count {
		s.v.info.WithLabelValues(d, s.group).Set(float64(n))
	}
	for d, gone := range maps.Clone(s.sets) {
		if count[d] > 0 {
			continue
		}
		delete(s.sets, d)
		s.v.info.DeleteLabelValues(d, s.group)
		s.v.drop(gone)
	}
}

// drop removes the counters of an evaluator's rules that are no longer active in any partition.
func (v *sentinelVecs) drop(gone *rules.Evaluator) {
	for _, r := range gone.Rules() {
		if v.has(r.ID) {
			continue
		}
		of := prometheus.Labels{"rule": r.ID}
		for _, c := range []*prometheus.CounterVec{v.evaluations, v.fires, v.errors, v.seconds} {
			c.DeletePartialMatch(of)
		}
	}
}

func (v *sentinelVecs) has(rule string) bool {
	for _, s := range v.groups {
		for _, ev := range s.sets {
			if _, ok := slices.BinarySearchFunc(ev.Rules(), rule, func(r *rules.Rule, id string) int {
				switch {
				case r.ID < id:
					return -1
				case r.ID > id:
					return 1
				}
				return 0
			}); ok {
				return true
			}
		}
	}
	return false
}

// observer counts the evaluations and alerts of an evaluator. It implements rules.Observer.
type observer struct {
	v  *sentinelVecs
	by map[*rules.Rule]*ruleCounts
}

type ruleCounts struct {
	n                            atomic.Uint64
	evaluations, errors, seconds prometheus.Counter
}

func (v *sentinelVecs) observer(ev *rules.Evaluator) *observer {
	o := &observer{v: v, by: make(map[*rules.Rule]*ruleCounts)}
	for _, r := range ev.Rules() {
		if r.Mode == "off" {
			continue
		}
		o.by[r] = &ruleCounts{evaluations: v.evaluations.WithLabelValues(r.ID), errors: v.errors.WithLabelValues(r.ID),
			seconds: v.seconds.WithLabelValues(r.ID)}
		// A counter must exist before its first count, or increase() misses that count.
		v.fires.WithLabelValues(r.ID, r.Effect, r.Mode)
		v.fires.WithLabelValues(r.ID, r.OnError, r.Mode)
	}
	return o
}

// Begin implements rules.Observer.
func (o *observer) Begin(r *rules.Rule) time.Time {
	c := o.by[r]
	if c == nil || c.n.Add(1)%sampleEvery != 0 {
		return time.Time{}
	}
	return time.Now()
}

// End implements rules.Observer.
func (o *observer) End(r *rules.Rule, began time.Time, alerts []streams.Alert) {
	c := o.by[r]
	if c == nil {
		return
	}
	if !began.IsZero() {
		c.seconds.Add(sampleEvery * time.Since(began).Seconds())
	}
	c.evaluations.Inc()
	for i := range alerts {
		a := &alerts[i]
		if a.Error != "" {
			c.errors.Inc()
		}
		mode := a.Mode
		if a.Exception != "" {
			mode = excepted
		}
		if streams.IsSynthetic(a.Project) {
			continue // of a synthetic project: its cost is counted, its alerts are not
		}
		o.v.fires.WithLabelValues(a.Rule, a.Effect, mode).Inc()
	}
}
