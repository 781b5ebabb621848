// Verifier checks a file of "lazaret audit evidence" with the public keys of the log. It was
// written from docs/evidence.md and imports the standard library alone.
//
//	verifier -log VKEY [-operator VKEY] [-witness VKEY …] FILE
//
// It exits with 0 if all was checked and holds, with 3 if what was checked holds and there
// are signatures by keys that were not given, and with 2 if something does not hold.
//
// Begin reading with main.go; leaf.go checks leaves and their proofs, passkey.go signatures of passkeys.
package main
