// Package detection measures what the sentinels find in labeled corpora that were played through a real
// pipeline: how many attack texts a rule flags by the text alone, how many of the attackers' actions
// are held, and how many harmless texts and actions are flagged or held.
//
// It reads labels from the corpora's lines and findings from the ledger, and nothing else. It does not
// run the pipeline.
//
// It may import internal/replay, pkg/policy and pkg/text. Begin reading with case.go, then join.go,
// which joins labels and findings.
package detection
