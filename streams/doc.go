// Package streams is Lazaret's wire contract: every subject, stream
// definition, header, event and ledger entry that crosses NATS, with strict
// constructors and parsers for each.
//
// Three streams exist. Clients publish events to LZ_INTAKE; the stages of the
// pipeline add entries to LZ_LEDGER, each on a subject that it alone may
// write; LZ_LIVE carries best-effort copies for people. The events of clients are
// in event.go, the entries of the pipeline in entry.go, and their subjects and
// streams in subject.go and stream.go.
//
// The package guarantees that a subject it builds parses back to the same
// parts, that names which NATS or a file system could misread are refused
// rather than escaped, and that an event which parses is complete enough for
// ingest to decide on. It does not check who sent it: that is what NATS
// permissions are for (see internal/natsserver), and the subject that a
// credential may publish to is the only source of project, agent and origin.
package streams
