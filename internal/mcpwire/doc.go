// Package mcpwire carries the messages of MCP (Model Context Protocol) over the transports
// that the proxy uses: lines over the pipes of a process, and Streamable HTTP on either side.
//
// A connection is an mcp.Connection of the Go SDK and hands out messages whose params and
// results are the bytes that came. The SDK's own HTTP transports do not fit: the server side
// refuses methods that it does not know and cannot relate a message to a request, and the
// client side opens no stream for the server's messages outside the SDK's client.
//
// Each session of a host has a connection of its own to the server. No two sessions share
// a process, an upstream session, a request id, a stream or a token.
package mcpwire
