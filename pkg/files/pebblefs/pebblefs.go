package pebblefs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileMode fs.FileMode = 0o600
	others   fs.FileMode = 0o077
)

// OwnerOnly returns a file system in which only the owner has access to the files and folders that are created. It is
// needed because Pebble requests the modes 0666 and 0755.
func OwnerOnly(fs vfs.FS) vfs.FS { return ownerFS{fs} }

type ownerFS struct{ vfs.FS }

func (o ownerFS) Unwrap() vfs.FS { return o.FS }

// own removes the access rights of others from a file that was just opened for writing.
func own(f vfs.File, err error) (vfs.File, error) {
	if err != nil || f.Fd() == vfs.InvalidFd { // a file in memory
		return f, err
	}
	if err := syscall.Fchmod(int(f.Fd()), uint32(fileMode)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (o ownerFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return own(o.FS.Create(name, c))
}

func (o ownerFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return own(o.FS.OpenReadWrite(name, c, opts...))
}

func (o ownerFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return own(o.FS.ReuseForWrite(oldname, newname, c))
}

func (o ownerFS) MkdirAll(dir string, perm fs.FileMode) error {
	return o.FS.MkdirAll(dir, perm&^others)
}

// Lock creates an empty lock file, and removes the access rights of others from it.
func (o ownerFS) Lock(name string) (io.Closer, error) {
	l, err := o.FS.Lock(name)
	if err == nil && vfs.Root(o.FS) == vfs.Default {
		if err = os.Chmod(name, fileMode); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, err
}
