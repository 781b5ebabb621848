// Package chaos runs the pipeline as separate processes and disturbs it: kills,
// pauses, partitions between daemons and server, a full disk, and clients that
// repeat themselves, reorder, and send malformed and huge messages. Drills bring about
// the moments at which a broken stage loses or doubles something. Then it draws
// up an exact account from the ledger and the logs. Package mutants tries whether the
// account convicts a program that is broken on purpose.
//
// The same seed makes the same events and the same faults in the same order.
// When a fault hits is up to the machine: each waits for its share of
// acknowledged events.
package chaos
