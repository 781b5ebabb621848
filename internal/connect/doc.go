// Package connect puts Lazaret in front of the agent hosts of a machine: it finds
// their settings, installs hooks, and starts their MCP servers through lazaret mcp.
//
// Every change keeps the rest of a file as it was. The files as they were are kept in
// a record, so that Undo restores them byte for byte; a file that somebody else
// has changed since loses only what was put in.
//
// It may import internal/hook. Begin reading with Plan and Apply in connect.go.
package connect
