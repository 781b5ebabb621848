package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write creates or replaces a file and syncs the file and its folder.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// Rename is os.Rename, and then syncs the folder of the new path. The caller must have synced the content of the file
// or folder before. If the sync fails, the file has its new path already, and the error is not an *os.LinkError.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// Create creates a file and syncs the file and its folder. If the file exists, it stays as it is, and the error is
// fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, func(from, to string) error {
		err := link(from, to) // a rename would replace a file
		if err == nil {
			return os.Remove(from)
		}
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		// The file system has no hard links. An empty file reserves the path until the rename. Meanwhile other
		// processes can see the empty file, and a crash leaves it.
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Rename(from, to)); err != nil {
			return errors.Join(err, os.Remove(to))
		}
		return nil
	})
}

// link is os.Link, except in a test.
var link = os.Link

// syncFile is the method Sync, except in a test.
var syncFile = (*os.File).Sync

// write writes a file under another name in the same folder and syncs it. Then it calls put, which moves the file to
// its path.
func write(path string, data []byte, mode fs.FileMode, put func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = put(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// Replace replaces a file and keeps its mode. A new file has mode 0600. If path is a symbolic link,
// Replace replaces its target.
func Replace(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o600)
	if i, err := os.Stat(path); err == nil {
		mode = i.Mode().Perm()
	}
	return Write(path, data, mode)
}

// SyncDir syncs the entries of a folder.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = syncFile(d)
	if runtime.GOOS == "windows" { // Windows cannot sync folders
		err = nil
	}
	return errors.Join(err, d.Close())
}

// Glob returns the paths of the files in a folder whose paths relative to the folder match a pattern of [fs.Glob].
// Signs such as * in dir are parts of a name, not of the pattern.
func Glob(dir, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names, err
}
