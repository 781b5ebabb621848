// Command mutants tests whether `lazaret chaos` detects a faulty pipeline. It builds a program with
// sixteen faults, of which an environment variable activates one, and runs chaos for each fault and for
// none. For some faults of joint decisions it runs tests of internal/stage instead, because chaos shows
// their effect too rarely. It exits with 2 if a fault is not detected, or if a problem is reported for the
// program without a fault.
//
//	go run ./internal/chaos/mutants
//
// It imports internal/chaos alone. Begin reading with mutants.go, which lists the faults.
package main
