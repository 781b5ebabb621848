package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"lazaret/internal/natsfiles"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// Minter makes credentials. It needs the signing key and the public keys of the accounts, but no server. So credentials
// can be made while the server runs, and for a NATS system that others run in operator mode.
type Minter struct {
	data    string
	account string // public key of the account of the streams and the roles
	// agents is the public key of the agents' account. It is that of account if the installation was last started by a
	// version of Lazaret without such an account.
	agents string
	signer nkeys.KeyPair
}

// OpenMinter reads the signing key of an installation. The installation must have been started once.
func OpenMinter(data string) (*Minter, error) {
	dir := KeysDir(data)
	account, err := accountKey(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no account: run `lazaret up --data %s` once, or name the data folder with --data",
			dir, data)
	}
	if err != nil {
		return nil, err
	}
	agents, err := readAccount(filepath.Join(dir, agentsFile))
	if errors.Is(err, fs.ErrNotExist) {
		agents, err = account, nil
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, signingKey)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		// There is no signing key if the installation was last started by an older version of Lazaret. Then the server
		// accepts only credentials that are signed with the account's own key.
		path = filepath.Join(dir, identityKey)
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key that signs credentials: %w", err)
	}
	kp, err := nkeys.ParseDecoratedNKey(b)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return &Minter{data: data, account: account, agents: agents, signer: kp}, nil
}

// Role returns a credential file for a role. The credential is not added to the register of issued
// credentials.
func (m *Minter) Role(r Role) ([]byte, error) { return m.mint(Grant{Role: r, Lasts: RoleExpires}) }

// Agent returns a credential file for an agent. The credential is not added to the register of issued
// credentials.
func (m *Minter) Agent(a Agent) ([]byte, error) {
	return m.mint(Grant{Agent: &a, Lasts: AgentExpires})
}

func (m *Minter) mint(g Grant) ([]byte, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	b, _, err := m.sign(&g, user)
	return b, err
}

// sign returns a credential file for a user's key and the claims in it.
func (m *Minter) sign(g *Grant, user nkeys.KeyPair) ([]byte, *jwt.UserClaims, error) {
	pub, err := user.PublicKey()
	if err != nil {
		return nil, nil, err
	}
	seed, err := user.Seed()
	if err != nil {
		return nil, nil, err
	}
	c, err := g.claims(pub)
	if err != nil {
		return nil, nil, err
	}
	if signer, err := m.signer.PublicKey(); err != nil {
		return nil, nil, err
	} else if account := m.accountOf(g); signer != account {
		c.IssuerAccount = account
	}
	token, err := c.Encode(m.signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the credential of %s: %w", c.Name, err)
	}
	b, err := jwt.FormatUserConfig(token, seed)
	return b, c, err
}

// accountOf returns the public key of the account to which a credential belongs.
func (m *Minter) accountOf(g *Grant) string {
	if g.Agent != nil {
		return m.agents
	}
	return m.account
}

// CredsFile returns the path of a credential.
func CredsFile(data, name string) string { return natsfiles.Creds(data, name) }

// ContextFile returns the path of a context of the nats CLI. The nats CLI finds this context if XDG_CONFIG_HOME is the
// data folder.
func ContextFile(data, name string) string { return natsfiles.Context(data, name) }

// natsContext has those fields of a context file of the nats CLI that Lazaret writes.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Creds       string `json:"creds"`
	InboxPrefix string `json:"inbox_prefix"`
}

// InboxOfCreds returns the inbox prefix that a credential file of Lazaret may subscribe to, or "".
func InboxOfCreds(file []byte) string { return natsfiles.Inbox(file) }

// FollowURL writes a new server address into all contexts of the data folder that have the same address as the
// operator's context. It leaves the other contexts unchanged. It changes the operator's context last. So if FollowURL
// is interrupted, the operator's context still has the old address, and the next call starts again.
func (m *Minter) FollowURL(url string) error {
	old, err := ContextURL(m.data, string(RoleOperator))
	if errors.Is(err, fs.ErrNotExist) || err == nil && old == url {
		return nil
	}
	if err != nil {
		return err
	}
	contexts, err := files.Glob(filepath.Dir(ContextFile(m.data, "")), "*.json")
	if err != nil {
		return err
	}
	last := ContextFile(m.data, string(RoleOperator))
	contexts = slices.DeleteFunc(contexts, func(f string) bool { return f == last })
	return changeContexts(append(contexts, last), func(c map[string]any) (changed bool) {
		if changed = c["url"] == old; changed {
			c["url"] = url
		}
		return changed
	})
}

// changeContexts writes the context files that change changes. Other programs may have added fields to them.
func changeContexts(contexts []string, change func(c map[string]any) (changed bool)) error {
	for _, f := range contexts {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var c map[string]any
		if err := streams.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if !change(c) {
			continue
		}
		if b, err = streams.Marshal(c); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if err := files.Write(f, append(b, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// DetachContexts prepares the contexts of a data folder that will be renamed to at. It removes the server's address
// from all of them, and changes the paths of their credentials to paths below at. FollowURL writes the new address when
// a server first starts with the folder.
func DetachContexts(data, at string) error {
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	dir := filepath.Dir(ContextFile(data, ""))
	// The folder of contexts must exist, even if it is empty. Otherwise a command that names the data folder would use
	// the server and the context in the environment (natsconn.Flags.Resolve).
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	contexts, err := files.Glob(dir, "*.json")
	if err != nil {
		return err
	}
	return changeContexts(contexts, func(c map[string]any) bool {
		c["url"] = natsfiles.NoServer
		if creds, ok := c["creds"].(string); ok {
			name := filepath.Base(creds)
			if _, err := os.Stat(filepath.Join(data, "creds", name)); err == nil {
				c["creds"] = filepath.Join(at, "creds", name)
			}
		}
		return true
	})
}

// ContextURL returns the server's URL in a context of the data folder.
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
