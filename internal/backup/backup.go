package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lazaret/pkg/files"
)

// CopiesDir returns the folder of a data folder in which copies are made before they are moved.
func CopiesDir(data string) string { return filepath.Join(data, "backups") }

const snapshotSuffix = ".snapshot"

// secure removes group and other permissions from all files in a folder, and syncs them.
func secure(dir string) error {
	if err := files.RestrictAll(dir); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// MoveFolder moves a folder to a new path, which may be on another disk. If a copy to another disk is interrupted, the
// incomplete copy has the suffix .part, and the next call removes it.
func MoveFolder(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	err := files.Rename(from, to)
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return moveByCopy(from, to)
	}
	return err
}

func moveByCopy(from, to string) error {
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := errors.Join(copyTree(from, part), secure(part)); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := files.Rename(part, to); err != nil {
		return err
	}
	return os.RemoveAll(from)
}

// copyTree copies a folder to a new one with private permissions. os.CopyFS would make files that
// others can read.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}
