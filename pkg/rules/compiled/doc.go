// Package compiled checks, compiles and evaluates the expressions of rules.
//
// An [Expr] is a checked CEL expression with a bound on its cost. Where it can, it
// is also compiled to Go functions (goexpr.go); CEL stays the reference and decides
// all errors. A prefilter is a condition that has to hold for an expression to be
// true; an [Index] looks up the rules whose prefilters an event meets, so that ten
// thousand rules cost about what a hundred do. Both are optimisations only, and
// tests compare them with evaluating everything.
//
// The package may import cel-go, pkg/signals and pkg/text. It knows nothing of rule
// files. Begin reading with env.go, then goexpr.go and prefilter.go.
package compiled
