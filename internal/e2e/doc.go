// Package e2e tests the programs as their users start them: real processes, a real server, real credentials, real
// kills.
//
// A kill -9 does not reveal a missing fsync, because the operating system keeps the data that a process has written. A
// missing fsync is found by the tests of pkg/chain on a file system that can simulate a crash of the machine. The
// streams rely on nats-server's sync_always, which `lazaret doctor` checks.
package e2e
