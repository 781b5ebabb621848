package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A passkey is a key of type 0xff. After the type byte follow this text and a JSON object.
const (
	passkeyAlgorithm = 0xff
	passkeyType      = "lazaret/passkey/v1\n"
)

// passkey is a WebAuthn credential and the pages that may ask for its signature.
type passkey struct {
	Origins []string `json:"origins"`
	Public  string   `json:"public"` // COSE_Key, base64url
	RP      string   `json:"rp"`

	ec *ecdsa.PublicKey
	ed ed25519.PublicKey
}

func parsePasskey(b []byte) (*passkey, error) {
	b, ok := bytes.CutPrefix(b, []byte(passkeyType))
	if !ok {
		return nil, errors.New("a key of a type that this program does not know")
	}
	p := new(passkey)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("a passkey that cannot be read: %w", err)
	}
	cose, err := base64.RawURLEncoding.DecodeString(p.Public)
	if err != nil {
		return nil, err
	}
	// The two supported kinds of public keys, in CTAP2 canonical CBOR: {1: 2, 3: -7, -1: 1, -2: X, -3: Y}
	// and {1: 1, 3: -8, -1: 6, -2: X}.
	es256, eddsa := []byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, []byte{0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21,
		0x58, 32}
	switch {
	case len(cose) == 77 && bytes.HasPrefix(cose, es256) && bytes.Equal(cose[42:45], []byte{0x22, 0x58, 32}):
		point := slices.Concat([]byte{4}, cose[10:42], cose[45:])
		if p.ec, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err != nil {
			return nil, err
		}
	case len(cose) == 42 && bytes.HasPrefix(cose, eddsa):
		p.ed = cose[10:]
	default:
		return nil, errors.New("the passkey's algorithm is neither ES256 nor Ed25519")
	}
	return p, nil
}

// assertion is a signature of an authenticator. It covers the authenticator's data and the SHA-256 of
// the browser's data.
type assertion struct {
	Auth      []byte `json:"-"`
	Client    []byte `json:"-"`
	Signature []byte `json:"-"`
}

func parseAssertion(sig []byte) (a assertion, err error) {
	var raw struct {
		Auth      string `json:"auth_data"`
		Client    string `json:"client_data"`
		Signature string `json:"signature"`
	}
	if err = json.Unmarshal(sig, &raw); err != nil {
		return a, err
	}
	var errs [3]error
	a.Auth, errs[0] = base64.RawURLEncoding.DecodeString(raw.Auth)
	a.Client, errs[1] = base64.RawURLEncoding.DecodeString(raw.Client)
	a.Signature, errs[2] = base64.RawURLEncoding.DecodeString(raw.Signature)
	if err = errors.Join(errs[:]...); err == nil && len(a.Auth) < 37 {
		err = errors.New("its authenticator data is cut short")
	}
	return a, err
}

// counter is the authenticator's count of its signatures.
func (a *assertion) counter() uint32 { return binary.BigEndian.Uint32(a.Auth[33:37]) }

// verify checks an assertion over a note's text as WebAuthn requires: the ceremony, the challenge, the
// origin, the relying party, that a person was present and verified, and the signature. It does not
// check the counter: count does, in the order of approvals.
func (p *passkey) verify(text string, sig []byte) error {
	a, err := parseAssertion(sig)
	if err != nil {
		return err
	}
	var client struct {
		Type, Challenge, Origin string
		CrossOrigin             bool
	}
	if err := json.Unmarshal(a.Client, &client); err != nil {
		return err
	}
	challenge, rp := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(p.RP))
	const present, verified = 1, 4
	switch {
	case client.Type != "webauthn.get":
		return fmt.Errorf("its type is %q, but that of a signature is webauthn.get", client.Type)
	case client.Challenge != base64.RawURLEncoding.EncodeToString(challenge[:]):
		return errors.New("its challenge is not the SHA-256 of the text")
	case !slices.Contains(p.Origins, client.Origin):
		return fmt.Errorf("its web origin %q is not pinned with the passkey", client.Origin)
	case client.CrossOrigin:
		return errors.New("it was made in a frame of a page with another web origin")
	case !bytes.Equal(a.Auth[:32], rp[:]):
		return fmt.Errorf("its relying party is not %s", p.RP)
	case a.Auth[32]&present == 0 || a.Auth[32]&verified == 0:
		return errors.New("the authenticator did not verify that a person was present")
	}
	hash := sha256.Sum256(a.Client)
	signed := slices.Concat(a.Auth, hash[:])
	sum := sha256.Sum256(signed)
	if p.ec != nil && ecdsa.VerifyASN1(p.ec, sum[:], a.Signature) || p.ed != nil && ed25519.Verify(p.ed, signed,
		a.Signature) {
		return nil
	}
	return errors.New("its signature is invalid")
}

// count checks that the counter of a passkey grows from approval to approval of a project, or stays 0
// if the authenticator has none.
func (v *verifier) count(passkey, note string) error {
	line := note[strings.LastIndex(strings.TrimSuffix(note, "\n"), " ")+1:]
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
	if err != nil || len(raw) < 4 {
		return errors.Join(errors.New("the note does not end with a passkey's signature (a WebAuthn assertion, base64)"), err)
	}
	a, err := parseAssertion(raw[4:])
	if err != nil {
		return err
	}
	if n, before := a.counter(), v.counters[passkey]; (n > 0 || before > 0) && n <= before {
		return fmt.Errorf("the passkey's counter is %d, but it was already %d in an earlier signature", n, before)
	}
	if v.counters == nil {
		v.counters = make(map[string]uint32)
	}
	v.counters[passkey] = a.counter()
	return nil
}
