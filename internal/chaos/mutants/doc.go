// Command mutants tries whether `lazaret chaos` convicts a pipeline that is broken. It
// builds a program with nine faults, one of which an environment variable puts in
// force, and runs chaos for each of them and for none. It exits with 2 if a fault is not
// found, or if something is found where there is none.
//
//	go run ./internal/chaos/mutants
//
// It imports internal/chaos alone. Begin reading with mutants.go, which lists the faults.
package main
