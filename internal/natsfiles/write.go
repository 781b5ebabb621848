package natsfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"lazaret/streams"
)

// ReadList reads a list that a data folder keeps as JSON. A file that does not exist is an
// empty list. what names the list in errors.
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
		return nil, fmt.Errorf("the list of %s: %s: %w", what, path, err)
	}
	return l, nil
}

// Locked runs f while this process alone holds the lock beside a file.
func Locked(path string, f func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f()
}
