// Package passkey verifies WebAuthn registrations and assertions with github.com/go-webauthn/webauthn. A program that
// imports it can verify signatures by passkeys in a trust file. Package keys defines their format.
//
// An assertion is refused if the authenticator did not verify the user, if the web origin is not one of the pinned
// ones, or if the page was in a frame of another web origin. The caller must store the signature counter and compare it
// with the next one.
//
// It may import pkg/keys. Begin reading with passkey.go, its only file.
package passkey
