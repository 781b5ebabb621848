// Package e2e tests the programs as their users start them: real processes, a real server, real
// credentials, real kills.
//
// A kill -9 does not reveal a missing fsync, because the operating system keeps written data. The tests
// of pkg/chain on Pebble's crashable file system do. The streams rely on nats-server's sync_always,
// which `lazaret doctor` checks.
package e2e
