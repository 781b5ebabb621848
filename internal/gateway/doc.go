// Package gateway is the HTTP gateway: it translates requests into the messages that a NATS client
// would send, and returns the answers. It makes no decisions and has no rights of its own. A bearer
// token maps to one credential of the data folder, and a request uses a connection that was opened with
// that credential, so the NATS server enforces the same permissions as for a NATS client.
//
// The paths are in endpoints (endpoint.go); /v1/openapi.json is generated from the same table. Errors
// are problem details (RFC 9457) with the codes of docs/errors.md.
//
// It may import client, internal/hook, internal/memorytool, internal/memgate, internal/otlpin,
// internal/natsconn, internal/natsfiles and internal/token. To look up holds it also imports
// internal/arbiter, internal/natsserver and internal/query. Begin reading with endpoint.go.
package gateway
