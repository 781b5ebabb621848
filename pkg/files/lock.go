//go:build unix && !aix && !solaris

package files

import (
	"os"
	"syscall"
)

// Locked calls f while it holds the lock file of path. Other processes that lock the same path wait.
func Locked(path string, f func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return locked(lock, f)
}

// LockedFolder calls f while it holds a lock on a folder. Other processes that lock the folder wait. LockedFolder makes
// no file, so processes of several users can lock a folder that they can read.
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
