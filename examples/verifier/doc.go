// Command verifier checks an evidence file of "lazaret audit evidence" with the public keys of the log.
// It was written from docs/evidence.md and imports only the standard library.
//
//	verifier -log VKEY [-operator VKEY] [-witness VKEY …] FILE
//
// It exits with 0 if everything was checked and is valid, with 3 if everything that was checked is
// valid but some signatures are by keys that were not given or a given witness has not cosigned, with 2 if something is
// invalid, and with 1 if it could not run.
//
// Begin reading with main.go; leaf.go checks leaves and their proofs, passkey.go signatures of
// passkeys.
package main
