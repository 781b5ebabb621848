package natsfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"lazaret/streams"
)

// ReadList reads a list from a JSON file of a data folder. If the file does not exist, the list is
// empty. what names the list in errors.
func ReadList[T any](path, what string) (*T, error) {
	l := new(T)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = streams.Unmarshal(b, l)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of %s from %s: %w", what, path, err)
	}
	return l, nil
}

// Locked calls f while holding the lock file of path, which excludes other processes.
func Locked(path string, f func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return locked(lock, f)
}

// LockedFolder calls f while holding the lock of a folder, which excludes other processes that lock it. It makes no
// file, so processes of several users can lock a folder that they can read.
func LockedFolder(dir string, f func() error) error {
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	return locked(lock, f)
}

func locked(lock *os.File, f func() error) error {
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f()
}
