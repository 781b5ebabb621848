// Package detection measures what the sentinels find in labelled corpora that
// were played through a real pipeline: how much of an attacker's text a rule
// flags by the text alone, how many of the actions that the attacker wants are
// held, and how much harmless text and how many harmless actions fare the same.
//
// It reads labels from the corpora's lines and findings from the ledger, and
// nothing else. It does not run the pipeline.
//
// It may import internal/replay, pkg/policy and pkg/text. Begin reading with case.go, then join.go,
// which joins labels and findings.
package detection
