// Package witness has others vouch for a log: a witness remembers the last
// checkpoint of each log that it saw, and cosigns a later one only if that
// extends it. Somebody who rewrites a log, with all its keys, cannot have the
// rewriting cosigned.
//
// It speaks C2SP tlog-witness, with Ed25519 cosignatures (tlog-cosignature) and
// policies in the format of tlog-policy, so that the witness may be anybody's,
// and this one may serve anybody's log.
//
// A witness promises that it never cosigned two trees of a log of which one
// does not extend the other. It does not look into leaves, and it says nothing
// of what lies behind its last cosignature.
package witness
