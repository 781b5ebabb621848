package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
	"lazaret/pkg/durable"
	"lazaret/pkg/keys"
)

// part is a process's folder that may have keys and handovers which the data folder lacks: the key of an auditor that
// runs apart is rotated in its part (lazaret audit rotate).
type part struct {
	data, dir string
	trust     *keys.Trust // of the part, with the handovers that were kept
	kept      []string
}

// tell adds a line to what is said about the part.
func (p *part) tell(format string, args ...any) {
	p.kept = append(p.kept, fmt.Sprintf(format, args...))
}

// merge returns the trust file for the part: text, which the data folder has, and the handovers that only the part
// has. The pins of all other roles are those of the data folder.
func (p *part) merge(text []byte) ([]byte, error) {
	ours, theirs := TrustFile(p.dir), TrustFile(p.data)
	var err error
	if p.trust, err = keys.ParseTrust(theirs, text); err != nil {
		return nil, err
	}
	had, err := keys.LoadTrust(ours)
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return nil, fmt.Errorf("it may have handovers of the log's key, so it is not overwritten: correct it, or move it "+
			"away: %w", err)
	}
	var lacking []keys.Pin
	changed := false
	behind := false // the part has a key as replaced that the data folder has as valid
	for _, pin := range had.Pins() {
		v, err := note.NewVerifier(pin.Key)
		if err != nil || !pin.Has(keys.RoleAuditor) {
			continue
		}
		if _, ok := p.trust.Find(v.Name(), v.KeyHash()); !ok {
			lacking = append(lacking, pin)
		} else if at := pin.ReplacedAt; at != nil && p.trust.Replaced(chain.KeyID(v.Name(), v.KeyHash()), *at) {
			behind, changed = true, true
			p.tell("%s keeps replaced_at: %d of %s, which %s lacks: if you ran audit rotate, add it there, otherwise remove it "+
				"here", ours, *at, pin.Key, theirs)
		}
	}
	own := publicKey(AuditorKey(p.dir))
	for _, pin := range lacking {
		if pin.ReplacedAt == nil && !behind && pin.Key != own {
			p.tell("%s no longer pins %s, as %s", ours, pin.Key, theirs)
			continue
		}
		pin.Roles, changed = []keys.Role{keys.RoleAuditor}, true
		if err := p.trust.Add(pin); err != nil {
			return nil, err
		}
		at := ""
		if pin.ReplacedAt != nil {
			at = fmt.Sprintf(" (replaced_at: %d)", *pin.ReplacedAt)
		}
		p.tell("%s keeps the auditor's key %s%s, which %s lacks: if you made it with audit rotate, pin it there, otherwise "+
			"remove it here", ours, pin.Key, at, theirs)
	}
	if !changed {
		return text, nil
	}
	return p.trust.Marshal()
}

// putKey writes a key that the data folder has to a file of the part. A file with another key stays, unless the trust
// file says that it was replaced and the new one was not. Then it is kept beside the new one.
func (p *part) putKey(path string, key []byte, mode fs.FileMode) error {
	err := durable.Create(path, key, mode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	had, err := os.ReadFile(path)
	if err != nil || bytes.Equal(bytes.TrimSpace(had), bytes.TrimSpace(key)) {
		return err
	}
	rel, err := filepath.Rel(p.dir, path)
	if err != nil {
		return err
	}
	from := filepath.Join(p.data, rel)
	if path == AuditorKey(p.dir) {
		switch ours, theirs := p.pin(path), p.pin(from); {
		case theirs != nil && theirs.ReplacedAt != nil:
			p.tell("%s stays as it is: the key in %s was replaced. Put a copy of the newer one there", path, from)
			return nil
		case ours != nil && ours.ReplacedAt != nil && theirs != nil:
			aside, err := keys.SetAside(path)
			if err != nil {
				return err
			}
			p.tell("%s has now the key of %s. The old one was replaced, and is in %s", path, from, aside)
			return durable.WriteFile(path, key, mode)
		}
	}
	p.tell("%s stays as it is: %s has another key. To use that one, move this file away and repeat the command", path,
		from)
	return nil
}

// pin returns the pin of the auditor's key in a file, or nil if there is none.
func (p *part) pin(file string) *keys.Pin {
	v, err := note.NewVerifier(publicKey(file))
	if err != nil {
		return nil
	}
	if pin, ok := p.trust.Find(v.Name(), v.KeyHash()); ok && pin.Has(keys.RoleAuditor) {
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
