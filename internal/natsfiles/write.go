package natsfiles

import (
	"os"
	"syscall"
)

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
