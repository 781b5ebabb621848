// Package console serves web pages for people: intake, holds and their reasons, findings of the
// sentinels, sessions, beliefs, and the log.
//
// Pages are rendered on the server and readable without JavaScript. JavaScript refreshes lists and
// signs with passkeys. The console makes no decisions: it queries the stages as the commands do, keeps
// a bounded in-memory index of the ledger that it rebuilds at each start, and passes signed decisions
// to the arbiter, which verifies them. It starts to read the ledger at the first sign-in.
//
// It may import every package that the commands of lazaret may import, but no package of commands below
// internal/cli. Begin reading with console.go (Start, the paths) and index.go, which keeps the index; each page
// has a file of its name.
package console
