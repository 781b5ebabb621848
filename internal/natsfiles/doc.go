// Package natsfiles knows where a data folder keeps credentials and NATS
// contexts, and what a credential says of itself. It is apart from the server
// that makes them, so that a small client does not carry a server.
//
// It may import streams. Begin reading with natsfiles.go; write.go replaces files under a lock.
package natsfiles
