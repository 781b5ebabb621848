package passkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
)

const origin = "https://lazaret.example.org"

// device is an authenticator in software.
type device struct {
	private *ecdsa.PrivateKey
	key     keys.Passkey
	pin     string
	counter uint32
}

func newDevice(t *testing.T, name string) *device {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		t.Fatal(err)
	}
	// The public key as a COSE_Key {1: 2, 3: -7, -1: 1, -2: X, -3: Y}.
	cose := append([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	d := &device{private: private, key: keys.Passkey{Credential: []byte("credential of " + name),
		Origins: []string{origin}, Public: cose, RP: "lazaret.example.org"}}
	if d.pin, err = d.key.Pin(name); err != nil {
		t.Fatal(err)
	}
	return d
}

// made is the data that an authenticator and a browser sign. A test changes fields of honest data to make an attack.
type made struct {
	kind, challenge, origin, rp string
	flags                       byte
	counter                     uint32
	cross                       bool
}

func (d *device) sign(t *testing.T, m made) *keys.Assertion {
	t.Helper()
	client := fmt.Sprintf(`{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":%t}`, m.kind, m.challenge, m.origin,
		m.cross)
	rp := sha256.Sum256([]byte(m.rp))
	data := binary.BigEndian.AppendUint32(append(rp[:], m.flags), m.counter)
	hash := sha256.Sum256([]byte(client))
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, d.private, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return &keys.Assertion{AuthData: data, ClientData: []byte(client), Signature: sig}
}

// honest returns the data that an honest browser and authenticator sign for a text.
func (d *device) honest(text string) made {
	d.counter++
	return made{kind: "webauthn.get", challenge: keys.Challenge([]byte(text)), origin: origin, rp: d.key.RP, flags: 0x05,
		counter: d.counter}
}

func (d *device) note(t *testing.T, text string, m made) []byte {
	t.Helper()
	msg, err := keys.AssembleNote(text, d.pin, d.sign(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func statement() *approval.Statement {
	return &approval.Statement{Action: "sha256:" + strings.Repeat("ab", 32), Decision: approval.Approve,
		Expires: now.Add(time.Minute), Hold: "h1",
		Nonce: approval.NewNonce(), Project: "acme", Revision: "r1", Version: approval.Version}
}

func text(t *testing.T, s *approval.Statement) string {
	t.Helper()
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func trusting(t *testing.T, pins ...keys.Pin) *keys.Trust {
	t.Helper()
	trust := new(keys.Trust)
	for _, p := range pins {
		if err := trust.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	b, err := trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if trust, err = keys.ParseTrust("trust.yaml", b); err != nil {
		t.Fatal(err)
	}
	return trust
}

// hold is a hold with the data of it that a fold stores. A decision is judged with this data.
type hold struct {
	trust   *keys.Trust
	used    map[string]bool
	counter uint32
}

// release opens and judges a decision on the hold in the same way as the arbiter.
func (h *hold) release(msg []byte) error {
	s, err := approval.Open(msg, h.trust)
	if err != nil {
		return err
	}
	c := approval.Case{Project: "acme", Agent: "support", Hold: "h1", Revision: "r1",
		Action: "sha256:" + strings.Repeat("ab", 32), Now: now, Open: true,
		Used: h.used[s.Nonce], Counter: h.counter}
	if err := s.Judge(&c); err != nil {
		return err
	}
	h.used[s.Nonce], h.counter = true, s.Counter
	return nil
}

func TestAPasskeyReleasesWhatItSignedOnce(t *testing.T) {
	d := newDevice(t, "alice")
	h := &hold{trust: trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover}}),
		used: make(map[string]bool)}
	s := text(t, statement())
	msg := d.note(t, s, d.honest(s))
	if err := h.release(msg); err != nil {
		t.Fatal(err)
	}
	if err := h.release(msg); !errors.Is(err, &approval.Error{Check: approval.CheckReplayed}) {
		t.Errorf("a second time: %v", err)
	}
	// A copied authenticator continues to count from the value at the time of the copy, so its counter is too small.
	copied := text(t, statement())
	m := d.honest(copied)
	m.counter = 1
	if err := h.release(d.note(t, copied, m)); !errors.Is(err, &approval.Error{Check: approval.CheckCounter}) {
		t.Errorf("a counter that does not grow: %v", err)
	}
	zero := text(t, statement())
	m = d.honest(zero)
	m.counter = 0
	if err := h.release(d.note(t, zero, m)); !errors.Is(err, &approval.Error{Check: approval.CheckCounter}) {
		t.Errorf("a counter that is gone: %v", err)
	}
}

func TestAPasskeyResolvesHoldsAttestsBeliefsAndSignsNothingElse(t *testing.T) {
	d := newDevice(t, "alice")
	for _, role := range []keys.Role{keys.RoleOperator, keys.RoleAuditor, keys.RoleProbe} {
		if err := new(keys.Trust).Add(keys.Pin{Key: d.pin, Roles: []keys.Role{role}}); err == nil {
			t.Errorf("a passkey is pinned as %s", role)
		}
	}
	trust := trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover, "approver:finance"}})
	o := approval.NewOrder(approval.TakePoint, "acme", now, time.Minute)
	o.Point = "p1"
	s, err := o.Text()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := approval.OpenOrder(d.note(t, s, d.honest(s)), trust); !errors.Is(err,
		&approval.Error{Check: approval.CheckRole}) {
		t.Errorf("an order by a passkey: %v", err)
	}
}

