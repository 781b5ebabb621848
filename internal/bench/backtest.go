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
	// FullBoth judges by all rules of both sets.
	FullBoth float64 `json:"full_both_events_per_s"`
}

// Lines are the figures and their budgets.
func (r *BacktestReport) Lines() []Line {
	return []Line{
		{What: "changed rules", Value: r.ChangedRules, Unit: "/s", Budget: ">= 200000 /s", Pass: r.ChangedRules >= 200_000},
		{What: "a changed rule that reads action.lineage", Value: r.SignalRule, Unit: "/s"},
		{What: "the full pack", Value: r.FullPack, Unit: "/s", Budget: ">= 60000 /s", Pass: r.FullPack >= 60_000},
		{What: "the full packs of both sets", Value: r.FullBoth, Unit: "/s"},
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
		to            *float64
		perSec        []float64
	}{
		{before: before, after: after, to: &rep.ChangedRules}, {before: before, after: lineage, to: &rep.SignalRule},
		{before: nobody, after: before, full: true, to: &rep.FullPack}, {before: before, after: after, full: true, to: &rep.FullBoth},
	}
	for range o.Rounds {
		for i := range runs {
			r := &runs[i]
			runtime.GC()
			out, err := backtest.Run(ctx, r.before, r.after, h, backtest.Options{Full: r.full})
			if err != nil {
				return nil, err
			}
			r.perSec = append(r.perSec, out.PerSec)
		}
	}
	for i := range runs {
		*runs[i].to = median(runs[i].perSec)
	}
	return rep, nil
}
