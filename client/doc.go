// Package client is the Go client of Lazaret. It is optional: every call is one NATS publish or one NATS
// request, described in docs/protocol.md, and any NATS client in any language can do the same
// (examples/clients).
//
// To use it from another module, put a copy of this repository beside that module, and add "require lazaret
// v0.0.0" and "replace lazaret => ../lazaret" to its go.mod.
//
// A host program around an agent has three duties. It publishes content with Observe and shows it to the
// agent only after the call returned. It asks before the agent writes to its memory (Remember) and before the
// agent acts (Decide). It treats every error as hold; VerdictOf does that. Await waits for the end of a hold.
//
// If it is unknown whether an event arrived, the client sends it again with the same id and the same bytes,
// so that the pipeline counts it once. A proposal without an id gets a new id and the last acknowledged
// intake sequence (After). A caller that sets the id itself, to be able to ask again, must send the same
// After each time: LastAcknowledged at the first call, or none. A proposal with a used id and a different
// After counts as a different proposal and is held.
//
// The package imports streams, pkg/beliefs and pkg/approval, and no internal package. Begin reading with
// client.go; await.go waits for held proposals, and retry.go sends again.
package client
