// Package natsserver runs the embedded nats-server of `lazaret up`: JetStream encrypted
// at rest and synced to disk before it acknowledges, accounts in operator mode, and one
// credential for each role and agent.
//
// A credential is a signed JWT that lists, subject by subject, what its holder may
// publish and hear. The credential alone, and nothing in a payload, says which project,
// agent and origin a message speaks for. Credentials are ordinary NATS .creds files, so
// the same ones serve a cluster in operator mode.
//
// It does not protect against somebody who can read the data folder: the keys that sign
// credentials and encrypt the streams are in it.
//
// It may import internal/natsfiles, internal/token and internal/wire, and no fold. Begin reading
// with server.go and permissions.go; config.go writes a cluster's configuration.
package natsserver
