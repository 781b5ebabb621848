// Package embedded runs the whole pipeline in one process: nats-server,
// ingest, the sentinel groups, the arbiter and the auditor. It is what
// `lazaret up` and the tests start.
//
// Each stage has a connection and a credential of its own, the same as it has
// when it runs as a daemon: one process is a matter of convenience, not of
// trust.
//
// It may import every fold, internal/natsserver and pkg/rules. Begin reading with Start in
// embedded.go; init.go makes the streams on a server that runs elsewhere, backup.go copies and
// restores a data folder.
package embedded
