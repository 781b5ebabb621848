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
	"strings"
	"time"

	"lazaret/client"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// state is the data of a session that outlives one process: files in the session's folder. A process writes a
// file under another name and then renames it, and it renames a file before it reads and removes it. So
// concurrent hooks never see a part of a file, and only one of them gets it.
type state struct{ dir string }

// openState returns the state of a session. The first write creates its folder.
func openState(root, session string) (*state, error) {
	return &state{filepath.Join(root, session)}, nil
}

// make creates the folder. It deletes sessions that were unchanged for a week, unless they have spooled
// events or text that is not admitted.
func (s *state) make() error {
	root := filepath.Dir(s.dir)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	old, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range old {
		if i, err := e.Info(); err == nil && over(i) {
			session := &state{filepath.Join(root, e.Name())}
			if unsent, err := session.names(spoolPrefix, entryPrefix); err == nil && len(unsent) == 0 {
				os.RemoveAll(session.dir)
			}
		}
	}
	return nil
}

// over reports whether the session with this folder counts as ended.
func over(folder fs.FileInfo) bool { return time.Since(folder.ModTime()) > 7*24*time.Hour }

// Erasable returns the files with content of agents or people below the folder of all sessions' state. It omits
// files that Erase emptied.
func Erasable(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		var i fs.FileInfo
		if err == nil && !d.IsDir() {
			i, err = d.Info()
		}
		if err != nil || i == nil || blocks(path) && i.Size() == 0 {
			return unlessGone(err) // there are no hooks, or a hook took the file meanwhile
		}
		paths = append(paths, path)
		return nil
	})
	return paths, err
}

// blocks reports whether the session must not continue while it has this file.
func blocks(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, spoolPrefix) || strings.HasPrefix(name, entryPrefix)
}

// Erase removes a file that Erasable returned, and its folders if they are empty then. If the session
// must not continue while it has the file, Erase only empties the file. A person ends such a session
// and removes the file.
func Erase(path string) error {
	if blocks(path) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return unlessGone(err)
		}
		return errors.Join(f.Sync(), f.Close())
	}
	if err := unlessGone(os.Remove(path)); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for range 3 { // the folders of the session, the agent and the project
		if os.Remove(dir) != nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return unlessGone(files.SyncDir(dir))
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *state) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "tmp-")
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.make(); err == nil {
			f, err = os.CreateTemp(s.dir, "tmp-")
		}
	}
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

// extend appends to a file.
func (s *state) extend(name string, b []byte) error {
	open := func() (*os.File, error) {
		return os.OpenFile(filepath.Join(s.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.make(); err == nil {
			f, err = open()
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// take reads and removes a file. Only one of several concurrent processes gets it.
func (s *state) take(name string, v any) (bool, error) {
	mine := filepath.Join(s.dir, "taken-"+client.NewID())
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

// Prefixes of the names of files that block their session: while such a file exists, the session must not
// continue.
const (
	spoolPrefix = "spool-"
	entryPrefix = "entry-"
)

// pending are the proposals of a held call.
type pending struct {
	Action *streams.Action `json:"action,omitempty"`
	Memory *streams.Memory `json:"memory,omitempty"`
	// Foreign is set if Action is held because the text of Memory comes from the web, a mail or a tool.
	Foreign bool `json:"foreign,omitempty"`
	// Outside is the result of the handler's method outside.
	Outside string `json:"outside,omitempty"`
}

func pendingName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "held-" + hex.EncodeToString(sum[:16])
}

// spooled is an event that was not acknowledged.
type spooled struct {
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
}

// spool stores events that were not acknowledged. The session proposes nothing until they are sent.
func (s *state) spool(at time.Time, events []spooled) error {
	for i, e := range events {
		if err := s.write(fmt.Sprintf(spoolPrefix+"%020d-%05d-%s", at.UnixNano(), i, client.NewID()), e); err != nil {
			return err
		}
	}
	return nil
}

// unsent returns the paths of the spooled events, oldest first.
func (s *state) unsent() ([]string, error) { return s.names(spoolPrefix) }

// names returns the paths of the files with one of the prefixes, sorted.
func (s *state) names(prefixes ...string) (names []string, err error) {
	es, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was written yet
	}
	for _, f := range es {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.Name(), p) }) {
			names = append(names, filepath.Join(s.dir, f.Name()))
		}
	}
	return names, err
}

// drop removes the files with a prefix.
func (s *state) drop(prefix string) error {
	names, err := s.names(prefix)
	for _, name := range names {
		if rerr := os.Remove(name); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}
