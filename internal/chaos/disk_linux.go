package chaos

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// disk is a file system of its own, in memory, that can be full.
type disk struct{ dir string }

// diskSize is how large it is when it is not full: JetStream reserves what its
// streams may take. It takes only what is written.
const diskSize = 32 << 30

// mountDisk makes one. It needs root.
func mountDisk(dir string) (*disk, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("needs root, for a file system of its own")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", int64(diskSize))); err != nil {
		return nil, fmt.Errorf("mounting a file system of its own: %w", err)
	}
	return &disk{dir}, nil
}

func (d *disk) resize(bytes int64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}

// fill leaves no room: the file system becomes as large as what it holds.
func (d *disk) fill() error {
	var err error
	for range 20 { // others write meanwhile
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
