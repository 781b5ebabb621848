// A host in Go that needs nothing but the stock NATS client. It shows a page to
// an agent, proposes what the agent wants to do next, waits for a person if that
// is held, and reports what it did. docs/protocol.md is all it was written from.
//
// It imports nothing of ours. Begin reading with main.go, its only file.
package main
