// Package backtest compares two rule sets on history: which entries one of them
// would have held, or raised an alert on, and the other not, and what each rule
// costs.
//
// Signals are kept by project, so projects are judged side by side, each from
// its own empty state. Where only some rules changed, only those are judged, with
// only the state that they read; the others are asked about the projects in which
// a verdict may have changed. What a sentinel says is compared, and not what the
// arbiter would have answered: its policy may hold what no rule does.
//
// It may import internal/ingest, internal/replay and pkg/rules. Begin reading with backtest.go: Run
// compares two sets on a History, Watch on entries as they come.
package backtest
