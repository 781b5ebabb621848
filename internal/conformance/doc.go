// Package conformance checks a sentinel group that is somebody else's program.
//
// It starts a pipeline of its own whose policy requires the group, runs the
// program against it with the group's credential, publishes what an agent
// would, kills the program, runs it twice at once, puts junk into the ledger,
// and reads off the ledger whether the group kept the promises of
// docs/sentinels.md. It knows nothing of the program but its command line.
//
// It may import client, internal/embedded, internal/natsserver and internal/wire. Begin reading
// with Sentinel in conformance.go; checks.go has the promises one by one.
package conformance
