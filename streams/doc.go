// Package streams defines Lazaret's wire protocol: the subjects, stream names, headers, events and
// ledger entries that are sent over NATS, with strict constructors and parsers.
//
// There are three streams. Clients publish events to LZ_INTAKE. The stages of the pipeline add
// entries to LZ_LEDGER, each on a subject that only this stage may write. LZ_LIVE has copies of
// entries for people; a copy may be missing. Each kind of event has a file, such as session.go, with its event,
// its checks and the body of its entry. kind.go and event.go have what all kinds share, entry.go
// and body.go have the entries of the pipeline, and subject.go and stream.go the subjects and
// streams.
//
// A subject that this package builds parses back to the same parts. Names that NATS or a file
// system could misread are refused, not escaped. An event that parses is complete enough for ingest
// to decide on it. The package does not check who sent an event. NATS permissions do that (see
// internal/natsserver): an event's project, agent and origin come only from its subject, and a
// credential may publish only to its own subjects.
package streams
