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

// OfProject reports whether a key belongs to a project. The key must come from Key, and if it has
// identifiers, the first must be a project.
func OfProject(key []byte, project string) bool {
	if len(key) < 1 || key[0] >= 0x80 {
		return false // these spaces belong to no project
	}
	rest, ok := bytes.CutPrefix(key[1:], []byte(project))
	return ok && (len(rest) == 0 || rest[0] == 0)
}

// DropProject removes the keys that OfProject gives to a project. In the key spaces listed in
// apart, it instead removes the keys for which drop returns true. It reads only the project's keys
// and these spaces, so it takes about as long for a large project as for a small one.
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

// eraseKey exists while deleted data may remain in the state's files, because they were not
// rewritten yet. It is committed together with the fold, so that a crash only delays the rewriting.
var eraseKey = []byte{spaceMeta, 'x'}

// erase requests that the next commit rewrites the files.
func (r *runtime) erase() error {
	r.erasing = true
	return r.store.set(eraseKey, nil)
}

// erased rewrites the files if that was requested. Deleted values stay in the logs and tables of a
// log-structured store, also in recycled ones, until they are overwritten. Only live keys are
// copied. The snapshot is replaced last, so that there always is one. eraseKey stays until then, so that after a crash
// everything is repeated.
func (s *store) erased() error {
	if _, ok, err := s.get(eraseKey); err != nil || !ok {
		return err
	}
	if !s.pending.empty() || !s.sealed.empty() {
		return errors.New("the state cannot be erased while changes are not committed")
	}
	if err := errors.Join(s.flush(), s.closeView()); err != nil {
		return err
	}
	s.keys.close()
	s.keys, s.known, s.flushers = knowledge{}, layer{}, sync.Pool{}
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
		return fmt.Errorf("rewriting the state: %w", err)
	}
	if err := replaceFolder(s.fs, s.dir); err != nil {
		return fmt.Errorf("rewriting the state: %w", err)
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
		return fmt.Errorf("writing the state anew: %w", err)
	}
	return s.sync()
}

// Suffixes of the folders of a store that is being rewritten.
const (
	newSuffix = ".new"
	oldSuffix = ".old"
)

// replaceFolder puts the folder with newSuffix in the place of a folder. After a crash only the first of its renames
// may be visible: see settleFolders.
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

// settleFolders completes an interrupted replacement. Each of the folders is complete, unless there is no old one.
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

// copyLive copies all keys.
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
