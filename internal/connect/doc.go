// Package connect connects the agent hosts of a machine to Lazaret: it finds their settings, installs
// hooks, and makes them start their MCP servers through lazaret mcp.
//
// Every change preserves the rest of a file. A record keeps the original files, so that Undo restores
// them byte for byte. From a file that others have changed since, Undo removes only this package's additions.
//
// It may import internal/hook. Begin reading with Plan and Apply in connect.go.
package connect
