package natsserver

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"lazaret/pkg/files"
)

// keyring has the secrets of an installation. They are created at the first start, and stored in DATA/keys with mode
// 0600.
type keyring struct {
	data             string
	operator, system nkeys.KeyPair
	account          string        // public key of the account to which the streams and the credentials of roles belong
	agents           string        // public key of the account to which the credentials of agents belong
	signing          nkeys.KeyPair // signs credentials
	storage          string        // encrypts the streams at rest
}

const (
	// signingKey is the file of the key that signs credentials. The key can be replaced without a new account.
	signingKey = "signing.nk"
	// identityKey is the file of the account's own key. Only installations of older versions have it. There, it signed
	// the credentials.
	identityKey = "account.nk"
	// accountFile is the file of the account's public key. The private key is not stored and not needed, because the
	// operator signs the claims of the account.
	accountFile = "account.pub"
	// agentsFile is the file of the public key of the agents' account. Installations of older versions have none.
	agentsFile = "agents.pub"
)

// readAccount returns the public key of an account in a file.
func readAccount(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(b))
	if !nkeys.IsValidPublicAccountKey(key) {
		return "", fmt.Errorf("the file %s must have the public key of a NATS account, but has something else", file)
	}
	return key, nil
}

// accountKey returns the account's public key.
func accountKey(dir string) (string, error) {
	key, err := readAccount(filepath.Join(dir, accountFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	b, err := os.ReadFile(filepath.Join(dir, identityKey))
	if err != nil {
		return "", err
	}
	kp, err := nkeys.ParseDecoratedNKey(b)
	if err != nil {
		return "", fmt.Errorf("key file %s: %w", filepath.Join(dir, identityKey), err)
	}
	return kp.PublicKey()
}

// openAccount returns an account's public key, which read returns. If the account does not exist, openAccount creates
// it. The public key is then in the file.
func openAccount(file string, read func() (string, error)) (string, error) {
	key, err := read()
	if errors.Is(err, fs.ErrNotExist) {
		var kp nkeys.KeyPair
		if kp, err = nkeys.CreateAccount(); err == nil {
			key, err = kp.PublicKey()
		}
	}
	if err != nil {
		return "", err
	}
	return secret(file, func() (string, error) { return key, nil })
}

// storageKey is the file of the secret that encrypts the streams.
const storageKey = "jetstream.key"

// KeysDir returns the folder of an installation's secrets.
func KeysDir(data string) string { return filepath.Join(data, "keys") }

func openKeyring(data string) (*keyring, error) {
	dir := KeysDir(data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	k := &keyring{data: data}
	for _, f := range []struct {
		name string
		dst  *nkeys.KeyPair
		make func() (nkeys.KeyPair, error)
	}{
		{"operator.nk", &k.operator, nkeys.CreateOperator},
		{"system.nk", &k.system, nkeys.CreateAccount},
		{signingKey, &k.signing, nkeys.CreateAccount},
	} {
		seed, err := secret(filepath.Join(dir, f.name), func() (string, error) {
			kp, err := f.make()
			if err != nil {
				return "", err
			}
			s, err := kp.Seed()
			return string(s), err
		})
		if err != nil {
			return nil, err
		}
		if *f.dst, err = nkeys.FromSeed([]byte(seed)); err != nil {
			return nil, fmt.Errorf("key file %s: %w", filepath.Join(dir, f.name), err)
		}
	}
	var err error
	if k.account, err = openAccount(filepath.Join(dir, accountFile), func() (string, error) {
		return accountKey(dir)
	}); err != nil {
		return nil, err
	}
	agents := filepath.Join(dir, agentsFile)
	if k.agents, err = openAccount(agents, func() (string, error) { return readAccount(agents) }); err != nil {
		return nil, err
	}
	k.storage, err = Secret(data, storageKey)
	return k, err
}

// Secret returns the secret with this name, in base64. If it does not exist, Secret creates it: random 256 bits.
func Secret(data, name string) (string, error) {
	if err := os.MkdirAll(KeysDir(data), 0o700); err != nil {
		return "", err
	}
	return secret(filepath.Join(KeysDir(data), name), func() (string, error) {
		b := make([]byte, 32)
		rand.Read(b)
		return base64.StdEncoding.EncodeToString(b), nil
	})
}

// secret returns the secret in a file. If the file does not exist, secret creates it with the secret that make returns.
func secret(path string, make func() (string, error)) (string, error) {
	s, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s, err = make(); err != nil {
		return "", err
	}
	err = files.Create(path, []byte(s+"\n"), 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return s, err
	}
	s, err = readSecret(path) // another process has just made it
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: if this file is a symbolic link, its target is missing: put the target back", err)
	}
	return s, err
}

func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a key: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		// On a file system without hard links, files.Create makes an empty file before it writes the key.
		return "", fmt.Errorf("%s is empty: if another process starts at the same moment, it is writing the key: try again. "+
			"Otherwise put the key back; if the file never had a key, remove it", path)
	}
	return strings.TrimSpace(string(b)), nil
}
