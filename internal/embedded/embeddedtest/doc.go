// Package embeddedtest starts a pipeline for the tests of a package, which they share, and gives them clients of agents
// in it.
//
// It may import client, internal/embedded, internal/natsserver and pkg/beliefs. Only tests import it. Begin reading
// with embeddedtest.go, its only file.
package embeddedtest
