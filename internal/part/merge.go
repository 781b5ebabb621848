package part

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"
)

// merger writes the keys and the trust file of a part. The key of an auditor that runs apart is rotated in its part
// (lazaret audit rotate), so the part may have keys and handovers that are not in the data folder. A handover is a
// record in the trust file that a key of a log was replaced.
type merger struct {
	data, dir string
	trust     *keys.Trust // of the part, with the handovers that were kept
	changed   bool        // whether trust differs from the data folder's
	kept      []string
}

// tell adds a line to what is said about the part.
func (m *merger) tell(format string, args ...any) {
	m.kept = append(m.kept, fmt.Sprintf(format, args...))
}

// put writes the keys and the trust file of the part. merging says whether handovers that only the part has are kept.
// After an error about one file, put still writes the others.
func (m *merger) put(secrets []string, content map[string][]byte, merging bool) error {
	text := content[keys.TrustFile]
	var err error
	if m.trust, err = keys.ParseTrust(datafolder.TrustFile(m.data), text); err != nil {
		m.trust = new(keys.Trust)
	} else if merging {
		text, err = m.merge(text)
	}
	errs := []error{err}
	for _, f := range secrets {
		errs = append(errs, m.putKey(filepath.Join(m.dir, f), content[f]))
	}
	if err == nil {
		errs = append(errs, files.Write(datafolder.TrustFile(m.dir), text, 0o600))
	}
	return errors.Join(errs...)
}

// merge returns the trust file for an auditor's part. text is the data folder's trust file. merge adds to it the
// handovers that only the part's trust file has: the pins of keys whose private keys are in the part, and replaced_at
// of the keys that were handed over. If a log would then have no key in use, merge also adds the part's pins of that
// log's keys whose private keys are elsewhere. All other pins are those of text.
func (m *merger) merge(text []byte) ([]byte, error) {
	ours := datafolder.TrustFile(m.dir)
	had, err := keys.LoadTrust(ours)
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read as a trust file, and is not overwritten, because it may record "+
			"handovers of the log's key to a new key: correct it or move it away: %w", ours, err)
	}
	handed, elsewhere, err := m.keepOwn(had)
	if err == nil {
		err = m.keepElsewhere(elsewhere, handed)
	}
	if err != nil {
		return nil, err
	}
	if !m.changed {
		return text, nil
	}
	return m.trust.Marshal()
}

// keepOwn adds the handovers of the part's own keys to the pins of the data folder. had has the part's pins. handed are
// the names of the logs for which keepOwn added a replaced_at. elsewhere are the auditors' pins that only the part's
// trust file has and whose private keys are not in the part.
func (m *merger) keepOwn(had *keys.Trust) (handed map[string]bool, elsewhere []keys.Pin, err error) {
	ours, theirs := datafolder.TrustFile(m.dir), datafolder.TrustFile(m.data)
	private, err := m.privateKeys()
	if err != nil {
		return nil, nil, err
	}
	// If the key in use is not pinned in the data folder, it was made by a rotation in the part, and the operator has
	// not copied the handover to the data folder.
	name := ""
	inUse := datafolder.AuditorKey(m.dir)
	if own, err := note.NewVerifier(publicKey(inUse)); err == nil && m.pin(inUse) == nil {
		name = own.Name()
	}
	handed = make(map[string]bool)
	for _, pin := range had.Pins() {
		v, err := note.NewVerifier(pin.Key)
		if err != nil || !pin.Has(keys.RoleAuditor) {
			continue
		}
		given, ok := m.trust.Find(v.Name(), v.KeyHash())
		switch {
		case ok && !given.Has(keys.RoleAuditor):
			return nil, nil, fmt.Errorf("%s pins %s as an auditor's key, but %s pins it without the role auditor: correct "+
				"the "+
				"file that is wrong, or use --trust-of-data, which takes the pins of %[3]s", ours, pin.Key, theirs)
		case ok && (pin.ReplacedAt == nil || given.ReplacedAt != nil && *given.ReplacedAt <= *pin.ReplacedAt):
		case ok && !private[pin.Key] && v.Name() != name:
			m.tell("%s no longer has replaced_at: %d of %s, because %s does not have it", ours, *pin.ReplacedAt, pin.Key,
				theirs)
		case ok:
			if m.trust.Replaced(chain.KeyID(v.Name(), v.KeyHash()), *pin.ReplacedAt) {
				m.changed, handed[v.Name()] = true, true
				m.tell("%s keeps replaced_at: %d of %s, which is not in %s: if you ran audit rotate, add it there, otherwise "+
					howToRemove, ours, *pin.ReplacedAt, pin.Key, theirs)
			}
		case !private[pin.Key]:
			elsewhere = append(elsewhere, pin)
		default:
			if err := m.keep(pin, "because the part has its private key"); err != nil {
				return nil, nil, err
			}
		}
	}
	return handed, elsewhere, nil
}

