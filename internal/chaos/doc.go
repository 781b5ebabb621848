// Package chaos runs the pipeline as separate processes and disturbs it: kills, pauses, network
// partitions between daemons and server, a full disk, and clients that repeat, reorder, and send
// malformed and huge messages. Drills create the situations in which a faulty stage loses or duplicates
// something. At the end the package checks the ledger and the logs exactly. Package mutants tests
// whether these checks detect deliberately introduced faults.
//
// The same seed gives the same events and the same faults in the same order. The time of a fault
// depends on the machine: each waits until its share of events is acknowledged.
package chaos
