// Command auditor keeps the ledger in a tamper-evident log.
//
// It calls internal/daemon, which has its flags, and imports nothing else. Begin reading in
// internal/daemon/auditor.go.
package main
