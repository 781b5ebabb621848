package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"
)

// In a trust file, a passkey is a key of C2SP signed notes of the type 0xff. After the type come passkeyType and the
// JSON form of Passkey. The signature of a passkey in a note is the JSON form of Assertion. The challenge in it is the
// SHA-256 of the note's text.
const (
	algPasskey  = 0xff
	passkeyType = "lazaret/passkey/v1\n"
)

// Limits of passkeys and assertions.
const (
	maxCredential = 1023 // bytes; the limit of WebAuthn
	maxAssertion  = 8 << 10
	maxOrigins    = 8
)

// Bytes are binary data. Their text form is base64url without padding.
type Bytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return base64.RawURLEncoding.AppendEncode(nil, b), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	return err
}

// Passkey is the public key of a WebAuthn credential, with the web origins that may use it.
type Passkey struct {
	Credential Bytes    `json:"credential"`
	Origins    []string `json:"origins"` // web origins of the pages that may ask for a signature
	Public     Bytes    `json:"public"`  // COSE_Key, as the authenticator returned it
	RP         string   `json:"rp"`      // relying party id: the host of each web origin, or a parent domain of it
}

// Assertion is the answer of an authenticator to a challenge, unchanged.
type Assertion struct {
	AuthData   Bytes `json:"auth_data"`
	ClientData Bytes `json:"client_data"`
	Signature  Bytes `json:"signature"`
}

func (p *Passkey) check() error {
	if len(p.Credential) == 0 || len(p.Credential) > maxCredential || len(p.Public) == 0 || len(p.Public) > 1024 {
		return errors.New("its credential id or public key is empty or too long")
	}
	if !knownKey(p.Public) {
		return errors.New("its public key is not of ES256 or EdDSA, in canonical CBOR")
	}
	if p.RP == "" || len(p.Origins) == 0 || len(p.Origins) > maxOrigins {
		return fmt.Errorf("it needs a relying party and 1 to %d web origins", maxOrigins)
	}
	for i, o := range p.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme+"://"+u.Host != o || u.Hostname() != p.RP && !strings.HasSuffix(u.Hostname(), "."+p.RP) {
			return fmt.Errorf("web origin %q is not SCHEME://HOST[:PORT], with the host %s or one below it", o, p.RP)
		}
		if u.Scheme != "https" && (u.Scheme != "http" || p.RP != "localhost") {
			return fmt.Errorf("web origin %q is not https", o)
		}
		if slices.Contains(p.Origins[:i], o) {
			return fmt.Errorf("web origin %q is listed twice", o)
		}
	}
	return nil
}

// knownKey reports whether a COSE_Key has one of the two forms that examples/verifier supports: {1:
// 2, 3: -7, -1: 1, -2: X, -3: Y} and {1: 1, 3: -8, -1: 6, -2: X} in CTAP2 canonical CBOR.
func knownKey(cose []byte) bool {
	es256, eddsa := []byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, []byte{0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21,
		0x58, 32}
	return len(cose) == 77 && bytes.HasPrefix(cose, es256) && bytes.Equal(cose[42:45], []byte{0x22, 0x58, 32}) ||
		len(cose) == 42 && bytes.HasPrefix(cose, eddsa)
}

// Pin returns the text that pins a passkey in a trust file.
func (p *Passkey) Pin(name string) (string, error) {
	if err := errors.Join(checkName(name), p.check()); err != nil {
		return "", err
	}
	data, err := p.data()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, data), base64.StdEncoding.EncodeToString(data)), nil
}

func (p *Passkey) data() ([]byte, error) {
	b, err := json.Marshal(p, json.Deterministic(true))
	return append([]byte{algPasskey}, append([]byte(passkeyType), b...)...), err
}

// keyHash returns the key hash as defined for C2SP signed notes.
func keyHash(name string, data []byte) uint32 {
	h := sha256.Sum256(append([]byte(name+"\n"), data...))
	return binary.BigEndian.Uint32(h[:])
}

