// Package activation keeps which rule set and which policy are in force in a
// partition: a part of every stage's fold.
//
// A bundle travels through the ledger in chunks, and a signed command after
// them puts it in force at exactly that entry. Each stage verifies the
// signature itself, so that a ledger writer who is not an operator cannot
// change the rules of the others.
//
// It may import internal/stage and streams. Begin reading with Apply, which folds an entry, and
// Cache, which compiles what is in force.
package activation
