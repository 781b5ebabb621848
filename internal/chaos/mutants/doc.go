// Command mutants tests whether `lazaret chaos` detects a faulty pipeline. It builds a program with
// sixteen faults, of which an environment variable activates one, and runs chaos for each fault and for
// none. For some faults of joint decisions it runs tests of internal/stage instead, because their effect
// is too rare in chaos. It exits with 2 if a fault is not detected, or if one is reported without a
// fault.
//
//	go run ./internal/chaos/mutants
//
// It imports internal/chaos alone. Begin reading with mutants.go, which lists the faults.
package main
