// Package datafolder has the paths of a data folder and makes its keys: the pinned keys, the auditor's master key and
// the key of the stages' state. Paths of credentials and NATS contexts are in internal/natsfiles, those of the server's
// own keys in internal/natsserver.
//
// It may import internal/natsserver, but no stage. Begin reading with datafolder.go, which has the paths; keys.go has
// the keys.
package datafolder
