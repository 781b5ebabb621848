// Package embeddedtest gives the tests of a package a pipeline that they share, and clients of its agents.
//
// It may import client, internal/embedded, internal/natsserver and pkg/beliefs. Only tests import it.
// Begin reading with embeddedtest.go, its only file.
package embeddedtest
