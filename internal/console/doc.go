// Package console serves pages for people: what comes in, what is held and why, what the
// sentinels found, what a session read and did, what is believed, and the log.
//
// Pages are rendered on the server and readable without script. Script keeps lists
// current and signs with passkeys. The console decides nothing: it asks the stages as the
// commands do, keeps an index of the ledger in memory, bounded and rebuilt at each start,
// and hands signed decisions to the arbiter, which verifies them. It begins to read the
// ledger when the first person signs in.
//
// It may import what the commands may, but no package of commands below internal/cli. Begin reading
// with console.go (Start, the paths) and index.go, which keeps the index; each page has a file of
// its name.
package console
