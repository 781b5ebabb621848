package bench

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"lazaret/internal/backtest"
	"lazaret/pkg/rules"

	shipped "lazaret/rules"
)

// BacktestReport is how fast history is judged again.
type BacktestReport struct {
	Events  int      `json:"events"` // 1 KiB each, read already
	Rounds  int      `json:"rounds"`
	Workers int      `json:"workers"`
	Changed []string `json:"changed_rules"`

	ChangedRules float64 `json:"changed_rules_events_per_s"`
	// SignalRule is the same where the changed rule reads the signals that
	// cost most to keep.
	SignalRule float64 `json:"changed_signal_rule_events_per_s"`
	// FullPack judges by all shipped rules, once for each event.
	FullPack float64 `json:"full_pack_events_per_s"`
	// FullState is the same with the state of every signal kept, as a pack
	// that reads them all would need.
	FullState float64 `json:"full_pack_all_signals_events_per_s"`
	// FullBoth judges by all rules of both sets.
	FullBoth float64 `json:"full_both_events_per_s"`
	// CPU is processor time an event, in microseconds, of the same. A
	// machine that others use too shows by it what it would do alone.
	ChangedCPU float64 `json:"changed_rules_cpu_us"`
	SignalCPU  float64 `json:"changed_signal_rule_cpu_us"`
	FullCPU    float64 `json:"full_pack_cpu_us"`
	StateCPU   float64 `json:"full_pack_all_signals_cpu_us"`
	BothCPU    float64 `json:"full_both_cpu_us"`
}

// Lines are the figures and their budgets.
func (r *BacktestReport) Lines() []Line {
	return []Line{
		{What: "changed rules", Value: r.ChangedRules, Unit: "/s", Budget: ">= 200000 /s", Pass: r.ChangedRules >= 200_000},
		{What: "  processor time an event", Value: r.ChangedCPU, Unit: "us"},
		{What: "a changed rule that reads action.lineage", Value: r.SignalRule, Unit: "/s"},
		{What: "  processor time an event", Value: r.SignalCPU, Unit: "us"},
		{What: "the full pack", Value: r.FullPack, Unit: "/s", Budget: ">= 60000 /s", Pass: r.FullPack >= 60_000},
		{What: "  processor time an event", Value: r.FullCPU, Unit: "us"},
		{What: "the full pack, all signals kept", Value: r.FullState, Unit: "/s"},
		{What: "  processor time an event", Value: r.StateCPU, Unit: "us"},
		{What: "the full packs of both sets", Value: r.FullBoth, Unit: "/s"},
		{What: "  processor time an event", Value: r.BothCPU, Unit: "us"},
	}
}

// edited is the shipped rule set with texts replaced in one of its files.
func edited(file string, replace ...string) (*rules.Set, error) {
	raw, err := fs.ReadFile(shipped.FS(), file)
	if err != nil {
		return nil, err
	}
	s := strings.NewReplacer(replace...).Replace(string(raw))
	if s == string(raw) {
		return nil, fmt.Errorf("%s is not what the benchmark expects", file)
	}
	b, err := rules.PackWith(shipped.FS(), map[string]string{file: s})
	if err != nil {
		return nil, err
	}
	return backtest.Compile(b)
}

// Backtest measures back-tests over a history in memory.
func Backtest(ctx context.Context, o Options) (*BacktestReport, error) {
	rep := &BacktestReport{Events: o.Events, Rounds: o.Rounds, Workers: runtime.GOMAXPROCS(0)}
	before, err := shippedSet()
	if err != nil {
		return nil, err
	}
	after, err := edited("write-path/content.yaml", "memory.age <= 300.0", "memory.age <= 900.0", "event.size > 100 * 1000", "event.size > 50 * 1000",
		"['override', 'role', 'secrecy', 'exfiltrate']", "['override', 'role', 'secrecy']")
	if err != nil {
		return nil, err
	}
	rep.Changed = rules.Changed(before.Group("core"), after.Group("core"))
	lineage, err := edited("provenance/instruction.yaml", "signal.echo.exists(s, !s.user_named)",
		"(signal.echo.exists(s, !s.user_named) || action.lineage.exists(l, l.carried == 'phrase' && l.value == ''))")
	if err != nil {
		return nil, err
	}
	every, err := edited("provenance/instruction.yaml", "signal.echo.exists(s, !s.user_named)", "(signal.echo.exists(s, !s.user_named) || signal.partial.size() > 99)")
	if err != nil {
		return nil, err
	}
	nobody, err := edited("groups.yaml", "[write-path, provenance, sequence]", "[]")
	if err != nil {
		return nil, err
	}
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
		{before: before, after: lineage, to: &rep.SignalRule, cpu: &rep.SignalCPU},
		{before: nobody, after: before, full: true, to: &rep.FullPack, cpu: &rep.FullCPU},
		{before: nobody, after: every, full: true, to: &rep.FullState, cpu: &rep.StateCPU},
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
