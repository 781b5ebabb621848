package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

func pin(t *testing.T, trust *Trust, public string, roles ...Role) {
	t.Helper()
	if err := trust.Add(Pin{Key: public, Roles: roles}); err != nil {
		t.Fatal(err)
	}
}

func TestASignatureCountsOnlyInTheRolesOfItsKey(t *testing.T) {
	var trust Trust
	private, public := pair(t, "alice")
	pin(t, &trust, public, RoleApprover, RoleProbe)
	msg := signWith(t, private, "approve\n")
	for _, role := range Roles {
		n, err := note.Open(msg, trust.Verifiers(role))
		if want := role == RoleApprover || role == RoleProbe; (err == nil) != want {
			t.Errorf("%s: %v, want opened = %v", role, err, want)
		} else if err != nil {
			var unverified *note.UnverifiedNoteError
			if !errors.As(err, &unverified) {
				t.Errorf("%s: %v, want an unverified note", role, err)
			}
		} else if n.Sigs[0].Name != "alice" {
			t.Errorf("%s: signed by %q", role, n.Sigs[0].Name)
		}
	}
}

func TestATamperedNoteDoesNotOpen(t *testing.T) {
	var trust Trust
	private, public := pair(t, "alice")
	pin(t, &trust, public, RoleOperator)
	const text = "do: one\ndigest: two\n"
	msg := signWith(t, private, text)
	if _, err := note.Open(msg, trust.Verifiers(RoleOperator)); err != nil {
		t.Fatal(err)
	}
	for i := range msg {
		bad := append([]byte(nil), msg...)
		bad[i] ^= 1
		// The last character of a base64 text has unused bits. If only one of these bits changed, the note may open,
		// but then it must have the signed text.
		if n, err := note.Open(bad, trust.Verifiers(RoleOperator)); err == nil && n.Text != text {
			t.Errorf("byte %d changed and the note opened: %q", i, n.Text)
		}
	}
}

func TestAnUnknownKeyOpensNothing(t *testing.T) {
	var trust Trust
	_, public := pair(t, "alice")
	other, _ := pair(t, "alice") // the same name, another key
	pin(t, &trust, public, RoleOperator)
	if _, err := note.Open(signWith(t, other, "x\n"), trust.Verifiers(RoleOperator)); err == nil {
		t.Error("a key with a pinned name, but not pinned, was trusted")
	}
	if _, err := note.Open(signWith(t, other, "x\n"), new(Trust).Verifiers(RoleOperator)); err == nil {
		t.Error("the zero Trust trusts somebody")
	}
	var unknown *note.UnknownVerifierError
	if _, err := trust.Verifiers(RoleOperator).Verifier("bob", 1); !errors.As(err, &unknown) {
		t.Errorf("%v, want UnknownVerifierError", err)
	}
}

func TestTwoKeysOfOneNameAreToldApartByTheirHash(t *testing.T) {
	var trust Trust
	oldPrivate, oldPublic := pair(t, "alice")
	newPrivate, newPublic := pair(t, "alice")
	pin(t, &trust, oldPublic, RoleApprover)
	pin(t, &trust, newPublic, RoleOperator)
	for _, c := range []struct {
		private string
		role    Role
		opens   bool
	}{
		{oldPrivate, RoleApprover, true}, {oldPrivate, RoleOperator, false},
		{newPrivate, RoleApprover, false}, {newPrivate, RoleOperator, true},
	} {
		_, err := note.Open(signWith(t, c.private, "x\n"), trust.Verifiers(c.role))
		if (err == nil) != c.opens {
			t.Errorf("role %s: %v, want opened = %v", c.role, err, c.opens)
		}
	}
}

