package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lazaret/internal/natsfiles"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// The register lists the issued credentials and their revocations. It is in the folder of keys. A backup does not
// contain the folder of keys. People save and restore that folder separately. So when a backup is restored, the folder
// of keys may be older than the backup, and its register may lack a revocation. Then a revoked credential would be
// valid again. To prevent this, the backup contains a copy of the register as it was when the backup was made. A
// restore merges this copy into the register of the restored folder. The copy contains no secret.

// registerCopy returns the path of the copy of the register in a backup.
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
	return files.Write(registerCopy(backup), append(b, '\n'), 0o600)
}

// Merged is the result of MergeRegister.
type Merged struct {
	// Made is the time at which the backup was made. It is zero if the backup has no copy of the register. Backups of
	// earlier versions have none.
	Made time.Time
	// Issued is the time of the latest issue in the merged register, and Revoked that of the latest revocation. A zero
	// time means that there is none.
	Issued, Revoked time.Time
	// Count is the number of revoked credentials in the merged register.
	Count int
}

// MergeRegister merges the backup's copy of the register in a restored data folder into the folder's own register, and
// removes the copy. If keys is not empty, it is a folder of keys that was saved separately, and MergeRegister also
// merges the register in it. A credential that is revoked in any of these registers stays revoked.
func MergeRegister(data, keys string) (*Merged, error) {
	registers := []string{registerCopy(data)}
	if keys != "" {
		registers = append(registers, filepath.Join(keys, filepath.Base(registerFile(""))))
	}
	m := new(Merged)
	err := changeRegister(data, func(r *register) error {
		if err := r.adopt(data); err != nil {
			return err
		}
		for _, file := range registers {
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

// merge adds the credentials of another register. If both registers have a credential, the merged one has the later
// issue, and the revocation if one of them has it.
func (r *register) merge(other *register) {
	for _, o := range other.Credentials {
		c := r.of(o.User)
		if c == nil {
			r.Credentials = append(r.Credentials, o)
			continue
		}
		c.Moved = c.Moved || o.Moved
		if o.Issued.After(c.Issued) {
			c.Grant, c.Issued, c.Expires = o.Grant, o.Issued, o.Expires
		}
		if c.Revoked.IsZero() {
			c.Revoked = o.Revoked
		}
	}
}

// CheckKeys returns an error if keys is not the folder "keys" of a data folder.
func CheckKeys(keys string) error {
	for _, name := range []string{storageKey, filepath.Base(registerFile(""))} {
		if _, err := os.Stat(filepath.Join(keys, name)); err != nil {
			return fmt.Errorf("%s is not a folder of keys, because it has no %s: name the folder keys of a data folder: %w",
				keys, name, err)
		}
	}
	return nil
}

// CheckStreams returns an error if the streams in a data folder were encrypted with another key than the key in this
// folder.
func CheckStreams(data string) error {
	key, err := Secret(data, storageKey)
	if err != nil {
		return err
	}
	dirs, err := files.Glob(data, "jetstream/jetstream/*/streams/*")
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
