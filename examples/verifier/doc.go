// Command verifier checks an evidence file of "lazaret audit evidence" with the public keys of the log.
// It was written from docs/evidence.md and imports only the standard library.
//
//	verifier -log VKEY [-operator VKEY] [-witness VKEY …] FILE
//
// Exit codes:
//
//	0  everything was checked and is valid
//	1  the verifier could not run
//	2  something is invalid
//	3  all that was checked is valid, but the key of a signature was not given or a given witness has not cosigned
//
// Begin reading with main.go; leaf.go checks leaves and their proofs, passkey.go signatures of
// passkeys.
package main
