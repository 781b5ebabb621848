package passkey

import (
	"strings"
	"testing"

	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
)

// If the console's address has changed, the refusal of an assertion must say so, and must not look like that of a
// forgery.
func TestARefusalNamesTheFaultOfAnAssertion(t *testing.T) {
	d := newDevice(t, "alice")
	trust := trusting(t, keys.Pin{Key: d.pin, Roles: []keys.Role{keys.RoleApprover}})
	for _, c := range []struct {
		says   string
		change func(*made)
	}{
		{"https://evil.example", func(m *made) { m.origin = "https://evil.example" }},
		{"RP Hash mismatch", func(m *made) { m.rp = "evil.example" }},
		{"User verification", func(m *made) { m.flags = 0x01 }},
		{"webauthn.create", func(m *made) { m.kind = "webauthn.create" }},
		{"challenge", func(m *made) { m.challenge = keys.Challenge([]byte("another text\n")) }},
	} {
		s := text(t, statement())
		m := d.honest(s)
		c.change(&m)
		_, err := approval.Open(d.note(t, s, m), trust)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.says)) {
			t.Errorf("want %q, got: %v", c.says, err)
		}
	}
}
