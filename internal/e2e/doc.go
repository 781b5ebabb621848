// Package e2e tests the programs as their users start them: real processes, a
// real server, real credentials, real kills.
//
// A kill -9 does not show a missing fsync, since the operating system keeps written data.
// pkg/chain's tests on Pebble's crashable file system do, and so does nats-server's own
// sync_always, which `lazaret doctor` and the README speak of.
package e2e
