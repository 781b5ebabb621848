package crashfs

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Mem is Pebble's file system in memory. Two methods of vfs.MemFS, Lock and ReuseForWrite, take a read lock a second
// time while they hold it. CrashClone, which takes the write lock, would wait for ever if it came in between. Mem keeps
// the three apart.
type Mem struct {
	*vfs.MemFS
	mu sync.Mutex
}

// New returns an empty file system.
func New() *Mem { return &Mem{MemFS: vfs.NewCrashableMem()} }

// Lock locks a file. See vfs.FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MemFS.Lock(name)
}

// ReuseForWrite renames a file and opens it for writing. See vfs.FS.
func (m *Mem) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MemFS.ReuseForWrite(from, to, c)
}

// Crash returns a copy with all synced data and, as cfg says, a part of the other data.
func (m *Mem) Crash(cfg vfs.CrashCloneCfg) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{MemFS: m.CrashClone(cfg)}
}
