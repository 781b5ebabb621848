// Package hookcli is the command that answers a coding agent's hooks, in lazaret and as a separate
// program. A host starts it for each event and waits for it, so it imports little: a NATS client, but
// not the server, the stages or the rules.
//
// It may import client, internal/hook, internal/natsconn and internal/natsfiles. Begin reading with
// Command.
package hookcli
