// Package backtest compares two rule sets on history: which entries only one of them would have held or
// raised an alert on, and the cost of each rule.
//
// Signals are kept per project, so projects are judged in parallel, each from an empty state. If only
// some rules changed, only those are judged, with only the state that they read. The unchanged rules
// are judged only in projects in which a verdict may have changed. The package compares the answers of
// sentinels, not the arbiter's verdicts: the arbiter's policy may hold proposals that no rule holds.
//
// It may import internal/ingest, internal/activation, internal/query, internal/replay, internal/stage,
// internal/wire and pkg/rules. Begin reading with backtest.go: Run compares two sets on a History, Watch
// on entries as they come.
package backtest
