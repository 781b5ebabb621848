// Package passkey verifies WebAuthn registrations and assertions with
// github.com/go-webauthn/webauthn. A program that imports it verifies the signatures of
// passkeys that a trust file pins; the format is that of package keys.
//
// User verification is required, the origin is one of those that are pinned, and a page in
// a frame of another origin does not count. The counter is the caller's to keep.
//
// It may import pkg/keys. Begin reading with passkey.go, its only file.
package passkey
