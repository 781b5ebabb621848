// Package gateway is the HTTP door: it translates requests into what a NATS client
// would send, and answers back. It decides nothing and has no rights of its own. A
// bearer token stands for one credential of the data folder, and a request travels
// over a connection that was opened with that credential, so the NATS server refuses
// here what it refuses there.
//
// The paths are in endpoints (endpoint.go); /v1/openapi.json is generated from the same
// table. Errors are problem details (RFC 9457) with the codes of docs/errors.md.
//
// It may import client, internal/hook, internal/memorytool, internal/otlpin and
// internal/natsserver. Begin reading with endpoint.go.
package gateway
