package private

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// Dir is the mode of folders.
	Dir fs.FileMode = 0o700
	// File is the mode of files.
	File fs.FileMode = 0o600

	others fs.FileMode = 0o077
)

// FS returns a file system that makes all files and folders created through it private. Pebble
// itself requests 0666 and 0755.
func FS(fs vfs.FS) vfs.FS { return privateFS{fs} }

type privateFS struct{ vfs.FS }

func (p privateFS) Unwrap() vfs.FS { return p.FS }

// own removes the access rights of others from a file that was just opened for writing.
func own(f vfs.File, err error) (vfs.File, error) {
	if err != nil || f.Fd() == vfs.InvalidFd { // a file in memory
		return f, err
	}
	if err := syscall.Fchmod(int(f.Fd()), uint32(File)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p privateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return own(p.FS.Create(name, c))
}

func (p privateFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return own(p.FS.OpenReadWrite(name, c, opts...))
}

func (p privateFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return own(p.FS.ReuseForWrite(oldname, newname, c))
}

func (p privateFS) MkdirAll(dir string, perm fs.FileMode) error {
	return p.FS.MkdirAll(dir, perm&^others)
}

// Lock creates a lock file, which is empty, and makes it private.
func (p privateFS) Lock(name string) (io.Closer, error) {
	l, err := p.FS.Lock(name)
	if err == nil && vfs.Root(p.FS) == vfs.Default {
		if err = os.Chmod(name, File); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, err
}

// Tighten removes the access rights of others from paths and everything below them. It does not
// follow symbolic links. It ignores paths that do not exist.
func Tighten(paths ...string) error {
	var errs []error
	for _, p := range paths {
		errs = append(errs, filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // removed in the meantime
			case err != nil:
				return err
			case !d.IsDir() && !d.Type().IsRegular():
				return nil
			}
			return One(path)
		}))
	}
	return errors.Join(errs...)
}

// One removes the access rights of others from one file or folder, if it exists.
func One(path string) error {
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode().Type()&fs.ModeSymlink == 0 && fi.Mode().Perm()&others != 0 {
		err = os.Chmod(path, fi.Mode().Perm()&^others)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
