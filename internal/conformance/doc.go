// Package conformance checks a sentinel group that is a third-party program.
//
// It starts a pipeline whose policy requires the group, runs the program with the group's credential,
// publishes an agent's events, kills the program, runs it twice at the same time, writes invalid
// entries to the ledger, and checks in the ledger whether the group fulfills docs/sentinels.md. It
// knows only the command line of the program.
//
// It may import client, internal/datafolder, internal/embedded, internal/natsserver and internal/wire. Begin reading
// with Sentinel in conformance.go; checks.go has the checks one by one.
package conformance
