package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"lazaret/internal/natsfiles"
	"lazaret/internal/token"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// Validity of credentials.
const (
	// AgentExpires is the default validity of credentials that people create.
	AgentExpires = 90 * 24 * time.Hour
	// RoleExpires is the validity of credentials that `lazaret up` creates and renews.
	RoleExpires = 30 * 24 * time.Hour
	// InitExpires is the validity of credentials for separate daemons, which `lazaret server init` creates and renews.
	InitExpires = 397 * 24 * time.Hour
	// ExpiresSoon is a remaining validity. If a credential has less, `lazaret doctor` reports it.
	ExpiresSoon = 14 * 24 * time.Hour
)

// Grant is the content of a credential: the role or the agent that it is for, and its validity. Either Role or Agent is
// set.
type Grant struct {
	Name  string `json:"name"` // name of the credential's file and of its NATS context
	Role  Role   `json:"role,omitempty"`
	Agent *Agent `json:"agent,omitempty"`
	// Account is the public key of the account to which the credential belongs. Minter sets it. It is empty for
	// credentials that were made by a version of Lazaret without an agents' account.
	Account string        `json:"account,omitempty"`
	Lasts   time.Duration `json:"-"` // 0: it never expires
	// Description is written to the NATS context.
	Description string `json:"description,omitempty"`
}

// Issued is a credential that was written to a file.
type Issued struct {
	Grant
	User string `json:"user"` // public key of the credential
	// Moved is set if the credential belongs to the agents' account, and an earlier one for the same key belongs to the
	// account of the streams. The earlier one is valid until it expires or the key is revoked.
	Moved   bool      `json:"moved,omitzero"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"`
}

// State returns "valid", "expired" or "revoked".
func (i *Issued) State(now time.Time) string {
	switch {
	case !i.Revoked.IsZero():
		return "revoked"
	case i.expired(now):
		return "expired"
	}
	return "valid"
}

func (i *Issued) expired(now time.Time) bool { return !i.Expires.IsZero() && !now.Before(i.Expires) }

// Inbox returns the inbox prefix of the credential.
func (g *Grant) Inbox() string {
	if g.Agent != nil {
		return AgentInbox(g.Agent.Project, g.Agent.Name)
	}
	return g.Role.InboxPrefix()
}

// claims returns the JWT claims of the grant for a user's public key.
func (g *Grant) claims(user string) (*jwt.UserClaims, error) {
	p, name, err := perms{}, string(g.Role), error(nil)
	if g.Agent != nil {
		name = g.Agent.Project + "/" + g.Agent.Name
		p, err = g.Agent.permissions()
	} else {
		p, err = g.Role.permissions()
	}
	if err != nil {
		return nil, err
	}
	c := jwt.NewUserClaims(user)
	c.Name, c.Permissions = name, p.jwt()
	if g.Lasts > 0 {
		c.Expires = time.Now().Add(g.Lasts).Unix()
	}
	return c, nil
}

// registerFile returns the path of the register of issued credentials.
func registerFile(data string) string { return filepath.Join(KeysDir(data), "credentials.json") }

type register struct {
	Credentials []*Issued `json:"credentials"`
}

func readRegister(data string) (*register, error) {
	return natsfiles.ReadList[register](registerFile(data), "credentials")
}

// changeRegister reads the register, changes it and writes it. Meanwhile it holds a lock, so that other processes wait.
func changeRegister(data string, change func(*register) error) error {
	return files.Locked(registerFile(data), func() error {
		r, err := readRegister(data)
		if err != nil {
			return err
		}
		before, err := streams.Marshal(r)
		if err != nil {
			return err
		}
		if err := change(r); err != nil {
			return err
		}
		after, err := streams.Marshal(r)
		if err != nil || string(after) == string(before) {
			return err
		}
		return files.Write(registerFile(data), append(after, '\n'), 0o600)
	})
}

func (r *register) of(user string) *Issued {
	i := slices.IndexFunc(r.Credentials, func(c *Issued) bool { return c.User == user })
	if i < 0 {
		return nil
	}
	return r.Credentials[i]
}

// adopt adds to the register the credentials in the folder creds/ that it does not list. Older versions had no
// register.
func (r *register) adopt(data string) error {
	paths, err := files.Glob(filepath.Dir(CredsFile(data, "")), "*.creds")
	if err != nil {
		return err
	}
	for _, f := range paths {
		c, _, err := readCreds(f)
		if err != nil {
			continue // not a credential of Lazaret
		}
		if r.of(c.Subject) != nil {
			continue
		}
		i := &Issued{Grant: Grant{Name: strings.TrimSuffix(filepath.Base(f), ".creds"), Role: Role(c.Name),
			Agent: agentOf(c), Account: c.IssuerAccount}, User: c.Subject, Issued: time.Unix(c.IssuedAt, 0).UTC()}
		if i.Agent != nil {
			i.Role = ""
		}
		if c.Expires > 0 {
			i.Expires = time.Unix(c.Expires, 0).UTC()
		}
		r.Credentials = append(r.Credentials, i)
	}
	return nil
}

