package stage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// OfProject reports whether a key that Key made, of a space and identifiers the
// first of which is a project, belongs to that project.
func OfProject(key []byte, project string) bool {
	if len(key) < 1 || key[0] >= 0x80 {
		return false // those spaces belong to no project
	}
	rest, ok := bytes.CutPrefix(key[1:], []byte(project))
	return ok && (len(rest) == 0 || rest[0] == 0)
}

// Drop removes every key of the partition that drop says so of, and returns how
// many there were. It reads the partition's whole state.
func (st *State) Drop(drop func(key, value []byte) (bool, error)) (int, error) {
	var gone [][]byte
	err := st.Scan(nil, func(k, v []byte) (bool, error) {
		out, err := drop(k, v)
		if out {
			gone = append(gone, bytes.Clone(k))
		}
		return true, err
	})
	if err != nil {
		return 0, err
	}
	st.memo = nil
	for _, k := range gone {
		if err := st.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(gone), nil
}

// eraseKey says that the state was told to forget something and its files have
// not been written anew since. It is committed together with the fold, so that
// a crash in between only delays it.
var eraseKey = []byte{spaceMeta, 'x'}

// erase asks for the files to be written anew with the next commit.
func (r *runtime) erase() error {
	r.erasing = true
	return r.store.set(eraseKey, nil)
}

// erased rewrites the files, if that was asked for: deleted values stay in a
// log-structured store's logs and tables, and in recycled ones, until they happen to be
// overwritten. Only live keys are copied.
func (s *store) erased() error {
	if _, ok, err := s.get(eraseKey); err != nil || !ok {
		return err
	}
	if !s.pending.empty() || !s.sealed.empty() {
		return errors.New("the state is to be erased with changes that are not committed")
	}
	if err := errors.Join(s.flush(), s.closeView()); err != nil {
		return err
	}
	again := s.hasSnapshot()
	if err := s.dropSnapshot(); err != nil {
		return err
	}
	s.keys.close()
	s.keys, s.known = knowledge{}, layer{}
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
		return fmt.Errorf("writing the state anew: %w", err)
	}
	old := s.dir + oldSuffix
	if err := s.fs.RemoveAll(old); err != nil {
		return err
	}
	// Of these two renames a crash can show the first alone: see settleFolders.
	if err := errors.Join(s.fs.Rename(s.dir, old), s.fs.Rename(fresh, s.dir)); err != nil {
		return fmt.Errorf("writing the state anew: %w", err)
	}
	if err := errors.Join(syncDir(s.fs, filepath.Dir(s.dir)), s.fs.RemoveAll(old),
		syncDir(s.fs, filepath.Dir(s.dir))); err != nil {
		return err
	}
	if s.db, err = openPebble(s.dir, s.fs, s.key); err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil || !again {
		return err
	}
	return errors.Join(s.sync(), s.snapshot())
}

// The folders of a store that is being written anew.
const (
	newSuffix = ".new"
	oldSuffix = ".old"
)

// settleFolders ends what a crash interrupted: either folder is whole.
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

// copyLive copies all keys but the one that asks for it.
func copyLive(to, from *pebble.DB) error {
	it, err := from.NewIter(nil)
	if err != nil {
		return err
	}
	b := to.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		if bytes.Equal(it.Key(), eraseKey) {
			continue
		}
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
