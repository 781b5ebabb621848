// Package approval defines the signed decisions of people on holds: their content, their signature, and the checks
// before they are accepted. It is pure: no I/O, no clock.
//
// A resolution is a C2SP signed note with one signature, of an Ed25519 key or of a passkey (see package keys). Its text
// is one line, the JCS form (RFC 8785) of a Statement. It names the hold, the revision of the hold that the signer saw,
// the digest of the action, the decision, an expiry and a nonce. Therefore it can resolve only this hold, only once,
// and only while the hold is in the state that the signer saw.
//
// A signed statement has exactly one encoding. Any other bytes are refused, even if the signature is valid.
//
// It may import pkg/keys, pkg/beliefs and streams. Begin reading with approval.go; order.go and belief.go have the
// other signed statements.
package approval
