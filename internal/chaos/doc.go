// Package chaos runs the pipeline as separate processes and disturbs it: kills, pauses, network
// partitions between daemons and server, a full disk, and clients that repeat, reorder, and send
// malformed and huge messages. Drills create the situations in which a faulty stage would lose or duplicate an
// entry. At the end the package compares the ledger and the logs with what the clients sent and received.
// Package mutants tests whether these checks detect deliberately introduced faults.
//
// The same seed gives the same events and the same faults in the same order. The time of a fault
// depends on the machine: each fault waits until its share of the events is acknowledged.
package chaos
