// Package replay plays recorded agent sessions through a pipeline, over NATS
// and with an agent's credential, the way the agent's host would have.
//
// Each session gets a synthetic project of its own (see
// streams.SyntheticPrefix), so that nothing in it counts anywhere else and its
// events carry virtual time: windows and cooldowns mean what they meant when
// the session was recorded, however fast it is played.
//
// It may import client, internal/wire and pkg/beliefs. Begin reading with script.go, which reads a
// session, and run.go, which plays it.
package replay
