// Package natstest starts a real nats-server in a test, with Lazaret's streams and without accounts.
// Tests of permissions use internal/natsserver.
//
// It may import internal/wire and streams. Only tests import it. Begin reading with natstest.go,
// its only file.
package natstest