func TestTenThousandForgedReplayedAndMisboundAssertionsReleaseNothing(t *testing.T) {
	d, other := newDevice(t, "alice"), newDevice(t, "alice")
	// other has the same credential id, but another key.
	other.key.Credential = d.key.Credential
	trust := trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover}})
	h := &hold{trust: trust, used: make(map[string]bool)}
	used := text(t, statement())
	first := d.honest(used)
	assertion := d.sign(t, first)
	old, err := keys.AssembleNote(used, d.pin, assertion)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.release(old); err != nil {
		t.Fatal(err)
	}
	d.counter = 1 << 20
	r := mrand.New(mrand.NewPCG(1, 2))
	released, kinds := 0, make(map[string]int)
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	for i := range n {
		s := statement()
		m, by := made{}, d
		var msg []byte
		name := ""
		switch k := i % 14; k {
		case 0:
			name, s.Hold = "another hold", "h2"
		case 1:
			name, s.Revision = "another revision", "r2"
		case 2:
			name, s.Action = "another action", "sha256:"+strings.Repeat("cd", 32)
		case 3:
			name, s.Project = "another project", "other"
		case 4:
			name, s.Expires = "expired", now.Add(-time.Second)
		case 5: // the old assertion under a new statement
			name = "replayed assertion"
			if msg, err = keys.AssembleNote(text(t, s), d.pin, assertion); err != nil {
				t.Fatal(err)
			}
		case 6:
			name, msg = "replayed note", old
		case 7:
			name, by = "another key", other
		}
		line := text(t, s)
		m = d.honest(line)
		switch i % 14 {
		case 8:
			name, m.origin = "another origin", []string{"https://evil.example", "http://lazaret.example.org", origin + ":444",
				"https://x.lazaret.example.org"}[r.IntN(4)]
		case 9:
			name, m.rp = "another relying party", []string{"evil.example", "example.org", "localhost"}[r.IntN(3)]
		case 10:
			name, m.flags = "no person was verified", []byte{0x00, 0x01, 0x04, 0x81 &^ 0x80}[r.IntN(4)]
		case 11:
			name, m.kind = "a registration", "webauthn.create"
		case 12:
			name, m.cross = "in a frame", true
		case 13: // a bit at a random place is flipped in data that was signed honestly
			name = "altered"
			a := d.sign(t, m)
			part := [][]byte{a.AuthData, a.ClientData, a.Signature}[r.IntN(3)]
			part[r.IntN(len(part))] ^= 1 << r.IntN(8)
			if msg, err = keys.AssembleNote(line, d.pin, a); err != nil {
				t.Fatal(err)
			}
		}
		kinds[name]++
		if msg == nil {
			if msg, err = keys.AssembleNote(line, d.pin, by.sign(t, m)); err != nil {
				t.Fatal(err)
			}
		}
		if h.release(msg) == nil {
			released++
			t.Errorf("released: %s", name)
		}
	}
	if released != 0 || len(kinds) != 14 {
		t.Errorf("%d of %d were released; kinds %v", released, n, kinds)
	}
	last := text(t, statement())
	if err := h.release(d.note(t, last, d.honest(last))); err != nil {
		t.Errorf("an honest one after them: %v", err)
	}
}