func TestBadPinsAreRefused(t *testing.T) {
	private, public := pair(t, "alice")
	for _, c := range []struct {
		pin  Pin
		want string
	}{
		{Pin{Key: public}, "no roles"},
		{Pin{Key: public, Roles: []Role{"admin"}}, `role "admin" is unknown`},
		{Pin{Key: public, Roles: []Role{RoleProbe, RoleProbe}}, "is listed twice"},
		{Pin{Key: public + "A", Roles: Roles}, "not a key in note format"},
		{Pin{Key: strings.Replace(public, "alice", "mallory", 1), Roles: Roles}, "hash"},
		{Pin{Key: private, Roles: Roles}, "private key"},
		{Pin{Key: "", Roles: Roles}, "not a key in note format"},
		{Pin{Key: public, Roles: []Role{RoleAuditor}, ReplacedAt: new(int64(-1))}, "replaced_at"},
		{Pin{Key: public, Roles: []Role{RoleOperator}, ReplacedAt: new(int64(1))}, "replaced_at"},
	} {
		err := new(Trust).Add(c.pin)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.pin, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), private[30:]) {
			t.Error("the error shows a private key")
		}
	}
	var trust Trust
	pin(t, &trust, public, RoleProbe)
	if err := trust.Add(Pin{Key: public, Roles: []Role{RoleOperator}}); err == nil {
		t.Error("a second pin widened the roles of a key")
	}
	if got := trust.Pins(); len(got) != 1 || len(got[0].Roles) != 1 {
		t.Errorf("a refused pin left its mark: %v", got)
	}
}

func TestAWrittenTrustFileReadsBackTheSame(t *testing.T) {
	var trust Trust
	_, a := pair(t, "alice")
	_, b := pair(t, "ops.example.org/bob")
	if err := trust.Add(Pin{Key: a, Roles: []Role{RoleOperator, RoleApprover},
		Comment: "on call: \"x\" # not a comment\nsecond line"}); err != nil {
		t.Fatal(err)
	}
	pin(t, &trust, b, RoleAuditor)
	_, hash, _ := strings.Cut(b, "+")
	hash, _, _ = strings.Cut(hash, "+")
	if id := "ops.example.org/bob+" + hash; !trust.Replaced(id, 5) || trust.Replaced(id, 6) || !trust.Replaced(id, 0) ||
		trust.Replaced("ops.example.org/bob+x", 0) || trust.Replaced("alice+"+hash, 0) {
		t.Errorf("a key is recorded as replaced at the smallest size, if it is pinned: %v", trust.Pins())
	}
	dir := t.TempDir()
	path := filepath.Join(dir, TrustFile)
	for range 2 { // the second replaces the first
		if err := trust.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := LoadTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Pins(), trust.Pins()) {
		t.Errorf("read back %v, want %v", got.Pins(), trust.Pins())
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("temporary files stay behind: %v, %v", files, err)
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTrust(path); !errors.Is(err, ErrOpenMode) {
		t.Errorf("a trust file that its group may write: %v, want ErrOpenMode", err)
	}
}

func TestAnEmptyTrustFileTrustsNobody(t *testing.T) {
	for _, src := range []string{"", "[]\n", "# nothing\n", trustHead + "[]\n"} {
		trust, err := ParseTrust(TrustFile, []byte(src))
		if err != nil || len(trust.Pins()) != 0 {
			t.Errorf("%q: %v, %v", src, trust, err)
		}
	}
}

func TestErrorsOfATrustFileNameThePlace(t *testing.T) {
	private, public := pair(t, "alice")
	for _, c := range []struct{ src, want string }{
		{"- key: " + public + "\n  role: [operator]\n", "trust.yaml:2:3: "},
		{"- key: " + public + "\n  roles: {a: b}\n", "trust.yaml:2:"},
		{"- key: " + public + "\n  key: " + public + "\n", "trust.yaml:2:"},
		{"- key: [\n", "trust.yaml:1:"},
		{"- key: " + public + "\n", "trust.yaml:1:3: pin 1: key alice has no roles"},
		{"[]\n---\n- key: x\n", "trust.yaml:3:1: the file has a second document"},
		{"keys: []\n", "trust.yaml:1:"},
		{"- key: x\n  rolls: " + private + "\n", "trust.yaml:2:3: "},
	} {
		_, err := ParseTrust("trust.yaml", []byte(c.src))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.src, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), private[30:]) {
			t.Error("the error shows a private key")
		}
	}
}

func FuzzParseTrust(f *testing.F) {
	_, public, err := Generate("alice")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(fmt.Sprintf("- key: %s\n  roles: [operator]\n  comment: c\n", public)))
	f.Add([]byte("- key: x\n  roles: []\n- &a {key: y}\n- *a\n"))
	f.Add([]byte("[]\n---\n[]\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		trust, err := ParseTrust("t", src)
		if err != nil {
			return
		}
		b, err := trust.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseTrust("t", b)
		if err != nil {
			t.Fatalf("what was written does not read: %v\n%s", err, b)
		}
		if len(again.Pins()) != len(trust.Pins()) {
			t.Fatalf("%d pins became %d", len(trust.Pins()), len(again.Pins()))
		}
	})
}
