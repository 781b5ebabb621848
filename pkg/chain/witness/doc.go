// Package witness lets others confirm a log. A witness stores the last checkpoint of each log that it cosigned, and
// cosigns a new checkpoint of the log only if its tree extends the stored checkpoint's tree. So someone who rewrites a
// log, even with all its keys, cannot get the rewritten log cosigned.
//
// The package implements C2SP tlog-witness, with Ed25519 cosignatures (tlog-cosignature) and policies in the format of
// tlog-policy. It works with other witnesses, and its witness works with other logs.
//
// A witness guarantees that it never cosigns two trees of a log of which neither extends the other. It does not inspect
// leaves, and makes no statement about leaves after its last cosignature.
package witness
