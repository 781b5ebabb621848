// Package signals converts ledger entries to the inputs of rules, and maintains the state of
// earlier entries that rules may read: first origins of carriers, near-duplicates, echoed
// instructions, counts and sequences.
//
// Each signal has a file that registers it, with its documentation, the state that it reads and the
// function that updates this state: see [Signal], and novel.go for a short one. A [State] records
// an input and then computes signals about it. The same entries in the same order give the same
// values on every machine. All state is bounded for each project. The tables are those of package
// index.
//
// The package may import pkg/text, pkg/intent, pkg/beliefs, streams and package index. It does not
// depend on CEL or rules: declared signals evaluate their expressions through [Expr]. Start reading
// with input.go, signal.go and state.go.
package signals