// agentOf returns the agent for which a credential was made, as its permissions show. It returns nil if the credential
// is for a role.
func agentOf(c *jwt.UserClaims) *Agent {
	project, name, ok := strings.Cut(c.Name, "/")
	if !ok {
		return nil
	}
	a := &Agent{Project: project, Name: name}
	kinds := make(map[streams.Kind]bool)
	for _, s := range c.Pub.Allow {
		rest, ok := strings.CutPrefix(s, "lz.in."+project+"."+name+".")
		if !ok {
			continue
		}
		kind, origin, _ := strings.Cut(rest, ".")
		kinds[streams.Kind(kind)] = true
		if o := beliefs.Origin(origin); origin != "" && !slices.Contains(a.Origins, o) {
			a.Origins = append(a.Origins, o)
		}
	}
	if len(kinds) < len(streams.Kinds) {
		for _, k := range streams.Kinds {
			if kinds[k] {
				a.Kinds = append(a.Kinds, k)
			}
		}
	}
	return a
}

// InAgentsAccount reports whether the credential, and each earlier one for its key, belongs to the agents' account of
// an installation. If not, its holder can make the server publish in the account of the streams (docs/decisions/0006).
func (i *Issued) InAgentsAccount(data string) (bool, error) {
	key, err := readAccount(filepath.Join(KeysDir(data), agentsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && i.Account == key && !i.Moved, err
}

// readCreds reads a credential file.
func readCreds(file string) (*jwt.UserClaims, nkeys.KeyPair, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	token, err1 := nkeys.ParseDecoratedJWT(b)
	user, err2 := nkeys.ParseDecoratedUserNKey(b)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, user, nil
}

// Credentials returns the issued credentials in the order of their names. If several have the same name, the latest
// comes last.
func Credentials(data string) ([]*Issued, error) {
	r, err := readRegister(data)
	if err == nil {
		err = r.adopt(data)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Credentials, func(a, b *Issued) int {
		if n := strings.Compare(a.Name, b.Name); n != 0 {
			return n
		}
		return a.Issued.Compare(b.Issued)
	})
	return r.Credentials, nil
}

// write signs a credential for a user, writes its file and adds it to the register.
func (m *Minter) write(r *register, g Grant, user nkeys.KeyPair) (*Issued, error) {
	pub, err := user.PublicKey()
	if err != nil {
		return nil, err
	}
	b, c, err := m.sign(&g, user)
	if err != nil {
		return nil, err
	}
	path := CredsFile(m.data, g.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	i := r.of(pub)
	if i == nil {
		i = &Issued{User: pub}
		r.Credentials = append(r.Credentials, i)
	}
	g.Account = m.accountOf(&g)
	if !i.Issued.IsZero() && g.Account != m.account && i.Account != g.Account {
		i.Moved = true
	}
	i.Grant, i.Issued, i.Expires = g, time.Unix(c.IssuedAt, 0).UTC(), time.Time{}
	if c.Expires > 0 {
		i.Expires = time.Unix(c.Expires, 0).UTC()
	}
	return i, files.Write(path, b, 0o600)
}

// Install writes a credential and its context. If the credential exists and renew is not set, Install leaves it as it
// is. If renew is set, Install signs it again for the same key in three cases: half of its validity is over, an older
// version signed it, or its rights are not those of g. It never renews a revoked credential.
func (m *Minter) Install(g Grant, url string, renew bool) error {
	path := CredsFile(m.data, g.Name)
	err := changeRegister(m.data, func(r *register) error {
		if err := r.adopt(m.data); err != nil {
			return err
		}
		c, user, err := readCreds(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if user, err = nkeys.CreateUser(); err != nil {
				return err
			}
		case err != nil:
			return err
		case !renew || !m.due(c, &g) || !r.of(c.Subject).Revoked.IsZero():
			return nil
		}
		_, err = m.write(r, g, user)
		return err
	})
	if err != nil || url == "" {
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	b, err := streams.Marshal(natsContext{g.Description, url, abs, g.Inbox()})
	if err != nil {
		return err
	}
	ctx := ContextFile(m.data, g.Name)
	if err := os.MkdirAll(filepath.Dir(ctx), 0o700); err != nil {
		return err
	}
	return files.Write(ctx, append(b, '\n'), 0o600)
}

// due reports whether Install must sign a credential again.
func (m *Minter) due(c *jwt.UserClaims, g *Grant) bool {
	signer, err := m.signer.PublicKey()
	if err != nil || c.Issuer != signer || signer != m.accountOf(g) && c.IssuerAccount != m.accountOf(g) {
		return true
	}
	now, err := g.claims(c.Subject)
	if err != nil || !slices.Equal(c.Pub.Allow, now.Pub.Allow) || !slices.Equal(c.Sub.Allow, now.Sub.Allow) {
		return true
	}
	return g.Lasts > 0 && (c.Expires == 0 || time.Until(time.Unix(c.Expires, 0)) < g.Lasts/2)
}

// Rotate creates a credential with a new key and the same rights. It revokes the other credentials of the same name,
// unless keepOld is set. lasts is the validity. If it is nil, the validity is that of the previous credential, or
// AgentExpires if the previous credential never expires.
func (m *Minter) Rotate(name string, lasts *time.Duration, keepOld bool) (fresh *Issued, err error) {
	err = changeRegister(m.data, func(r *register) error {
		old, err := r.named(m.data, name)
		if err != nil {
			return err
		}
		last := old[len(old)-1]
		g := last.Grant
		switch {
		case lasts != nil:
			g.Lasts = *lasts
		case !last.Expires.IsZero():
			g.Lasts = last.Expires.Sub(last.Issued)
		default:
			g.Lasts = AgentExpires
		}
		user, err := nkeys.CreateUser()
		if err != nil {
			return err
		}
		if fresh, err = m.write(r, g, user); err == nil && !keepOld {
			revoke(old)
		}
		return err
	})
	if err == nil && !keepOld {
		err = refreshAccounts(m.data)
	}
	return fresh, err
}

// Revoked is the result of a revocation.
type Revoked struct {
	Name        string // name of the credentials; if a key was revoked that is not in the register, the key
	Credentials int    // revoked now
	Tokens      int    // of the HTTP gateway, revoked now
}

// Revoke revokes the credentials of a name, or of a user's public key even if the register does not list it. If older
// is set, the latest credential stays valid. A token of the HTTP gateway gives access to the latest credential of a
// name. So if the latest credential is revoked, the tokens are revoked too. Otherwise they would give access to a later
// credential of the same name.
func (m *Minter) Revoke(name string, older bool) (out Revoked, err error) {
	latest := false // the latest credential of the name is revoked
	err = changeRegister(m.data, func(r *register) error {
		cs, err := r.named(m.data, name)
		if err != nil && nkeys.IsValidPublicUserKey(name) {
			cs, err = []*Issued{{Grant: Grant{Name: name}, User: name, Issued: time.Now().UTC().Truncate(time.Second)}}, nil
			r.Credentials = append(r.Credentials, cs[0])
		}
		if err != nil {
			return err
		}
		out.Name = cs[0].Name
		if older {
			cs = cs[:len(cs)-1]
		}
		out.Credentials = revoke(cs)
		all, err := r.named(m.data, out.Name)
		latest = err == nil && !all[len(all)-1].Revoked.IsZero()
		return err
	})
	if err == nil && latest {
		out.Tokens, err = token.Revoke(m.data, out.Name)
	}
	if err == nil {
		err = refreshAccounts(m.data)
	}
	return out, err
}

// named returns the credentials of a name, or those of a user's public key. The latest comes last.
func (r *register) named(data, name string) ([]*Issued, error) {
	if err := r.adopt(data); err != nil {
		return nil, err
	}
	var out []*Issued
	for _, c := range r.Credentials {
		if c.Name == name || c.User == name {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no credential %q was made in %s: see lazaret agent ls --all", name, data)
	}
	return out, nil
}

func revoke(cs []*Issued) (n int) {
	now := time.Now().UTC().Truncate(time.Second)
	for _, c := range cs {
		if c.Revoked.IsZero() {
			c.Revoked = now
			n++
		}
	}
	return n
}

// revocations returns the public keys of the credentials for which of returns true and that the server must refuse. For
// each key, it returns a time: the server refuses credentials that were issued up to this time.
func (r *register) revocations(now time.Time, of func(*Issued) bool) jwt.RevocationList {
	out := make(jwt.RevocationList)
	for _, c := range r.Credentials {
		if of(c) && !c.Revoked.IsZero() && !c.expired(now) {
			out[c.User] = max(c.Revoked.Unix(), c.Issued.Unix())
		}
	}
	return out
}
