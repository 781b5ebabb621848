// Package rules is the sentinels' rule engine: it loads packs of rules, checks them, and evaluates
// them on ledger entries.
//
// A rule is a CEL expression over one entry and over signals. Signals are state that Go code
// computes from earlier entries. Every rule that matches fires, independently of other rules. A
// rule that fails or exceeds its cost limit counts as firing, with the effect that its on_error
// names.
//
// Evaluation is deterministic: the same entries in the same order give the same alerts, with the
// same ids, on every machine. Time is the entry's time. The package does not depend on NATS. Its
// state is in a Store that the caller supplies.
//
// The engine has layers: signals/index stores state, signals reads entries and computes signals, compiled evaluates
// expressions and has the CEL functions, and this package has rule sets, evaluation and explanations. Packages
// ruletest, lint and schema are built on it. This package may import the layers below it, pkg/beliefs, pkg/text and
// streams. Start reading with document.go for the files, then rule.go and eval.go.
package rules
