package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"lazaret/internal/backtest"
	"lazaret/pkg/rules"

	shipped "lazaret/rules"
)

// BacktestReport is the speed of back-tests.
type BacktestReport struct {
	Events  int      `json:"events"` // 1 KiB each, already read
	Rounds  int      `json:"rounds"`
	Workers int      `json:"workers"`
	Changed []string `json:"changed_rules"`

	ChangedRules float64 `json:"changed_rules_events_per_s"`
	// SignalRule is the rate if the changed rule reads the most expensive signals.
	SignalRule float64 `json:"changed_signal_rule_events_per_s"`
	// FullPack is the rate of judging by all shipped rules, once per event.
	FullPack float64 `json:"full_pack_events_per_s"`
	// FullState is the rate of FullPack if the state of every signal is maintained, also of those that no
	// rule reads.
	FullState float64 `json:"full_pack_all_signals_events_per_s"`
	// FullBoth is the rate of judging each event by two complete sets, as a comparison of two sets does.
	FullBoth float64 `json:"full_both_events_per_s"`
	// The fields with CPU in their names are processor times per event, in microseconds. Other load on the
	// machine affects them less than the rates.
	ChangedCPU float64 `json:"changed_rules_cpu_us"`
	SignalCPU  float64 `json:"changed_signal_rule_cpu_us"`
	FullCPU    float64 `json:"full_pack_cpu_us"`
	StateCPU   float64 `json:"full_pack_all_signals_cpu_us"`
	BothCPU    float64 `json:"full_both_cpu_us"`
}

// Lines returns the figures and their budgets.
func (r *BacktestReport) Lines() []Line {
	return []Line{
		{What: "events judged by changed " +
			"rules", Value: r.ChangedRules, Unit: "/s", Budget: ">= 200000 /s", Pass: r.ChangedRules >= 200_000},
		{What: "  processor time per event", Value: r.ChangedCPU, Unit: "us"},
		{What: "events judged by a changed rule that reads action.lineage", Value: r.SignalRule, Unit: "/s"},
		{What: "  processor time per event", Value: r.SignalCPU, Unit: "us"},
		{What: "events judged by the full " +
			"pack", Value: r.FullPack, Unit: "/s", Budget: ">= 60000 /s", Pass: r.FullPack >= 60_000},
		{What: "  processor time per event", Value: r.FullCPU, Unit: "us"},
		{What: "events judged by the full pack, all signals kept", Value: r.FullState, Unit: "/s"},
		{What: "  processor time per event", Value: r.StateCPU, Unit: "us"},
		{What: "events judged by the full packs of both sets", Value: r.FullBoth, Unit: "/s"},
		{What: "  processor time per event", Value: r.BothCPU, Unit: "us"},
	}
}

// with returns a rule set: the shipped packs, all put into the group core, and a further pack that has one rule for
// each condition.
func with(whens ...string) (*rules.Set, error) {
	ship, err := shippedSet()
	if err != nil {
		return nil, err
	}
	packs := []string{"bench"}
	for _, r := range ship.Rules() {
		if !slices.Contains(packs, r.Pack) {
			packs = append(packs, r.Pack)
		}
	}
	var b strings.Builder
	b.WriteString("rules:\n")
	for i, when := range whens {
		fmt.Fprintf(&b, "  - {id: bench-%d, title: T, severity: low, on: [observation, memory, action], effect: alert, "+
			"subject: observation, message: \"'m'\", when: %q}\n", i, when)
	}
	bundle, err := rules.PackWith(shipped.FS(), map[string]string{
		"groups.yaml":      "groups:\n  core: [" + strings.Join(packs, ", ") + "]\n",
		"bench/pack.yaml":  "name: bench\ntitle: Made for measuring\n",
		"bench/rules.yaml": b.String(),
	})
	if err != nil {
		return nil, err
	}
	return rules.CompileBundle(bundle)
}

// nobody returns the shipped rule set with no rules in any group.
func nobody() (*rules.Set, error) {
	bundle, err := rules.PackWith(shipped.FS(), map[string]string{"groups.yaml": "groups:\n  core: []\n"})
	if err != nil {
		return nil, err
	}
	return rules.CompileBundle(bundle)
}

// Backtest measures back-tests over an in-memory history.
func Backtest(ctx context.Context, o Options) (*BacktestReport, error) {
	rep := &BacktestReport{Events: o.Events, Rounds: o.Rounds, Workers: runtime.GOMAXPROCS(0)}
	var sets [5]*rules.Set
	for i, whens := range [][]string{
		{"memory.age >= 0.0 && memory.age <= 300.0", "event.size > 100 * 1000",
			"event.external && content.markers.exists(m, m in ['override', 'role', 'secrecy'])"},
		{"memory.age >= 0.0 && memory.age <= 900.0", "event.size > 50 * 1000",
			"event.external && content.markers.exists(m, m in ['override', 'secrecy'])"},
		{"action.lineage.exists(l, l.carried == 'phrase' && l.age > 600.0)"},
		{"action.lineage.exists(l, l.carried == 'phrase' && l.age > 900.0)"},
		{"signal.partial.size() > 99"},
	} {
		set, err := with(whens...)
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	before, after, every := sets[0], sets[1], sets[4]
	none, err := nobody()
	if err != nil {
		return nil, err
	}
	ship, err := shippedSet()
	if err != nil {
		return nil, err
	}
	rep.Changed = rules.Changed(before.Group("core"), after.Group("core"))
	events, err := newCorpus(4).events(o.Events, "")
	if err != nil {
		return nil, err
	}
	h := backtest.NewHistory()
	for _, p := range events {
		if err := h.Add(p.Entry); err != nil {
			return nil, err
		}
	}
	runs := []struct {
		before, after *rules.Set
		full          bool
		to, cpu       *float64
		perSec, us    []float64
	}{
		{before: before, after: after, to: &rep.ChangedRules, cpu: &rep.ChangedCPU},
		{before: sets[2], after: sets[3], to: &rep.SignalRule, cpu: &rep.SignalCPU},
		{before: none, after: ship, full: true, to: &rep.FullPack, cpu: &rep.FullCPU},
		{before: none, after: every, full: true, to: &rep.FullState, cpu: &rep.StateCPU},
		{before: before, after: after, full: true, to: &rep.FullBoth, cpu: &rep.BothCPU},
	}
	for range o.Rounds {
		for i := range runs {
			r := &runs[i]
			runtime.GC()
			used := cpuTime()
			out, err := backtest.Run(ctx, r.before, r.after, h, backtest.Options{Full: r.full})
			if err != nil {
				return nil, err
			}
			r.perSec = append(r.perSec, out.PerSec)
			r.us = append(r.us, float64(cpuTime()-used)/1e3/float64(h.Entries))
		}
	}
	for i := range runs {
		*runs[i].to, *runs[i].cpu = median(runs[i].perSec), median(runs[i].us)
	}
	return rep, nil
}
