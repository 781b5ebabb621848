// Package daemon has the four daemons and their common parts: flags, logger, connections and signals.
// Each daemon's fold is in a separate package.
//
// It may import every fold and internal/natsserver; only cmd imports it. Begin reading with
// daemon.go, then the daemon's own file.
package daemon
