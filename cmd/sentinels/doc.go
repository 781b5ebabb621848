// Command sentinels judges ledger entries by the rules of one sentinel group.
//
// It calls internal/daemon, which has its flags, and imports nothing else. Begin reading in
// internal/daemon/sentinels.go.
package main
