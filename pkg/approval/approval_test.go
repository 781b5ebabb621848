package approval

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/keys"
)

var now = time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)

// signerOf generates a key. If roles are given, it also pins the key in the trust file.
func signerOf(t testing.TB, trust *keys.Trust, name, agent string, roles ...keys.Role) note.Signer {
	t.Helper()
	private, public, err := keys.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(roles) > 0 {
		if err := trust.Add(keys.Pin{Key: public, Roles: roles, Agent: agent}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func statement() *Statement {
	return &Statement{Version: Version, Project: "acme", Hold: "h7aa553e26b5780e7", Revision: "ade7160eb1e84b2a",
		Action:   "sha256:" + strings.Repeat("0a", 32),
		Decision: Approve, Expires: now.Add(10 * time.Minute), Nonce: NewNonce(), Reason: "I asked for it"}
}

func theCase(s *Statement) *Case {
	return &Case{Project: s.Project, Agent: "bot", Hold: s.Hold, Revision: s.Revision, Action: s.Action, Now: now,
		Open: true, State: "open"}
}

// try handles a message like the arbiter.
func try(msg []byte, trust *keys.Trust, c *Case) (*Signed, error) {
	s, err := Open(msg, trust)
	if err != nil {
		return nil, err
	}
	return s, s.Judge(c)
}

func sign(t testing.TB, s *Statement, k note.Signer) []byte {
	t.Helper()
	msg, err := s.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestWhatAPinnedApproverSignedCounts(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	s := statement()
	got, err := try(sign(t, s, alice), trust, theCase(s))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Statement, *s) || got.Signer != "alice" {
		t.Errorf("%+v", got)
	}
}

func TestEachFailureHasItsCheck(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	bob := signerOf(t, trust, "bob", "", keys.RoleApprover, keys.ApproverPrefix+"finance")
	operator := signerOf(t, trust, "operator", "", keys.RoleOperator, keys.RoleAuditor)
	bot := signerOf(t, trust, "bot", "acme/bot", keys.RoleApprover)
	namesake := signerOf(t, trust, "alice", "")
	finance := func(c *Case) { c.Roles = []keys.Role{keys.ApproverPrefix + "finance"} }
	for _, c := range []struct {
		what string
		by   note.Signer
		say  func(s *Statement)
		is   func(c *Case)
		want Check
	}{
		{"nothing wrong", alice, nil, nil, ""},
		{"a namesake's key", namesake, nil, nil, CheckUnpinned},
		{"an operator", operator, nil, nil, CheckRole},
		{"not of finance", alice, nil, finance, CheckRole},
		{"of finance", bob, nil, finance, ""},
		{"of finance, and more is asked", bob, nil, func(c *Case) {
			c.Roles = []keys.Role{keys.ApproverPrefix + "finance", keys.ApproverPrefix + "legal"}
		}, CheckRole},
		{"the agent itself", bot, nil, nil, CheckSelf},
		{"another agent's key", bot, nil, func(c *Case) { c.Agent = "other" }, ""},
		{"another hold", alice, func(s *Statement) { s.Hold = "h0" }, nil, CheckHold},
		{"another project", alice, func(s *Statement) { s.Project = "other" }, nil, CheckHold},
		{"no hold", alice, nil, func(c *Case) { c.Hold = "" }, CheckHold},
		{"another action", alice, func(s *Statement) { s.Action = "sha256:" + strings.Repeat("0b", 32) }, nil, CheckAction},
		{"an older revision", alice, func(s *Statement) { s.Revision = "00" }, nil, CheckRevision},
		{"expired", alice, func(s *Statement) { s.Expires = now }, nil, CheckExpired},
		{"good for too long", alice, func(s *Statement) { s.Expires = now.Add(MaxLife + time.Second) }, nil, CheckExpired},
		{"used", alice, nil, func(c *Case) { c.Used = true }, CheckReplayed},
		{"settled", alice, nil, func(c *Case) { c.Open = false }, CheckSettled},
	} {
		s := statement()
		is := theCase(s)
		if c.say != nil {
			c.say(s)
		}
		if c.is != nil {
			c.is(is)
		}
		_, err := try(sign(t, s, c.by), trust, is)
		if c.want == "" && err != nil || c.want != "" && !errors.Is(err, &Error{Check: c.want}) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

func TestAStatementThatCannotBeMeantIsNotSigned(t *testing.T) {
	alice := signerOf(t, new(keys.Trust), "alice", "")
	for i, spoil := range []func(s *Statement){
		func(s *Statement) { s.Version = "lazaret/approval/v2" },
		func(s *Statement) { s.Decision = "maybe" },
		func(s *Statement) { s.Nonce = "00" },
		func(s *Statement) { s.Nonce = strings.ToUpper(s.Nonce[:31]) + "A" },
		func(s *Statement) { s.Action = "" },
		func(s *Statement) { s.Hold = "" },
		func(s *Statement) { s.Expires = time.Time{} },
		func(s *Statement) { s.Expires = s.Expires.Add(1) },
		func(s *Statement) { s.Reason = strings.Repeat("x", MaxReason+1) },
		func(s *Statement) { s.Reason = "fine\n— mallory" },
		func(s *Statement) { s.Project = "a\x00b" },
	} {
		s := statement()
		spoil(s)
		if _, err := s.Sign(alice); !errors.Is(err, &Error{Check: CheckForm}) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestTenThousandForgeriesReleaseNothing alters a signed statement in many systematic ways, and byte by byte at random.
// No altered statement may release the hold.
func TestTenThousandForgeriesReleaseNothing(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	operator := signerOf(t, trust, "operator", "", keys.RoleOperator)
	bot := signerOf(t, trust, "bot", "acme/bot", keys.RoleApprover)
	mallory := signerOf(t, trust, "alice", "")
	r := rand.New(rand.NewPCG(1, 2))
	good := statement()
	goodMsg := string(sign(t, good, alice))
	text, sigs, _ := strings.Cut(goodMsg, "\n\n")
	sig := strings.TrimSuffix(sigs, "\n")
	raw, err := base64.StdEncoding.DecodeString(sig[strings.LastIndexByte(sig, ' ')+1:])
	if err != nil {
		t.Fatal(err)
	}
	resign := func(k note.Signer, change func(s *Statement)) string {
		s := *good
		change(&s)
		return string(sign(t, &s, k))
	}
	none := func(*Statement) {}
	kinds := []struct {
		what string
		make func() string
	}{
		{"a byte is another", func() string {
			b := []byte(goodMsg)
			i := r.IntN(len(b))
			b[i] ^= byte(1 + r.IntN(255))
			return string(b)
		}},
		{"a byte is gone", func() string { i := r.IntN(len(goodMsg)); return goodMsg[:i] + goodMsg[i+1:] }},
		{"a byte is added", func() string {
			i := r.IntN(len(goodMsg) + 1)
			return goodMsg[:i] + string(rune(r.IntN(0x80))) + goodMsg[i:]
		}},
		{"cut off", func() string { return goodMsg[:r.IntN(len(goodMsg))] }},
		{"said twice", func() string { return text + "\n\n" + sig + "\n" + sig + "\n" }},
		{"another text under the signature", func() string {
			x, _, _ := strings.Cut(resign(alice, func(s *Statement) { s.Nonce = NewNonce() }), "\n\n")
			return x + "\n\n" + sig + "\n"
		}},
		{"a field is changed under the signature", func() string {
			pairs := []string{`"approve"`, `"reject"`, "2026", "2027", "acme", "acmf", good.Hold, "h0000000000000000",
				good.Revision, "0000000000000000", "0a0a", "0a0b"}
			i := r.IntN(len(pairs)/2) * 2
			return strings.Replace(goodMsg, pairs[i], pairs[i+1], 1)
		}},
		{"fields in another order", func() string { return strings.Replace(goodMsg, `{"action"`, `{ "action"`, 1) }},
		{"the signature's base64 written otherwise", func() string {
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
			end := strings.LastIndexByte(goodMsg, '=') - 1
			return goodMsg[:end] + string(alphabet[strings.IndexByte(alphabet, goodMsg[end])^(1+r.IntN(3))]) + goodMsg[end+1:]
		}},
		{"a signature at random", func() string {
			b := append([]byte(nil), raw...)
			for i := 4; i < len(b); i++ {
				b[i] = byte(r.Uint32())
			}
			return text + "\n\n— alice " + base64.StdEncoding.EncodeToString(b) + "\n"
		}},
		{"a namesake's key", func() string { return resign(mallory, none) }},
		{"a namesake's key under the pinned one's hash", func() string {
			m := resign(mallory, none)
			b, _ := base64.StdEncoding.DecodeString(strings.TrimSuffix(m[strings.LastIndexByte(m, ' ')+1:], "\n"))
			copy(b, raw[:4])
			return m[:strings.LastIndexByte(m, ' ')+1] + base64.StdEncoding.EncodeToString(b) + "\n"
		}},
		{"a key without the role", func() string { return resign(operator, none) }},
		{"the agent's own key", func() string { return resign(bot, none) }},
		{"for another hold", func() string {
			return resign(alice, func(s *Statement) { s.Hold = fmt.Sprintf("h%016x", r.Uint64()) })
		}},
		{"for another project", func() string { return resign(alice, func(s *Statement) { s.Project = "acme2" }) }},
		{"for another action", func() string {
			return resign(alice, func(s *Statement) { s.Action = fmt.Sprintf("sha256:%064x", r.Uint64()) })
		}},
		{"for another revision", func() string {
			return resign(alice, func(s *Statement) { s.Revision = fmt.Sprintf("%016x", r.Uint64()) })
		}},
		{"expired", func() string {
			return resign(alice, func(s *Statement) { s.Expires = now.Add(-time.Duration(r.IntN(1e6)) * time.Second) })
		}},
		{"good for ever", func() string {
			return resign(alice, func(s *Statement) { s.Expires = now.Add(MaxLife + time.Duration(1+r.IntN(1e6))*time.Second) })
		}},
		{"nothing of the kind", func() string {
			b := make([]byte, r.IntN(300))
			rand.NewChaCha8([32]byte{byte(r.Uint32())}).Read(b)
			return string(b)
		}},
	}
	const each = 500
	released, tried := 0, 0
	for _, k := range kinds {
		for range each {
			msg := k.make()
			if msg == goodMsg {
				t.Fatalf("%s: is what was signed", k.what)
			}
			tried++
			if _, err := try([]byte(msg), trust, theCase(good)); err == nil {
				released++
				t.Errorf("%s: released by %q", k.what, msg)
			}
		}
	}
	if _, err := try([]byte(goodMsg), trust, theCase(good)); err != nil {
		t.Errorf("the genuine one: %v", err)
	}
	t.Logf("%d forged or altered of %d kinds: %d released", tried, len(kinds), released)
}

func TestWhatIsSignedIsReadBack(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	proptest.CheckLess(t, func(t *rapid.T) {
		s := &Statement{Version: Version, Project: rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "project"),
			Hold:     rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "hold"),
			Revision: rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "revision"),
			Action:   "sha256:" + rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "action"),
			Decision: rapid.SampledFrom([]Decision{Approve, Reject}).Draw(t, "decision"), Nonce: NewNonce(),
			Expires: time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "expires"), 0).UTC(),
			Reason:  rapid.StringMatching(`[ -~äöü€"\\<>&]{0,100}`).Draw(t, "reason")}
		msg, err := s.Sign(alice)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Open(msg, trust)
		if err != nil {
			t.Fatalf("%v: %q", err, msg)
		}
		if !reflect.DeepEqual(got.Statement, *s) {
			t.Fatalf("%+v, want %+v", got.Statement, *s)
		}
	})
}

// FuzzOpen checks that Open accepts a message only if it equals, byte for byte, a message that Sign made.
func FuzzOpen(f *testing.F) {
	trust := new(keys.Trust)
	alice := signerOf(f, trust, "alice", "", keys.RoleApprover)
	s := statement()
	msg := sign(f, s, alice)
	f.Add(msg)
	f.Add([]byte(strings.Replace(string(msg), "approve", "reject", 1)))
	f.Add([]byte("{}\n\n— alice AAAA\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Open(b, trust)
		if err == nil && string(b) != string(msg) {
			t.Fatalf("%q opens as %+v", b, got)
		}
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%v is no *Error", err)
		}
	})
}
