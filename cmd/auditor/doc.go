// Command auditor copies the ledger to a tamper-evident log.
//
// It calls internal/daemon, which has its flags, and imports nothing else. Begin reading in
// internal/daemon/auditor.go.
package main
