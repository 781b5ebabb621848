package datafolder

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nuid"

	"lazaret/internal/natsserver"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"
)

// WithTrustFile calls f, which reads, changes and writes a trust file. Every program that changes a trust file calls
// WithTrustFile, so only one program at a time changes the trust file and the auditor's key of a folder.
func WithTrustFile(path string, f func() error) error {
	return files.LockedFolder(filepath.Dir(path), f)
}

// Trust reads the pinned keys of a data folder. On the first start it creates and pins the operator's
// and the auditor's key.
func Trust(data string) (*keys.Trust, error) {
	if err := os.MkdirAll(natsserver.KeysDir(data), 0o700); err != nil {
		return nil, err
	}
	path := TrustFile(data)
	t, err := keys.LoadTrust(path)
	if err == nil {
		return t, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t = new(keys.Trust)
	for _, k := range []struct {
		file, name string
		role       keys.Role
	}{
		{OperatorKey(data), "lazaret-operator", keys.RoleOperator},
		// The name is the first line of every checkpoint, so each log needs a different one.
		{AuditorKey(data), "lazaret-ledger-" + strings.ToLower(nuid.Next()[14:]), keys.RoleAuditor},
	} {
		public, err := makeKey(k.file, k.name)
		if err != nil {
			return nil, err
		}
		if err := t.Add(keys.Pin{Key: public, Roles: []keys.Role{k.role}, Comment: "made by the first start"}); err != nil {
			return nil, err
		}
	}
	b, err := t.Marshal()
	if err != nil {
		return nil, err
	}
	if err = files.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) {
		return keys.LoadTrust(path) // another first start has just made it
	}
	return t, err
}

// makeKey creates a key file, unless an interrupted start or another process's first start has created it. It returns
// the public key.
func makeKey(file, name string) (string, error) {
	private, err := keys.LoadPrivate(file)
	if err == nil {
		return keys.Public(private)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	private, public, err := keys.Generate(name)
	if err != nil {
		return "", err
	}
	if err = keys.WritePrivate(file, private); !errors.Is(err, fs.ErrExist) {
		return public, err
	}
	if private, err = keys.LoadPrivate(file); err != nil {
		return "", err
	}
	return keys.Public(private)
}

// MasterKey returns the key that encrypts the auditor's payload keys. It creates the key if there is
// none.
func MasterKey(data string) ([]byte, error) {
	s, err := natsserver.Secret(data, masterKey)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(s)
}

// ReadMasterKey returns the key of MasterKey, or nil if there is none. It creates no key.
func ReadMasterKey(data string) ([]byte, error) {
	b, err := os.ReadFile(MasterKeyFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key that decrypts the log: %w", err)
	}
	return base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
}

// MakeStateKey creates the key of StateKeyFile on the first start.
func MakeStateKey(data string) error {
	_, err := natsserver.Secret(data, stateKey)
	return err
}

// StateKey returns the key for one stage's state, derived from the key in a file.
func StateKey(file, stage string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the state key: %w: it is keys/state.key of the data folder in which streams and "+
			"credentials were made", err)
	}
	s, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err == nil && len(s) < sha256.Size {
		err = fmt.Errorf("it has %d bytes, want %d", len(s), sha256.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("the state key in %s: %w", file, err)
	}
	return hkdf.Key(sha256.New, s, nil, "lazaret state "+stage, sha256.Size)
}
