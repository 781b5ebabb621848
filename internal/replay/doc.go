// Package replay plays recorded agent sessions through a pipeline over NATS, with an agent's
// credential, as the agent's host would.
//
// Each session gets its own synthetic project (see streams.SyntheticPrefix), so that it affects nothing
// else and its events have virtual time. Windows and cooldowns then have the same effect as at the time
// of the recording, however fast it is played.
//
// It may import client, internal/stage, internal/wire and pkg/beliefs. Begin reading with script.go, which reads a
// session, and run.go, which plays it.
package replay
