// Package compiled checks, compiles and evaluates the expressions of rules.
//
// An [Expr] is a checked CEL expression with an upper bound for its cost. If possible, it is also
// compiled to Go functions (goexpr.go). CEL remains the reference and decides all errors. A
// prefilter is a condition that must hold for an expression to be true. An [Index] finds the rules
// whose prefilters hold for an event, so that ten thousand rules cost about as much as a hundred.
// Go functions and the index are optimizations only. Tests compare them with the evaluation of all
// rules by CEL.
//
// The package may import cel-go, pkg/signals and pkg/text. It does not depend on rule files. Start
// reading with env.go, then goexpr.go and prefilter.go.
package compiled