func TestAPinnedPasskeyHasOneEncoding(t *testing.T) {
	d := newDevice(t, "alice")
	name, rest, _ := strings.Cut(d.pin, "+")
	_, data, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	spaced := strings.Replace(string(raw), `","`, `", "`, 1)
	for _, pin := range []string{name + "+00000000+" + data,
		name + "+" + rest[:8] + "+" + base64.StdEncoding.EncodeToString([]byte(spaced))} {
		if err := new(keys.Trust).Add(keys.Pin{Key: pin, Roles: []keys.Role{keys.RoleApprover}}); err == nil {
			t.Errorf("pinned: %s", pin)
		}
	}
	for _, p := range []keys.Passkey{
		{Credential: []byte("c"), Public: d.key.Public, RP: "example.org", Origins: []string{"https://evil.example"}},
		{Credential: []byte("c"), Public: d.key.Public, RP: "example.org", Origins: []string{"http://example.org"}},
		{Credential: []byte("c"), Public: d.key.Public, RP: "example.org", Origins: []string{"https://badexample.org"}},
		{Credential: []byte("c"), Public: d.key.Public, RP: "example.org"},
	} {
		if pin, err := p.Pin("alice"); err == nil {
			t.Errorf("%v becomes %s", p.Origins, pin)
		}
	}
}

// The verifier in examples compares web origins byte by byte and supports two forms of keys. So the arbiter must refuse
// an assertion with another spelling of the web origin, and a key of another form must not be pinned.
func TestAnAssertionThatTheStandAloneVerifierRefusesReleasesNothing(t *testing.T) {
	d := newDevice(t, "alice")
	h := &hold{trust: trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover}}),
		used: make(map[string]bool)}
	for _, o := range []string{"HTTPS://lazaret.example.org", "https://LAZARET.example.org", origin + ":443",
		origin + "/", origin + "/evil?a#b",
		"https://eve@lazaret.example.org"} {
		s := text(t, statement())
		m := d.honest(s)
		m.origin = o
		if err := h.release(d.note(t, s, m)); err == nil {
			t.Errorf("released from the origin %q", o)
		}
	}
	longer := append([]byte{0xa6}, d.key.Public[1:]...)        // one more member,
	longer = append(longer, 0x62, 'i', 'd', 0x61, 'x')         // which no code reads
	loose := append([]byte{0xbf}, d.key.Public[1:]...)         // of indefinite length
	rsa := []byte{0xa4, 1, 3, 3, 0x39, 1, 0, 0x20, 0x41, 0xff} // RS256, and so on
	for name, public := range map[string][]byte{"another member": longer, "indefinite": append(loose, 0xff), "RS256": rsa,
		"ES384": append([]byte{0xa5, 1, 2, 3, 0x38, 0x22}, d.key.Public[5:]...)} {
		p := d.key
		p.Public = public
		if pin, err := p.Pin("alice"); err == nil {
			t.Errorf("a key of the form %q is pinned: %s", name, pin)
		}
	}
}

// belief is a belief with the data of it that a fold stores. An attestation is judged with this data.
type belief struct {
	trust   *keys.Trust
	used    map[string]bool
	counter uint32
}

