// Package metrics exports the state of a process to its operators: Prometheus metrics,
// and whether it lives and has caught up.
//
// Nothing here decides anything, and the clock is read for metrics only. The labels are
// stages, groups, rules, and words of fixed vocabularies: never a project or an agent,
// whose number is not bounded.
//
// A nil *Process and the values that it returns discard everything, so that callers need
// no check.
//
// It may import internal/stage, pkg/rules and streams, and no fold. Begin reading with metrics.go.
package metrics
