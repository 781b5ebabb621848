package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lazaret/internal/natsfiles"
	"lazaret/pkg/durable"
	"lazaret/streams"
)

// A backup contains a copy of the register of credentials. Otherwise the keys that it is restored with, which may be
// older, would give revoked credentials their access back. The copy contains no secret.

// registerCopy returns the path of the copy in a backup.
func registerCopy(backup string) string {
	return filepath.Join(backup, filepath.Base(registerFile("")))
}

type copied struct {
	Made time.Time `json:"made"` // zero in the register itself
	register
}

// CopyRegister writes the list of all credentials of a data folder into a backup.
func CopyRegister(data, backup string) error {
	all, err := Credentials(data)
	if err != nil {
		return err
	}
	b, err := streams.Marshal(copied{time.Now().UTC().Truncate(time.Second), register{all}})
	if err != nil {
		return err
	}
	return durable.WriteFile(registerCopy(backup), append(b, '\n'), 0o600)
}

// Merged is the result of MergeRegister.
type Merged struct {
	// Made is when the backup was made. It is zero if the backup has no list, as those of earlier versions.
	Made time.Time
	// Issued and Revoked are the latest times in the list; zero: there is none.
	Issued, Revoked time.Time
	// Again is the number of credentials that are revoked only because of the copies.
	Again int
}

// MergeRegister adds the copy in a restored data folder to its register, and removes it. If keys is not empty, it also
// adds the register of that folder of keys. A credential that is revoked in one of the lists is revoked.
func MergeRegister(data, keys string) (*Merged, error) {
	files := []string{registerCopy(data)}
	if keys != "" {
		files = append(files, filepath.Join(keys, filepath.Base(registerFile(""))))
	}
	m := new(Merged)
	err := changeRegister(data, func(r *register) error {
		if err := r.adopt(data); err != nil {
			return err
		}
		for _, file := range files {
			c, err := natsfiles.ReadList[copied](file, "credentials")
			if err != nil {
				return err
			}
			m.Again += r.merge(&c.register)
			if !c.Made.IsZero() {
				m.Made = c.Made
			}
		}
		for _, c := range r.Credentials {
			m.Issued, m.Revoked = later(m.Issued, c.Issued), later(m.Revoked, c.Revoked)
		}
		return nil
	})
	if err == nil {
		err = refreshAccounts(data)
	}
	if err != nil {
		return nil, fmt.Errorf("merging the credentials of the backup: %w", err)
	}
	if err := os.Remove(registerCopy(data)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return m, nil
}

// merge adds the credentials of another list, and returns the number of those that only it revokes.
func (r *register) merge(other *register) (revoked int) {
	for _, o := range other.Credentials {
		c := r.of(o.User)
		if c == nil {
			r.Credentials = append(r.Credentials, o)
			if !o.Revoked.IsZero() {
				revoked++
			}
			continue
		}
		if o.Issued.After(c.Issued) {
			c.Grant, c.Issued, c.Expires = o.Grant, o.Issued, o.Expires
		}
		if c.Revoked.IsZero() && !o.Revoked.IsZero() {
			c.Revoked = o.Revoked
			revoked++
		}
	}
	return revoked
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
