// Package mcpproxy is a proxy between an MCP client and an MCP server (Model Context
// Protocol, both over any transport: internal/mcpwire). It passes on nothing that a model may
// read before the pipeline has recorded it.
//
//   - A tools/call is proposed to the arbiter first. A hold waits a configured time
//     for a person; a refused call comes back as a result with isError, the
//     reasons and the hold, so that the model can go on.
//   - Server content that a model may read is an observation, and is passed
//     on only after its publish was acknowledged: results of tools, resources and
//     prompts, instructions and lists, questions to the model (sampling), notifications.
//   - A server's tools are shown, and may be called, once a person has accepted
//     them; when they change, all of them wait until they are accepted again.
//
// Everything else passes as it came, message by message, in order: requests of either
// side, notifications, cancellation, progress. The proxy works on messages and not on an
// SDK's client and server, so that it loses nothing of a protocol version that it does
// not know.
//
// It does not see an agent's built-in tools.
package mcpproxy
