package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"lazaret/internal/natsfiles"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// Prefix is the beginning of every token, by which secret scanners can find them.
const Prefix = "lzt_"

// Token is the entry for a token in the list.
type Token struct {
	ID         string    `json:"id"`
	Credential string    `json:"credential"` // name of the credential
	Hash       string    `json:"hash"`       // SHA-256 of the token, hex
	Issued     time.Time `json:"issued"`
	Expires    time.Time `json:"expires,omitzero"` // zero: the token expires with its credential
	Revoked    time.Time `json:"revoked,omitzero"`
}

// State returns "valid", "expired" or "revoked".
func (t *Token) State(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return "valid"
}

// ListFile returns the path of the list in a data folder.
func ListFile(data string) string { return filepath.Join(data, "creds", "tokens.json") }

// File returns the path of the token that the first start creates for a credential.
func File(data, credential string) string { return filepath.Join(data, "creds", credential+".token") }

type list struct {
	Tokens []*Token `json:"tokens"`
}

func read(data string) (*list, error) { return natsfiles.ReadList[list](ListFile(data), "tokens") }

// List returns the tokens of a data folder in order of creation.
func List(data string) ([]*Token, error) {
	l, err := read(data)
	if err != nil {
		return nil, err
	}
	return l.Tokens, nil
}

// New creates a token for a credential in the data folder. The token is valid for the time lasts. If lasts is 0, it is
// valid as long as the credential.
func New(data, credential string, lasts time.Duration) (secret string, t *Token, err error) {
	if _, err := os.Stat(natsfiles.Creds(data, credential)); err != nil {
		return "", nil, fmt.Errorf("no credential %q in %s: %w: create one with lazaret agent add", credential, data, err)
	}
	err = files.Locked(ListFile(data), func() error {
		l, err := read(data)
		if err != nil {
			return err
		}
		secret, t = l.add(credential, lasts)
		return write(data, l)
	})
	return secret, t, err
}

// add appends a token to the list.
func (l *list) add(credential string, lasts time.Duration) (secret string, t *Token) {
	b := make([]byte, 32)
	rand.Read(b)
	secret = Prefix + base64.RawURLEncoding.EncodeToString(b)
	t = &Token{ID: "t" + nuid.Next()[12:], Credential: credential, Hash: hash(secret),
		Issued: time.Now().UTC().Truncate(time.Second)}
	if lasts > 0 {
		t.Expires = t.Issued.Add(lasts)
	}
	l.Tokens = append(l.Tokens, t)
	return secret, t
}

func write(data string, l *list) error {
	b, err := streams.Marshal(l)
	if err != nil {
		return err
	}
	return files.Write(ListFile(data), append(b, '\n'), 0o600)
}

// Ensure creates a token and writes it to File, unless the credential ever had a token. It writes the list after the
// file. If it is interrupted in between, the next call replaces the file.
func Ensure(data, credential string) error {
	return files.Locked(ListFile(data), func() error {
		l, err := read(data)
		if err != nil || slices.ContainsFunc(l.Tokens, func(t *Token) bool { return t.Credential == credential }) {
			return err
		}
		secret, _ := l.add(credential, 0)
		if err := files.Write(File(data, credential), []byte(secret+"\n"), 0o600); err != nil {
			return err
		}
		return write(data, l)
	})
}

// Revoke revokes a token by its id, or all tokens of a credential by its name. It returns the number of
// tokens that it revoked.
func Revoke(data, name string) (n int, err error) {
	if _, err := os.Stat(ListFile(data)); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	err = files.Locked(ListFile(data), func() error {
		l, err := read(data)
		if err != nil {
			return err
		}
		for _, t := range l.Tokens {
			if (t.ID == name || t.Credential == name) && t.Revoked.IsZero() {
				t.Revoked = time.Now().UTC().Truncate(time.Second)
				n++
			}
		}
		if n == 0 {
			return nil
		}
		return write(data, l)
	})
	return n, err
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// Set looks up tokens. It reads the list again when the file has changed.
type Set struct {
	data string

	mu     sync.Mutex
	seen   os.FileInfo // guarded by mu, like the fields below; nil: there was no file
	loaded bool
	tokens map[string]*Token // by hash
}

// Open returns the tokens of a data folder.
func Open(data string) *Set { return &Set{data: data} }

// ErrUnknown means that a token is not in the list or not valid.
var ErrUnknown = errors.New("the token is unknown, expired or revoked")

// Find returns the list entry of a valid token, or ErrUnknown.
func (s *Set) Find(secret string) (*Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, err
	}
	t := s.tokens[hash(secret)]
	if t == nil || t.State(time.Now()) != "valid" {
		return nil, ErrUnknown
	}
	return t, nil
}

// refresh reads the list again if its file was replaced; the file is never written in place. The caller
// holds mu.
func (s *Set) refresh() error {
	info, err := os.Stat(ListFile(s.data))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the list of tokens: %w", err)
	}
	if s.loaded && (info == nil) == (s.seen == nil) && (info == nil || os.SameFile(info, s.seen) &&
		info.Size() == s.seen.Size() && info.ModTime().Equal(s.seen.ModTime())) {
		return nil
	}
	l, err := read(s.data)
	if err != nil {
		return err
	}
	s.tokens = make(map[string]*Token, len(l.Tokens))
	for _, t := range l.Tokens {
		s.tokens[t.Hash] = t
	}
	s.seen, s.loaded = info, true
	return nil
}
