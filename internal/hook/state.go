package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lazaret/streams"
)

// state is the data that outlives one process of a session: files in a folder of its own.
// Each is written whole and moved into place, and taken by removing it, so that
// concurrent hooks do not interfere.
type state struct{ dir string }

// openState opens the folder of a session. Sessions that nobody touched for a
// week are dropped.
func openState(root, session string) (*state, error) {
	s := &state{filepath.Join(root, session)}
	if _, err := os.Stat(s.dir); err == nil {
		return s, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	old, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range old {
		if i, err := e.Info(); err == nil && time.Since(i.ModTime()) > 7*24*time.Hour {
			if spool, err := filepath.Glob(filepath.Join(root, e.Name(), "spool-*")); err == nil && len(spool) == 0 {
				os.RemoveAll(filepath.Join(root, e.Name()))
			}
		}
	}
	return s, nil
}

func (s *state) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// take reads a file and removes it; only one process gets it.
func (s *state) take(name string, v any) (bool, error) {
	mine := filepath.Join(s.dir, fmt.Sprintf("taken-%d-%s", os.Getpid(), name))
	err := os.Rename(filepath.Join(s.dir, name), mine)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer os.Remove(mine)
	b, err := os.ReadFile(mine)
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(b, v)
}

// pending are the proposals of a call that is held.
type pending struct {
	Action *streams.Action `json:"action,omitempty"`
	Memory *streams.Memory `json:"memory,omitempty"`
}

func pendingName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "held-" + hex.EncodeToString(sum[:16])
}

// spooled is an event that was not acknowledged yet.
type spooled struct {
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
}

// spool keeps events that were not acknowledged. Until they are, nothing more is
// proposed in the session.
func (s *state) spool(at time.Time, events []spooled) error {
	for i, e := range events {
		if err := s.write(fmt.Sprintf("spool-%020d-%05d-%d", at.UnixNano(), i, os.Getpid()), e); err != nil {
			return err
		}
	}
	return nil
}

// unsent are the names of spooled events, oldest first.
func (s *state) unsent() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "spool-*"))
	slices.Sort(names)
	return names, err
}
