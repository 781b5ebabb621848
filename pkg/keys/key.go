package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/files"
)

// EnvKey is the environment variable with the text of a private key. Programs use it if they got no key file.
const EnvKey = "LAZARET_KEY"

// MaxName is the maximum length of a key name, in bytes.
const MaxName = 128

// maxFile is the maximum size of a key file in bytes. Keys are much shorter.
const maxFile = 4 << 10

// privatePrefix begins the text of every private key.
const privatePrefix = "PRIVATE+KEY+"

// algEd25519 is the algorithm byte of C2SP signed notes.
const algEd25519 = 1

var (
	// ErrNoKey reports that neither a key file nor the environment gives a key.
	ErrNoKey = errors.New("no private key: pass --key FILE, or set " + EnvKey +
		" to the key itself; make one with lazaret key gen")
	// ErrOpenMode reports that users other than the owner may read or write a private file.
	ErrOpenMode = errors.New("file mode is too open")
	// ErrBadKey reports that a text is not a valid key.
	ErrBadKey = errors.New("not a key in note format")
)

// Generate makes a key pair. name identifies the owner and appears in every signature. It must have 1 to MaxName
// printable ASCII characters without space or '+'. private is secret. public goes into a trust file.
func Generate(name string) (private, public string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	return note.GenerateKey(rand.Reader, name)
}

func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("key name has %d bytes, want 1 to %d", len(name), MaxName)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || r == '+' {
			return fmt.Errorf("key name %q: %q is not allowed, use printable ASCII without space or '+'", name, r)
		}
	}
	return nil
}

// Public returns the public key of a private key.
func Public(private string) (string, error) {
	signer, err := parsePrivate(private)
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(private, "+", 5) // PRIVATE, KEY, name, hash, and base64, which may contain '+'
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize || seed[0] != algEd25519 {
		return "", ErrBadKey
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", ErrBadKey
	}
	return note.NewEd25519VerifierKey(signer.Name(), public)
}

// parsePrivate is like note.NewSigner, and checks the name. Its errors never contain the text of
// the key.
func parsePrivate(private string) (note.Signer, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadKey, err)
	}
	if err := checkName(signer.Name()); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadKey, err)
	}
	return signer, nil
}

// WritePrivate writes a private key to a new file with mode 0600 and syncs it. It never overwrites
// a file: if the file exists, the error is fs.ErrExist.
func WritePrivate(path, private string) error {
	if _, err := parsePrivate(private); err != nil {
		return fmt.Errorf("writing private key %s: %w", path, err)
	}
	err := files.Create(path, []byte(private+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing private key: %w: a key is never overwritten, choose another file or move the "+
			"old one away", err)
	}
	if err != nil {
		return fmt.Errorf("writing private key %s: %w", path, err)
	}
	return nil
}

// SetAside copies the file of a private key before another key replaces it, so that the old key is not lost. The copy
// is in the same folder, and its name has the key's hash as suffix. SetAside returns the path of the copy. It returns
// an error if a file with this name exists and has other content.
func SetAside(path string) (string, error) {
	private, err := LoadPrivate(path)
	if err != nil {
		return "", err
	}
	signer, err := parsePrivate(private)
	if err != nil {
		return "", err
	}
	aside := fmt.Sprintf("%s.%08x", path, signer.KeyHash())
	if err := WritePrivate(aside, private); !errors.Is(err, fs.ErrExist) {
		return aside, err
	}
	if kept, err := LoadPrivate(aside); err != nil || kept != private {
		return "", errors.Join(fmt.Errorf("%s exists, but is not a copy of the key in %s: move the file %[1]s away, so "+
			"that the key can be copied to this path and is not lost", aside, path), err)
	}
	return aside, nil
}

// LoadPrivate reads the text of a private key from path. If path is empty, it reads the key from the environment
// variable EnvKey. It returns ErrOpenMode for a file that users other than its owner may read, and ErrNoKey if there is
// no key.
func LoadPrivate(path string) (string, error) {
	if path == "" {
		private := strings.TrimSpace(os.Getenv(EnvKey))
		if private == "" {
			return "", ErrNoKey
		}
		if _, err := parsePrivate(private); err != nil {
			return "", fmt.Errorf("reading %s: %w: the variable must have the key itself, not a file name", EnvKey, err)
		}
		return private, nil
	}
	b, err := readGuarded(path, 0o077, "chmod 600", maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading private key: %w: make one with lazaret key gen", err)
	}
	if err != nil {
		return "", fmt.Errorf("reading private key: %w", err)
	}
	private := strings.TrimSpace(string(b))
	if _, err := parsePrivate(private); err != nil {
		return "", fmt.Errorf("reading private key %s: %w: a private key begins with PRIVATE+KEY+", path, err)
	}
	return private, nil
}

// LoadSigner loads a private key in the same way as LoadPrivate and returns a signer.
func LoadSigner(path string) (note.Signer, error) {
	private, err := LoadPrivate(path)
	if err != nil {
		return nil, err
	}
	return parsePrivate(private)
}

// readGuarded reads a regular file. It refuses a file whose mode has one of the forbidden bits. It checks the mode of
// the opened file, so that the file cannot be replaced between check and read. The mode is not checked on Windows,
// which has no such modes.
func readGuarded(path string, forbidden fs.FileMode, remedy string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s has mode %04o: %w: run %s %s, and replace the key if others could have used it", path,
			mode, ErrOpenMode, remedy, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}
