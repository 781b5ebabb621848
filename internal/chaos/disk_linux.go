package chaos

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// disk is a separate in-memory file system that can be filled.
type disk struct{ dir string }

// diskSize is the size of the file system before it is filled. It is large because JetStream reserves the
// maximum sizes of its streams. Only written data uses memory.
const diskSize = 32 << 30

// mountDisk mounts a file system. It needs root.
func mountDisk(dir string) (*disk, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("needs root to mount a separate file system")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", int64(diskSize))); err != nil {
		return nil, fmt.Errorf("mounting a separate file system: %w", err)
	}
	return &disk{dir}, nil
}

func (d *disk) resize(bytes int64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}

// fill shrinks the file system to its content, so that it is full.
func (d *disk) fill() error {
	var err error
	for range 20 { // processes write meanwhile
		var st syscall.Statfs_t
		if err = syscall.Statfs(d.dir, &st); err != nil {
			return err
		}
		if err = d.resize(int64(st.Blocks-st.Bfree+16) * st.Bsize); err == nil {
			return nil
		}
	}
	return fmt.Errorf("filling the disk: %w", err)
}

func (d *disk) free() error { return d.resize(diskSize) }

func (d *disk) close() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
