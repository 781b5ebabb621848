// Command go is a host in Go that uses only the standard NATS client. It shows a page to an agent,
// proposes the agent's next action, waits for a person if the action is held, and reports the outcome.
// It was written from docs/protocol.md alone.
//
// It imports no other package of Lazaret. Begin reading with main.go, its only file.
package main
