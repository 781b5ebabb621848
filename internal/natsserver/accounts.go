package natsserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"

	"lazaret/pkg/files"
	"lazaret/streams"
)

// accounts has the signed claims (JWTs) of the operator and of the accounts.
type accounts struct {
	operator  string // JWT
	claims    *jwt.OperatorClaims
	systemKey string            // public
	accounts  map[string]string // JWT by public key
}

// Agents have an account of their own. A client names the reply subject of its message, and JetStream publishes the
// acknowledgement there with the server's rights, in the account of the client. The streams and the stages are in
// another account, so an acknowledgement to an agent reaches no stage and no stream. The agents' account imports the
// subjects below. All services are imports of one export: nats-server does not deliver the answer to an import through
// an import of the same export, so an agent cannot direct it to the intake subject of another agent either.
const exported = "lz.>"

// agentServices returns the subjects on which agents publish events and send requests.
func agentServices() []string {
	out := []string{streams.IntakePrefix + ">", "lz.svc." + string(streams.SvcProve) + ".>"}
	for _, k := range streams.Kinds {
		for _, s := range services[k] {
			out = append(out, "lz.svc."+string(s)+".>")
		}
	}
	return out
}

// agentStreams are the subjects to which agents subscribe.
var agentStreams = []string{streams.LivePrefix + "*.hold.>", streams.LivePrefix + "*.rejected.*"}

// operatorFile is the name of the file with the signed claims of the operator. They are signed only once, because a
// server refuses to reload a configuration whose operator claims are different.
const operatorFile = "operator.jwt"

