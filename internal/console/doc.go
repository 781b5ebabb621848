// Package console serves web pages for people: intake, holds and their reasons, findings of the sentinels, sessions,
// beliefs, and the log.
//
// Pages are rendered on the server and readable without JavaScript. JavaScript refreshes lists and signs with passkeys.
// The console makes no decisions. It queries the stages in the same way as the commands. It passes signed decisions to
// the arbiter, which verifies them. It has an index of the ledger in memory, whose size is limited. It builds the index
// anew after each start, from the first sign-in on.
//
// It may import every package that the commands of lazaret may import, but no package of commands below internal/cli.
// Begin reading with console.go (Start, the paths) and index.go, which has the index. Each page has a file with its
// name.
package console