// attest opens and judges an attestation in the same way as ingest.
func (b *belief) attest(msg []byte) error {
	s, err := approval.OpenBelief(msg, b.trust)
	if err != nil {
		return err
	}
	c := approval.BeliefCase{Project: "acme", Agent: "support", Belief: "b1", Content: "sha256:" + strings.Repeat("ab", 32),
		Revision: "r1", Now: now, Used: b.used[s.Nonce], Counter: b.counter}
	if err := s.Judge(&c); err != nil {
		return err
	}
	b.used[s.Nonce], b.counter = true, s.Counter
	return nil
}

func attestation() *approval.BeliefStatement {
	return &approval.BeliefStatement{Version: approval.BeliefVersion, Project: "acme", Belief: "b1",
		Content: "sha256:" + strings.Repeat("ab", 32), Revision: "r1", Decision: approval.Confirm, Expires: now.Add(time.Minute),
		Nonce: approval.NewNonce()}
}

func TestTenThousandForgedReplayedAndMisboundAttestationsConfirmNothing(t *testing.T) {
	d, other := newDevice(t, "alice"), newDevice(t, "alice")
	other.key.Credential = d.key.Credential
	b := &belief{trust: trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover}}), used: make(map[string]bool)}
	line := func(s *approval.BeliefStatement) string {
		t.Helper()
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	used := line(attestation())
	assertion := d.sign(t, d.honest(used))
	old, err := keys.AssembleNote(used, d.pin, assertion)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.attest(old); err != nil {
		t.Fatal(err)
	}
	d.counter = 1 << 20
	confirmed, kinds := 0, make(map[approval.Check]int)
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	for i := range n {
		s, by := attestation(), d
		var msg []byte
		change := func(*made) {}
		switch i % 15 {
		case 0:
			s.Belief = "b2"
		case 1:
			s.Revision = "r2"
		case 2:
			s.Content = "sha256:" + strings.Repeat("cd", 32)
		case 3:
			s.Project = "other"
		case 4:
			s.Expires = now.Add(-time.Second)
		case 5: // the old assertion under a new statement
			if msg, err = keys.AssembleNote(line(s), d.pin, assertion); err != nil {
				t.Fatal(err)
			}
		case 6:
			msg = old
		case 7:
			by = other
		case 8:
			change = func(m *made) { m.origin = "https://evil.example" }
		case 9:
			change = func(m *made) { m.rp = "evil.example" }
		case 10:
			change = func(m *made) { m.flags = 0x01 }
		case 11:
			change = func(m *made) { m.kind = "webauthn.create" }
		case 12:
			change = func(m *made) { m.cross = true }
		case 13: // a copied authenticator continues to count from the value at the time of the copy
			change = func(m *made) { m.counter = 1 }
		case 14: // an approval of a hold
			text := text(t, statement())
			msg = d.note(t, text, d.honest(text))
		}
		if msg == nil {
			m := d.honest(line(s))
			change(&m)
			if msg, err = keys.AssembleNote(line(s), d.pin, by.sign(t, m)); err != nil {
				t.Fatal(err)
			}
		}
		var refused *approval.Error
		if err := b.attest(msg); err == nil {
			confirmed++
		} else if errors.As(err, &refused) {
			kinds[refused.Check]++
		}
	}
	for _, c := range []approval.Check{approval.CheckForm, approval.CheckSignature, approval.CheckBelief, approval.CheckReplayed,
		approval.CheckCounter, approval.CheckExpired, approval.CheckContent, approval.CheckRevision} {
		if kinds[c] == 0 {
			t.Errorf("none was refused for %s: %v", c, kinds)
		}
	}
	if confirmed != 0 {
		t.Errorf("%d of %d were obeyed: %v", confirmed, n, kinds)
	}
	last := line(attestation())
	if err := b.attest(d.note(t, last, d.honest(last))); err != nil {
		t.Errorf("an honest one after them: %v", err)
	}
}
