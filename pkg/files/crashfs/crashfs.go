package crashfs

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Mem is Pebble's file system in memory, with a lock of its own around three methods. Two methods of vfs.MemFS, Lock
// and ReuseForWrite, take a read lock, and take it a second time before they release it. CrashClone takes the write
// lock. If it waits for the write lock when one of the two methods holds one read lock, both wait for ever. Mem calls
// only one of the three methods at a time.
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

// Crash returns a copy of the file system after a crash of the machine. The copy has all synced data. cfg says which
// part of the other data it has.
func (m *Mem) Crash(cfg vfs.CrashCloneCfg) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{MemFS: m.CrashClone(cfg)}
}
