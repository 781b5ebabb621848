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
	// Count is the number of revoked credentials in the list.
	Count int
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
			r.merge(&c.register)
			if !c.Made.IsZero() {
				m.Made = c.Made
			}
		}
		for _, c := range r.Credentials {
			m.Issued, m.Revoked = later(m.Issued, c.Issued), later(m.Revoked, c.Revoked)
			if !c.Revoked.IsZero() {
				m.Count++
			}
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

// merge adds the credentials of another list.
func (r *register) merge(other *register) {
	for _, o := range other.Credentials {
		c := r.of(o.User)
		if c == nil {
			r.Credentials = append(r.Credentials, o)
			continue
		}
		if o.Issued.After(c.Issued) {
			c.Grant, c.Issued, c.Expires = o.Grant, o.Issued, o.Expires
		}
		if c.Revoked.IsZero() {
			c.Revoked = o.Revoked
		}
	}
}

// CheckKeys returns an error if a folder is not the folder of a data folder's keys.
func CheckKeys(keys string) error {
	for _, name := range []string{storageKey, filepath.Base(registerFile(""))} {
		if _, err := os.Stat(filepath.Join(keys, name)); err != nil {
			return fmt.Errorf("%s is not a folder of keys, because it has no %s: name the folder keys of a data folder: %w",
				keys, name, err)
		}
	}
	return nil
}

// CheckStreams returns an error if the streams of a data folder were written with other keys than its own.
func CheckStreams(data string) error {
	key, err := Secret(data, storageKey)
	if err != nil {
		return err
	}
	dirs, err := durable.Glob(data, "jetstream/jetstream/*/streams/*")
	for _, dir := range dirs {
		if err == nil {
			_, err = openStreamKey(dir, key)
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // the streams are not encrypted
	}
	return err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
