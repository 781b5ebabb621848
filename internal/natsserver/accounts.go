package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"

	"lazaret/pkg/files"
)

// accounts has the signed claims (JWTs) of the operator, of the pipeline's account and of the system account.
type accounts struct {
	operator, account, system string // JWTs
	accountKey, systemKey     string // public
	claims                    *jwt.OperatorClaims
}

// operatorFile is the name of the file with the signed claims of the operator. They are signed only once, because a
// server refuses to reload a configuration whose operator claims are different.
const operatorFile = "operator.jwt"

func (k *keyring) accounts() (*accounts, error) {
	opPub, err := k.operator.PublicKey()
	if err != nil {
		return nil, err
	}
	a := new(accounts)
	a.accountKey = k.account
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
	acc := jwt.NewAccountClaims(a.accountKey)
	acc.Name = "LAZARET"
	signer, err := k.signing.PublicKey()
	if err != nil {
		return nil, err
	}
	acc.SigningKeys.Add(signer)
	r, err := readRegister(k.data)
	if err != nil {
		return nil, err
	}
	if rev := r.revocations(time.Now()); len(rev) > 0 {
		acc.Revocations = rev
	}
	acc.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	if a.account, err = acc.Encode(k.operator); err != nil {
		return nil, err
	}
	sys := jwt.NewAccountClaims(a.systemKey)
	sys.Name = "SYS"
	a.system, err = sys.Encode(k.operator)
	return a, err
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
	return files.Write(AccountsFile(k.data),
		fmt.Appendf(nil, `# Accounts of Lazaret, made by "lazaret server config" and "lazaret agent revoke".
operator: %q
system_account: %s
resolver: MEMORY
resolver_preload {
  %s: %q
  %s: %q
}
`, a.operator, a.systemKey, a.accountKey, a.account, a.systemKey, a.system), 0o600)
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
		if err := s.updateAccount(); err != nil {
			s.cfg.Log.Error("the list of credentials was not applied: revoked ones may still be accepted", "err", err)
			continue
		}
		seen = fi
	}
}

// updateAccount loads the current claims of the account into the server. The server then disconnects clients whose
// credentials are revoked.
func (s *Server) updateAccount() error {
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
	claims, err := jwt.DecodeAccountClaims(a.account)
	if err != nil {
		return err
	}
	if err := ns.AccountResolver().Store(a.accountKey, a.account); err != nil {
		return err
	}
	acc, err := ns.LookupAccount(a.accountKey)
	if err != nil {
		return err
	}
	ns.UpdateAccountClaims(acc, claims)
	if s.refuses {
		return s.admit(false)
	}
	return nil
}
