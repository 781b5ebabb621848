// Package signals turns ledger entries into the inputs that rules see, and keeps
// the state of earlier entries that rules may read: first origins of carriers,
// near-duplicates, echoed instructions, counts and sequences.
//
// Each signal is a file that registers it, with its documentation, the state that
// it reads and the function that keeps that state: see [Signal] and novel.go for a
// short one. A [State] notes an input and then answers signals about it. The same
// entries in the same order give the same values on every machine. All state is
// bounded for each project; the tables are those of package index.
//
// The package may import pkg/text, pkg/intent, pkg/beliefs, streams and package
// index. It knows neither CEL nor rules: declared signals read their expressions
// through [Expr]. Begin reading with input.go, signal.go and state.go.
package signals
