package bench

import (
	"context"
	"strings"
	"testing"
)

// At both numbers of rules, each event must have at least five rules to evaluate, and the index must exclude most of
// the others.
func TestTheRuleBenchmarkMeasuresWhatItSays(t *testing.T) {
	rep, err := Rules(context.Background(), Options{Rules: 600, Events: 60, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if rep.CandidatesLeast < 5 || rep.CandidatesLarge > 60 || rep.CandidatesLarge < rep.CandidatesSmall {
		t.Errorf("%.1f and %.1f rules an event, at least %d", rep.CandidatesSmall, rep.CandidatesLarge, rep.CandidatesLeast)
	}
	if rep.Small <= 0 || rep.Large <= 0 || rep.Naive <= 0 || rep.Shipped <= 0 || rep.CompileMS <= 0 {
		t.Errorf("%+v", rep)
	}
	var b strings.Builder
	Table(&b, rep.Lines())
	if !strings.Contains(b.String(), "<= 2 x") {
		t.Error(b.String())
	}
}

func TestTheBacktestBenchmarkChangesRules(t *testing.T) {
	rep, err := Backtest(context.Background(), Options{Events: 200, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Changed) != 3 || rep.ChangedRules <= 0 || rep.FullPack <= 0 || rep.SignalRule <= 0 {
		t.Errorf("%+v", rep)
	}
}