// keepElsewhere adds pins of keys whose private keys are not in the part: the next key of a log may be elsewhere (audit
// rotate --key). It adds a pin only if the part has handed its log over, and if the log would otherwise have no key in
// use.
func (m *merger) keepElsewhere(pins []keys.Pin, handed map[string]bool) error {
	inUse := m.logsWithKey()
	for _, pin := range pins {
		v, err := note.NewVerifier(pin.Key)
		if err != nil || !handed[v.Name()] || inUse[v.Name()] {
			m.tell("%s no longer pins %s%s, because %s does not", datafolder.TrustFile(m.dir), pin.Key, replacedAt(pin),
				datafolder.TrustFile(m.data))
			continue
		}
		if err := m.keep(pin, "because it may have replaced a key of the part"); err != nil {
			return err
		}
	}
	return nil
}

const howToRemove = "remove it with --trust-of-data"

// keep pins an auditor's key that is not pinned in the data folder.
func (m *merger) keep(pin keys.Pin, reason string) error {
	pin.Roles = []keys.Role{keys.RoleAuditor}
	if err := m.trust.Add(pin); err != nil {
		return err
	}
	m.changed = true
	m.tell("%s keeps the auditor's key %s%s, which is not pinned in %s, %s: if you made it with audit rotate, pin it "+
		"there, otherwise "+howToRemove, datafolder.TrustFile(m.dir), pin.Key, replacedAt(pin),
		datafolder.TrustFile(m.data), reason)
	return nil
}

func replacedAt(pin keys.Pin) string {
	if pin.ReplacedAt == nil {
		return ""
	}
	return fmt.Sprintf(" (replaced_at: %d)", *pin.ReplacedAt)
}

// logsWithKey returns the names of the logs for which the part's trust file has an auditor's key that was not replaced.
func (m *merger) logsWithKey() map[string]bool {
	out := make(map[string]bool)
	for _, pin := range m.trust.Pins() {
		if v, err := note.NewVerifier(pin.Key); err == nil && pin.Has(keys.RoleAuditor) && pin.ReplacedAt == nil {
			out[v.Name()] = true
		}
	}
	return out
}

// privateKeys returns the public keys of the auditor's private keys in the part: the key in use, the next one, and
// those that a rotation has set aside.
func (m *merger) privateKeys() (map[string]bool, error) {
	file := datafolder.AuditorKey(m.dir)
	paths, err := files.Glob(filepath.Dir(file), filepath.Base(file)+".*")
	out := make(map[string]bool)
	for _, f := range append(paths, file) {
		if key := publicKey(f); key != "" {
			out[key] = true
		}
	}
	return out, err
}

// putKey writes a key that the data folder has to a file of the part. If the file has another key, putKey leaves the
// file as it is, with one exception: the trust file says that the file's key was replaced, and that the data folder's
// key was not. Then putKey writes the data folder's key and keeps the old file beside it. An empty file is replaced.
func (m *merger) putKey(path string, key []byte) error {
	const mode = 0o600
	err := files.Create(path, key, mode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	had, err := os.ReadFile(path)
	if err != nil || bytes.Equal(bytes.TrimSpace(had), bytes.TrimSpace(key)) {
		return err
	}
	rel, err := filepath.Rel(m.dir, path)
	if err != nil {
		return err
	}
	from := filepath.Join(m.data, rel)
	if len(bytes.TrimSpace(had)) == 0 {
		m.tell("%s was empty, and has now the key of %s", path, from)
		return files.Write(path, key, mode)
	}
	if path == datafolder.AuditorKey(m.dir) {
		if publicKey(path) == "" {
			return fmt.Errorf("%s has no valid private key, and is not overwritten: put the auditor's key back, or move the "+
				"file away and repeat the command, which puts the key of %s there", path, from)
		}
		switch ours, theirs := m.pin(path), m.pin(from); {
		case theirs != nil && theirs.ReplacedAt != nil:
			m.tell("%s stays as it is: by the trust file, the key in %s was replaced. Put the newer key into %[2]s", path,
				from)
			return nil
		case ours != nil && ours.ReplacedAt != nil && theirs != nil:
			aside, err := keys.SetAside(path)
			if err != nil {
				return err
			}
			m.tell("%s has now the key of %s. The old one was replaced, and is in %s", path, from, aside)
			return files.Write(path, key, mode)
		}
	}
	m.tell("%s stays as it is: %s has another key. To use that key in the part, move %[1]s away and repeat the command",
		path, from)
	return nil
}

// pin returns the pin of the auditor's key in a file, or nil if there is none.
func (m *merger) pin(file string) *keys.Pin {
	v, err := note.NewVerifier(publicKey(file))
	if err != nil {
		return nil
	}
	if pin, ok := m.trust.Find(v.Name(), v.KeyHash()); ok && pin.Has(keys.RoleAuditor) {
		return &pin
	}
	return nil
}

// publicKey returns the public key of a private key's file, or "" if it cannot be read.
func publicKey(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	public, err := keys.Public(strings.TrimSpace(string(b)))
	if err != nil {
		return ""
	}
	return public
}
