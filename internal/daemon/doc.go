// Package daemon has the four daemons and their common parts: flags, logger, connections and signals.
// Each daemon's stage is in a separate package, such as internal/ingest.
//
// It may import every stage and internal/natsserver; only cmd imports it. Begin reading with
// daemon.go, then the daemon's own file.
package daemon
