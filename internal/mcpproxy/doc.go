// Package mcpproxy is a proxy between an MCP client and an MCP server (Model Context Protocol, both
// over any transport: internal/mcpwire). It passes on nothing that a model may read before the pipeline
// has recorded it.
//
//   - A tools/call is proposed to the arbiter first. A held call waits a configured time
//     for an approval. A refused call returns a result with isError, the reasons and the
//     hold, so that the model can continue.
//   - Server content that a model may read is an observation. It is passed on only after
//     its publish was acknowledged: results of tools, resources and prompts, instructions
//     and lists, sampling requests, notifications.
//   - A server's tools are listed and callable only after a person has accepted them. When
//     a tool changes, all of them must be accepted again.
//   - Other requests of a client are passed on if their method is one of the protocol, or if the operator
//     has named it. A server might carry out others as a tools/call.
//
// Everything else is passed on unchanged and in order: requests of the server, notifications,
// cancellation, progress. The proxy forwards messages and does not use an SDK's client and server, so
// that it loses no field of a protocol version that it does not know.
//
// It does not see an agent's built-in tools.
//
// Begin reading with proxy.go, then call.go for a tools/call and observe.go for the server's content.
package mcpproxy
