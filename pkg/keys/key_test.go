package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// pair generates a key pair.
func pair(t *testing.T, name string) (private, public string) {
	t.Helper()
	private, public, err := Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func signWith(t *testing.T, private, text string) []byte {
	t.Helper()
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestAWrittenKeySignsWhatItsPublicKeyVerifies(t *testing.T) {
	private, public := pair(t, "alice@example.org")
	path := filepath.Join(t.TempDir(), "alice.key")
	if err := WritePrivate(path, private); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %04o, want 0600", got)
	}
	signer, err := LoadSigner(path)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: "hello\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(msg, note.VerifierList(v)); err != nil {
		t.Error(err)
	}
	derived, err := Public(private)
	if err != nil || derived != public {
		t.Errorf("Public(private) = %q, %v, want %q", derived, err, public)
	}
}

func TestAnExistingFileIsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, _ := pair(t, "a")
	second, _ := pair(t, "a")
	if err := WritePrivate(path, first); err != nil {
		t.Fatal(err)
	}
	if err := WritePrivate(path, second); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second write: %v, want fs.ErrExist", err)
	}
	if got, err := LoadPrivate(path); err != nil || got != first {
		t.Errorf("the first key is gone: %v", err)
	}
}

func TestAKeyThatOthersMayReadIsRefused(t *testing.T) {
	private, _ := pair(t, "a")
	path := filepath.Join(t.TempDir(), "key")
	if err := WritePrivate(path, private); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o666, 0o610} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := LoadSigner(path)
		if !errors.Is(err, ErrOpenMode) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %04o: %v, want ErrOpenMode with the remedy", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSigner(path); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestTheEnvironmentHoldsTheKeyWhenNoFileIsNamed(t *testing.T) {
	private, _ := pair(t, "env")
	t.Setenv(EnvKey, private+"\n")
	signer, err := LoadSigner("")
	if err != nil || signer.Name() != "env" {
		t.Fatalf("%v, %v", signer, err)
	}
	if _, err := LoadSigner(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a named file is not replaced by the environment: %v", err)
	}
	t.Setenv(EnvKey, "")
	if _, err := LoadSigner(""); !errors.Is(err, ErrNoKey) {
		t.Errorf("%v, want ErrNoKey", err)
	}
	t.Setenv(EnvKey, "/home/alice/key")
	if _, err := LoadSigner(""); !errors.Is(err, ErrBadKey) {
		t.Errorf("%v, want ErrBadKey", err)
	}
}

func TestDamagedKeysAreRefusedWithoutShowingThem(t *testing.T) {
	private, public := pair(t, "a")
	secret := strings.SplitN(private, "+", 5)[4] // base64 may itself hold a '+'
	dir := t.TempDir()
	for i, text := range []string{
		"", public, private[:len(private)-4], strings.Replace(private, "+a+", "+b+", 1),
		private + private, "PRIVATE+KEY+a+00000000+" + secret,
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadSigner(path)
		if !errors.Is(err, ErrBadKey) {
			t.Errorf("text %d: %v, want ErrBadKey", i, err)
		} else if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("text %d: the error shows the secret", i)
		}
		if err := WritePrivate(path+".new", text); !errors.Is(err, ErrBadKey) {
			t.Errorf("text %d was written: %v", i, err)
		}
		if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("text %d left a file", i)
		}
	}
}

func TestNamesThatCouldBeMisreadAreRefused(t *testing.T) {
	for _, name := range []string{"", "a b", "a+b", "a\nb", "аlice", "a\u200bb", strings.Repeat("x", MaxName+1)} {
		if _, _, err := Generate(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestADirectoryIsNotAKey(t *testing.T) {
	if _, err := LoadSigner(t.TempDir()); err == nil {
		t.Error("a directory was read as a key")
	}
}
