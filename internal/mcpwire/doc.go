// Package mcpwire carries the messages of MCP (Model Context Protocol) over the transports
// that the proxy uses: lines over the pipes of a process, and Streamable HTTP on either side.
//
// A connection implements mcp.Connection of the Go SDK. It returns messages whose params
// and results are the received bytes. The SDK's own HTTP transports do not fit. Their
// server side refuses methods that it does not know and cannot assign a message to a
// request. Their client side does not open a stream for the server's messages outside the
// SDK's client.
//
// Each session of a host has its own connection to the server. No two sessions share a
// process, an upstream session, a request id, a stream or a token.
package mcpwire
