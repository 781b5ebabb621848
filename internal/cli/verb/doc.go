// Package verb has what the command packages of lazaret share: the list to which they add their
// commands, the connection, the agent that a command acts as, flags, and signed orders. A command
// package imports verb, never another command package. Begin reading in verbs.go.
package verb
