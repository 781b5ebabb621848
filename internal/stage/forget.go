package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// OfProject reports whether a key belongs to a project. The key must have been made by function Key. If the key has
// identifiers, the first one must be a project.
func OfProject(key []byte, project string) bool {
	if len(key) < 1 || key[0] >= 0x80 {
		return false // the keys of these spaces do not begin with a project
	}
	rest, ok := bytes.CutPrefix(key[1:], []byte(project))
	return ok && (len(rest) == 0 || rest[0] == 0)
}

// DropProject removes a project's keys: those for which OfProject is true. In the key spaces listed in apart, it
// instead removes the keys for which drop returns true. It reads only the project's keys and the spaces in apart, so
// the time that it takes does not depend on the number of other projects' keys.
func (st *State) DropProject(project string, apart []byte, drop func(key, value []byte) (bool, error)) error {
	var gone [][]byte
	for _, space := range apart {
		err := st.Scan([]byte{space}, func(k, v []byte) (bool, error) {
			out, err := drop(k, v)
			if out {
				gone = append(gone, bytes.Clone(k))
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	for space := range byte(0x80) {
		if !bytes.Contains(apart, []byte{space}) {
			gone = append(gone, Key(space, project))
			if err := st.DropPrefix(Key(space, project, "")); err != nil {
				return err
			}
		}
	}
	st.memo = nil
	for _, k := range gone {
		if err := st.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// eraseKey exists while deleted data may remain in the state's files. It is committed together with the deletions, so
// that the files are rewritten even after a crash.
var eraseKey = []byte{spaceMeta, 'x'}

// requestRewrite makes the next commit rewrite the files of the state, so that deleted data is gone from the disk.
func (r *runtime) requestRewrite() error {
	r.erasing = true
	return r.store.set(eraseKey, nil)
}

// rewriteErased rewrites the files of the state if eraseKey exists. A log-structured store such as Pebble leaves
// deleted values in its logs and tables, also in recycled ones, until they are overwritten. So rewriteErased copies the
// live keys to a new store. After that it replaces the snapshot (SnapshotDir), so that there is always one. eraseKey is
// deleted last, so that rewriteErased starts again after a crash.
func (s *store) rewriteErased() error {
	if _, ok, err := s.get(eraseKey); err != nil || !ok {
		return err
	}
	if !s.pending.empty() || !s.sealed.empty() {
		return errors.New("the state's files cannot be rewritten while changes are not committed")
	}
	if err := errors.Join(s.flush(), s.closeView()); err != nil {
		return err
	}
	s.keys.close()
	s.keys, s.table, s.known, s.flushers = keyFilter{}, table{}, 0, sync.Pool{}
	fresh := s.dir + newSuffix
	if err := s.fs.RemoveAll(fresh); err != nil {
		return err
	}
	db, err := openPebble(fresh, s.fs, s.key)
	if err != nil {
		return err
	}
	if err := copyLive(db, s.db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := errors.Join(db.Flush(), db.Close(), s.db.Close()); err != nil {
		return fmt.Errorf("rewriting the files of the state: %w", err)
	}
	if err := replaceFolder(s.fs, s.dir); err != nil {
		return fmt.Errorf("rewriting the files of the state: %w", err)
	}
	if s.db, err = openPebble(s.dir, s.fs, s.key); err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if s.hasSnapshot() {
		if err := s.snapshot(); err != nil {
			return err
		}
	}
	if err := s.db.Delete(eraseKey, pebble.NoSync); err != nil {
		return fmt.Errorf("rewriting the files of the state: %w", err)
	}
	return s.sync()
}

// replaceFolder gives the new folder and the old folder these suffixes while it replaces a store or a snapshot.
const (
	newSuffix = ".new"
	oldSuffix = ".old"
)

// replaceFolder replaces the folder dir by the folder dir+newSuffix. It does so in two renames. If a crash comes
// between them, settleFolders completes the replacement at the next start.
func replaceFolder(fs vfs.FS, dir string) error {
	old := dir + oldSuffix
	if err := fs.RemoveAll(old); err != nil {
		return err
	}
	if err := fs.Rename(dir, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := fs.Rename(dir+newSuffix, dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	return errors.Join(syncDir(fs, parent), fs.RemoveAll(old), syncDir(fs, parent))
}

// settleFolders completes or undoes a replacement that a crash interrupted. If dir+oldSuffix exists, dir+newSuffix is
// complete.
func settleFolders(dir string, fs vfs.FS) error {
	there := func(d string) bool { _, err := fs.Stat(d); return err == nil }
	if there(dir + oldSuffix) {
		if !there(dir) && there(dir+newSuffix) {
			if err := fs.Rename(dir+newSuffix, dir); err != nil {
				return err
			}
		}
		if err := fs.RemoveAll(dir + oldSuffix); err != nil {
			return err
		}
	}
	return fs.RemoveAll(dir + newSuffix)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// copyLive copies all keys that are not deleted.
func copyLive(to, from *pebble.DB) error {
	it, err := from.NewIter(nil)
	if err != nil {
		return err
	}
	b := to.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		if err := b.Set(it.Key(), it.Value(), nil); err != nil {
			return errors.Join(err, it.Close())
		}
		if b.Len() > 4<<20 {
			if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
				return errors.Join(err, it.Close())
			}
			b = to.NewBatch()
		}
	}
	return errors.Join(it.Error(), it.Close(), b.Commit(pebble.NoSync), b.Close())
}
