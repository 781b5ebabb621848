// Package metrics exports the state of a process for operators: Prometheus metrics, liveness and
// readiness.
//
// It affects no decision; the clock is read for metrics only. Labels are stages, groups, rules, and
// fixed words, never projects or agents, whose number is not bounded.
//
// Calls on a nil *Process and on the values that it returns do nothing, so callers need no check.
//
// It may import internal/stage, pkg/rules and streams, but none of the four stages. Begin reading with
// metrics.go.
package metrics
