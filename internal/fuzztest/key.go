package fuzztest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// Pair is a new key of a signed note.
type Pair struct {
	Private, Public string
	Signer          note.Signer
	Verifier        note.Verifier
}

// NewPair returns a new random key.
func NewPair(t testing.TB, name string) (p Pair) {
	t.Helper()
	var err error
	if p.Private, p.Public, err = note.GenerateKey(nil, name); err != nil {
		t.Fatal(err)
	}
	p.Signer, p.Verifier = parsed(t, p.Private, p.Public)
	return p
}

// Key returns a key pair that depends only on the name. It is the same in every process, so that an input that the
// fuzzer found in one process has the same effect in others. It is not secret.
func Key(t testing.TB, name string) (private, public string) {
	t.Helper()
	seed := bytes.Repeat([]byte{42}, ed25519.SeedSize)
	key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	const ed = 1 // number of the algorithm in signed notes
	pub := append([]byte{ed}, key...)
	sum := sha256.Sum256(append([]byte(name+"\n"), pub...))
	hash := binary.BigEndian.Uint32(sum[:])
	enc := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, hash, enc(append([]byte{ed}, seed...))), fmt.Sprintf("%s+%08x+%s",
		name, hash, enc(pub))
}

// Signer returns the signer and verifier of the key pair that Key returns.
func Signer(t testing.TB, name string) (note.Signer, note.Verifier) {
	t.Helper()
	private, public := Key(t, name)
	return parsed(t, private, public)
}

func parsed(t testing.TB, private, public string) (note.Signer, note.Verifier) {
	t.Helper()
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}
