// Command ingest classifies every intake message, and keeps observations apart from
// beliefs.
//
// It calls internal/daemon, which has its flags, and imports nothing else. Begin reading in
// internal/daemon/ingest.go.
package main