// ParsePasskey parses a pinned key that is a passkey, and returns the passkey and its name. It
// returns nil without an error for a key of another kind.
func ParsePasskey(key string) (*Passkey, string, error) {
	parts := strings.SplitN(key, "+", 3)
	if len(parts) != 3 {
		return nil, "", nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(data) == 0 || data[0] != algPasskey {
		return nil, "", nil
	}
	rest, ok := bytes.CutPrefix(data[1:], []byte(passkeyType))
	if !ok {
		return nil, "", fmt.Errorf("%w: its type is not %q", ErrBadKey, strings.TrimSpace(passkeyType))
	}
	p := new(Passkey)
	if err := json.Unmarshal(rest, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, "", fmt.Errorf("%w: the passkey cannot be decoded: %v", ErrBadKey, err)
	}
	if err := p.check(); err != nil {
		return nil, "", fmt.Errorf("%w: a passkey: %v", ErrBadKey, err)
	}
	if same, err := p.data(); err != nil || !bytes.Equal(same, data) {
		return nil, "", fmt.Errorf("%w: the passkey is not in its canonical encoding", ErrBadKey)
	}
	if parts[1] != hex.EncodeToString(binary.BigEndian.AppendUint32(nil, keyHash(parts[0], data))) {
		return nil, "", fmt.Errorf("%w: its hash is not %s", ErrBadKey, parts[1])
	}
	return p, parts[0], nil
}

// Encode returns the assertion in the form of a signature of a note.
func (a *Assertion) Encode() ([]byte, error) { return json.Marshal(a, json.Deterministic(true)) }

// ParseAssertion parses a passkey's signature of a note. It accepts only the canonical encoding.
func ParseAssertion(sig []byte) (*Assertion, error) {
	if len(sig) > maxAssertion {
		return nil, fmt.Errorf("an assertion of %d bytes, at most %d are taken", len(sig), maxAssertion)
	}
	a := new(Assertion)
	if err := json.Unmarshal(sig, a, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if same, err := a.Encode(); err != nil || !bytes.Equal(same, sig) {
		return nil, errors.New("the assertion is not in its canonical encoding")
	}
	return a, nil
}

// AssembleNote returns a C2SP signed note that has the given text and the signature of a passkey.
func AssembleNote(text, key string, a *Assertion) ([]byte, error) {
	v, isPasskey, err := newVerifier(key)
	if err != nil || !isPasskey {
		return nil, errors.Join(errors.New("the key is not a passkey"), err)
	}
	if !strings.HasSuffix(text, "\n") || strings.Contains(text, "\n\n") {
		return nil, errors.New("the text of a note must end with a newline and must have no empty line")
	}
	sig, err := a.Encode()
	if err != nil {
		return nil, err
	}
	raw := append(binary.BigEndian.AppendUint32(nil, v.KeyHash()), sig...)
	return []byte(text + "\n— " + v.Name() + " " + base64.StdEncoding.EncodeToString(raw) + "\n"), nil
}

// authHead is the length of the fixed part of authenticator data: the hash of the relying party,
// the flags and the signature counter.
const authHead = 32 + 1 + 4

// Counter returns the authenticator's signature counter, or 0 if it has none.
func (a *Assertion) Counter() uint32 {
	if len(a.AuthData) < authHead {
		return 0
	}
	return binary.BigEndian.Uint32(a.AuthData[33:])
}

// Challenge returns the challenge that an authenticator signs for a note with this text, in the
// form in which a browser reports it.
func Challenge(text []byte) string {
	h := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(h[:])
}

// verify verifies assertions. Passkeys sets it.
var verify atomic.Pointer[func(p *Passkey, challenge string, a *Assertion) error]

// Passkeys sets the function that verifies assertions. The package passkey calls Passkeys when it is initialized. So a
// program that does not import the package passkey does not link its dependencies. In such a program, no signature of a
// passkey is valid.
func Passkeys(f func(p *Passkey, challenge string, a *Assertion) error) { verify.Store(&f) }

// passkeyVerifier implements note.Verifier.
type passkeyVerifier struct {
	name string
	hash uint32
	key  *Passkey
}

func (v *passkeyVerifier) Name() string    { return v.name }
func (v *passkeyVerifier) KeyHash() uint32 { return v.hash }

func (v *passkeyVerifier) Verify(msg, sig []byte) bool {
	f := verify.Load()
	a, err := ParseAssertion(sig)
	return err == nil && f != nil && (*f)(v.key, Challenge(msg), a) == nil
}

// ExplainAssertion says why a passkey's signature of a note is not valid. key is the passkey, and signed is the note.
// It returns "" if the signature is valid, if key is not a passkey, or if the note has no readable signature under the
// key's name.
func ExplainAssertion(key string, signed []byte) string {
	p, name, err := ParsePasskey(key)
	end := bytes.LastIndex(signed, []byte("\n\n"))
	if p == nil || err != nil || end < 0 {
		return ""
	}
	for line := range strings.Lines(string(signed[end+2:])) {
		encoded, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "— "+name+" ")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(raw) < 4 {
			continue
		}
		a, err := ParseAssertion(raw[4:])
		if f := verify.Load(); err == nil && f != nil {
			err = (*f)(p, Challenge(signed[:end+1]), a)
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// newVerifier is like note.NewVerifier, but also supports passkeys.
func newVerifier(key string) (v note.Verifier, passkey bool, err error) {
	p, name, err := ParsePasskey(key)
	if err != nil {
		return nil, true, err
	}
	if p == nil {
		v, err = note.NewVerifier(key)
		return v, false, err
	}
	data, err := p.data()
	if err != nil {
		return nil, true, err
	}
	return &passkeyVerifier{name, keyHash(name, data), p}, true, nil
}
