package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"lazaret/internal/natsfiles"
	"lazaret/streams"
)

// Minter makes credentials. It needs nothing but the account's signing key, so
// a credential can be added while the server runs, and on any NATS system in
// operator mode.
type Minter struct {
	data    string
	account nkeys.KeyPair
}

// OpenMinter reads the signing key of an installation that was started before.
func OpenMinter(data string) (*Minter, error) {
	path := filepath.Join(KeysDir(data), "account.nk")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no account key: run `lazaret up --data %s` once, or name the data folder with --data", path, data)
	}
	if err != nil {
		return nil, err
	}
	kp, err := nkeys.ParseDecoratedNKey(b)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return &Minter{data: data, account: kp}, nil
}

// Role returns a credential file for a role.
func (m *Minter) Role(r Role) ([]byte, error) {
	p, err := r.permissions()
	if err != nil {
		return nil, err
	}
	return m.mint(string(r), p)
}

// Agent returns a credential file for an agent.
func (m *Minter) Agent(a Agent) ([]byte, error) {
	p, err := a.permissions()
	if err != nil {
		return nil, err
	}
	return m.mint(a.Project+"/"+a.Name, p)
}

func (m *Minter) mint(name string, p perms) ([]byte, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	pub, err := user.PublicKey()
	if err != nil {
		return nil, err
	}
	seed, err := user.Seed()
	if err != nil {
		return nil, err
	}
	c := jwt.NewUserClaims(pub)
	c.Name = name
	c.Permissions = p.jwt()
	token, err := c.Encode(m.account)
	if err != nil {
		return nil, fmt.Errorf("signing the credential of %s: %w", name, err)
	}
	return jwt.FormatUserConfig(token, seed)
}

// CredsFile is where the credential of that name is kept.
func CredsFile(data, name string) string { return natsfiles.Creds(data, name) }

// ContextFile is where the NATS context of that name is kept: where the nats
// CLI looks with XDG_CONFIG_HOME set to the data folder.
func ContextFile(data, name string) string { return natsfiles.Context(data, name) }

// natsContext is the part of a nats CLI context file that we write.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Creds       string `json:"creds"`
	InboxPrefix string `json:"inbox_prefix"`
}

// Install writes a credential and the context that uses it, unless the
// credential is there already; the context follows the server's address.
func (m *Minter) Install(name, description, url, inbox string, mint func() ([]byte, error)) error {
	path := CredsFile(m.data, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		b, err := mint()
		if err != nil {
			return err
		}
		if err := writeFile(path, b, 0o600); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if url == "" {
		return nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	b, err := streams.Marshal(natsContext{description, url, abs, inbox})
	if err != nil {
		return err
	}
	ctx := ContextFile(m.data, name)
	if err := os.MkdirAll(filepath.Dir(ctx), 0o700); err != nil {
		return err
	}
	return writeFile(ctx, append(b, '\n'), 0o600)
}

// InboxOfCreds is the inbox prefix that a credential file of ours may hear, or
// empty.
func InboxOfCreds(file []byte) string { return natsfiles.Inbox(file) }

// ContextURL is the server's address in a context of the data folder.
func ContextURL(data, name string) (string, error) {
	b, err := os.ReadFile(ContextFile(data, name))
	if err != nil {
		return "", fmt.Errorf("the server's address is not known: %w: give it with --server", err)
	}
	var c natsContext
	if err := streams.Unmarshal(b, &c); err != nil {
		return "", fmt.Errorf("%s: %w", ContextFile(data, name), err)
	}
	return c.URL, nil
}
