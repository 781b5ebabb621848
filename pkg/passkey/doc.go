// Package passkey verifies WebAuthn registrations and assertions with
// github.com/go-webauthn/webauthn. A program that imports it can verify signatures by passkeys in a
// trust file. Package keys defines their format.
//
// User verification is required. The origin must be one of the pinned origins. A page in a frame of
// another origin is refused. The caller must store and compare the counter.
//
// It may import pkg/keys. Begin reading with passkey.go, its only file.
package passkey
