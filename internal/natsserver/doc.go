// Package natsserver runs the embedded nats-server of `lazaret up`: JetStream encrypted at rest and synced to disk
// before it acknowledges, accounts in operator mode, and one credential for each role and agent.
//
// A credential is a signed JWT that lists the subjects to which its holder may publish and subscribe. The project,
// agent and origin of a message follow from the credential alone, never from the payload: permissions.go lists the
// subjects, and package streams reads the origin from them. Credentials are ordinary NATS .creds files, so they also
// work with a separately run cluster in operator mode.
//
// The package does not protect against a reader of the data folder, which contains the keys that sign credentials and
// encrypt the streams.
//
// It may import internal/natsfiles, internal/token and internal/wire, but none of the pipeline's stages. Begin reading
// with server.go and permissions.go; config.go writes a cluster's configuration.
package natsserver