func (k *keyring) accounts() (*accounts, error) {
	opPub, err := k.operator.PublicKey()
	if err != nil {
		return nil, err
	}
	a := &accounts{accounts: make(map[string]string)}
	if a.systemKey, err = k.system.PublicKey(); err != nil {
		return nil, err
	}
	a.operator, err = secret(filepath.Join(KeysDir(k.data), operatorFile), func() (string, error) {
		op := jwt.NewOperatorClaims(opPub)
		op.Name, op.SystemAccount = "lazaret", a.systemKey
		return op.Encode(k.operator)
	})
	if err != nil {
		return nil, err
	}
	if a.claims, err = jwt.DecodeOperatorClaims(a.operator); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(KeysDir(k.data), operatorFile), err)
	}
	if a.claims.Subject != opPub || a.claims.SystemAccount != a.systemKey {
		return nil, fmt.Errorf("%s does not match the keys beside it: remove the file, and it is created again",
			filepath.Join(KeysDir(k.data), operatorFile))
	}
	own, agents := jwt.NewAccountClaims(k.account), jwt.NewAccountClaims(k.agents)
	sys := jwt.NewAccountClaims(a.systemKey)
	own.Name, agents.Name, sys.Name = "LAZARET", "LAZARET_AGENTS", "SYS"
	signer, err := k.signing.PublicKey()
	if err != nil {
		return nil, err
	}
	r, err := readRegister(k.data)
	if err != nil {
		return nil, err
	}
	for _, acc := range []*jwt.AccountClaims{own, agents} {
		acc.SigningKeys.Add(signer)
	}
	now := time.Now()
	agents.Revocations = r.revocations(now, func(*Issued) bool { return true })
	// A change of the claims of the account of the streams drops the answers that agents wait for. So the revocation of
	// a credential that never belonged to this account must not change its claims.
	own.Revocations = r.revocations(now, func(c *Issued) bool { return c.Account != k.agents || c.Moved })
	own.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	if err := k.share(own, agents); err != nil {
		return nil, err
	}
	for _, acc := range []*jwt.AccountClaims{own, agents, sys} {
		if a.accounts[acc.Subject], err = acc.Encode(k.operator); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// share exports the subjects of agents from the account of the streams, and imports them into the account of the
// agents. Only an account with a token can import them.
func (k *keyring) share(own, agents *jwt.AccountClaims) error {
	add := func(kind jwt.ExportType, export string, imports ...string) error {
		own.Exports.Add(&jwt.Export{Name: kind.String() + " " + export, Subject: jwt.Subject(export), Type: kind,
			TokenReq: true})
		token := jwt.NewActivationClaims(k.agents)
		token.ImportSubject, token.ImportType, token.IssuerAccount = jwt.Subject(export), kind, k.account
		signed, err := token.Encode(k.signing)
		if err != nil {
			return err
		}
		for _, s := range imports {
			agents.Imports.Add(&jwt.Import{Name: s, Subject: jwt.Subject(s), Account: k.account, Token: signed,
				Type: kind})
		}
		return nil
	}
	err := add(jwt.Service, exported, agentServices()...)
	for _, s := range agentStreams {
		err = errors.Join(err, add(jwt.Stream, s, s))
	}
	return err
}

// AccountsFile returns the path of a file for the configurations of separately run servers, which include it. The file
// names the trusted operator, the signing key and the revoked credentials. It contains no secret.
func AccountsFile(data string) string { return filepath.Join(KeysDir(data), "accounts.conf") }

// writeAccounts writes AccountsFile.
func (k *keyring) writeAccounts() error {
	a, err := k.accounts()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Accounts of Lazaret, made by "lazaret server config" and "lazaret agent revoke".
operator: %q
system_account: %s
resolver: MEMORY
resolver_preload {
`, a.operator, a.systemKey)
	for _, key := range slices.Sorted(maps.Keys(a.accounts)) {
		fmt.Fprintf(&b, "  %s: %q\n", key, a.accounts[key])
	}
	b.WriteString("}\n")
	return files.Write(AccountsFile(k.data), b.Bytes(), 0o600)
}

// refreshAccounts rewrites AccountsFile if it exists.
func refreshAccounts(data string) error {
	if _, err := os.Stat(AccountsFile(data)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	keys, err := openKeyring(data)
	if err != nil {
		return err
	}
	return keys.writeAccounts()
}

// registerEvery is the time between two checks of the register of issued credentials. If the register has changed, the
// server applies the revocations in it.
const registerEvery = 250 * time.Millisecond

// followRegister applies revocations while the server runs. seen describes the register file when the server started.
// It is nil if there was no such file.
func (s *Server) followRegister(seen fs.FileInfo) {
	t := time.NewTicker(registerEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-t.C:
		}
		fi, err := os.Stat(registerFile(s.cfg.Data))
		if err != nil || seen != nil && os.SameFile(fi, seen) && fi.ModTime().Equal(seen.ModTime()) {
			continue
		}
		if err := s.updateAccounts(); err != nil {
			s.cfg.Log.Error("the list of credentials was not applied: revoked ones may still be accepted", "err", err)
			continue
		}
		seen = fi
	}
}

// updateAccounts loads the claims of the accounts whose revocations have changed into the server. The server then
// disconnects clients whose credentials are revoked. New claims of the account of the streams make nats-server drop the
// answers that agents wait for, so updateAccounts does not load claims without need.
func (s *Server) updateAccounts() error {
	s.life.Lock()
	defer s.life.Unlock()
	ns := s.current()
	if ns == nil {
		return nil // the next start loads the claims
	}
	a, err := s.keys.accounts()
	if err != nil {
		return err
	}
	for _, key := range []string{s.keys.account, s.keys.agents} {
		claims, err := jwt.DecodeAccountClaims(a.accounts[key])
		if err != nil {
			return err
		}
		had, err := ns.AccountResolver().Fetch(key)
		if err != nil {
			return err
		}
		if old, err := jwt.DecodeAccountClaims(had); err == nil && maps.Equal(old.Revocations, claims.Revocations) {
			continue
		}
		if err := ns.AccountResolver().Store(key, a.accounts[key]); err != nil {
			return err
		}
		acc, err := ns.LookupAccount(key)
		if err != nil {
			return err
		}
		ns.UpdateAccountClaims(acc, claims)
	}
	if s.refuses {
		return s.admit(false)
	}
	return nil
}
