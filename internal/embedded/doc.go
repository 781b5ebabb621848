// Package embedded runs the whole pipeline in one process: nats-server, ingest, the sentinel groups, the arbiter and
// the auditor. `lazaret up` and tests use it.
//
// Each stage has a connection and a credential of its own, as if it were a separate daemon. So the server enforces the
// same permissions as for separate daemons.
//
// It may import every stage, internal/natsserver, internal/datafolder, internal/backup and pkg/rules. Begin reading
// with Start in embedded.go; first.go and activate.go activate rules and policy, init.go makes the streams on a server
// that runs elsewhere, join.go runs the stages there, erase.go and copy.go answer requests to erase and to copy the
// data folder.
package embedded
