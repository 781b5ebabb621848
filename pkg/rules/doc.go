// Package rules is the sentinels' rule engine: it loads packs of rules, checks
// them, and evaluates them against ledger entries.
//
// A rule is a CEL expression over one entry and over signals, which are state
// that Go code keeps from the entries before it. Every rule that matches fires;
// none shadows another. A rule that fails or exceeds its cost counts as firing,
// with the effect that its on_error names.
//
// Evaluation is deterministic: the same entries in the same order give the same
// alerts, with the same ids, on every machine. Time is the entry's. The package
// knows nothing of NATS; its state lives in a Store that the caller supplies.
//
// The engine is layered: signals/index keeps state, signals reads entries and
// answers signals, compiled evaluates expressions, and this package has rule sets,
// evaluation and explanations. On top of it stand ruletest, lint and schema. It may
// import the layers below it, pkg/beliefs, pkg/text and streams. Begin reading with
// document.go for the files, then rule.go and eval.go.
package rules
