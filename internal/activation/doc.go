// Package activation tracks which rule set, policy and trust file are in force in a partition. Each of these is a
// bundle. It is a part of the state of every stage.
//
// A bundle is transferred through the ledger in chunks, followed by a signed command. It is in force from the command's
// entry on. Each stage verifies the signature itself, so that a ledger writer who is not an operator cannot change the
// rules of other stages.
//
// It may import internal/stage and streams. Begin reading with Apply, which applies an entry to a stage's
// state, and Cache, which compiles the active bundles.
package activation
