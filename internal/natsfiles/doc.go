// Package natsfiles has the paths of credentials and NATS contexts in a data folder, and reads
// credentials. It is separate from natsserver, which creates them, so that a small client does not link
// a server.
//
// It may import streams. Begin reading with natsfiles.go; write.go replaces files under a lock.
package natsfiles
