// Package mcpwire carries the messages of MCP (Model Context Protocol) over the transports that the proxy uses: lines
// over the pipes of a process, and Streamable HTTP on either side.
//
// A connection implements mcp.Connection of the Go SDK. The params and results of its messages are the received bytes,
// unchanged. The SDK's own HTTP transports cannot be used in a proxy. Their server side refuses methods that it does
// not know, and cannot say to which request a message of the server belongs. Their client side receives messages that
// belong to no request only if the SDK's own client uses it.
//
// Each session of a host has its own connection to the server. No two sessions share a process, an upstream session, a
// request id, a stream or a token.
//
// Begin reading with endpoint.go, which serves clients over HTTP. upstream.go connects to a server over HTTP; lines.go
// and stdio.go use pipes.
package mcpwire
