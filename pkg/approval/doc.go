// Package approval has the signed decisions of people on holds: their content, their
// signature, and when they may be obeyed. It is pure: no I/O, no clock.
//
// A resolution is a C2SP signed note with one signature, of an Ed25519 key or of a
// passkey (package keys says how). Its text is one line, the JCS form (RFC 8785) of a
// Statement. It names the hold, the revision of the hold that the signer saw, the digest
// of the action, the decision, an expiry and a nonce, so that it resolves that one hold,
// as it was seen, once.
//
// There is exactly one encoding of a signed statement. Any other bytes are refused, even
// where the signature would still verify.
//
// It may import pkg/keys, pkg/beliefs and streams. Begin reading with approval.go; order.go and
// belief.go have the other signed statements.
package approval
