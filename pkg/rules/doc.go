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
package rules
