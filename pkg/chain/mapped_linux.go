package chain

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// mapped returns the operating system's file system, but it maps tables into memory when they are read. Without the
// mapping, a reader of a whole log spends a fifth of its time on copies by the kernel.
func mapped(fs vfs.FS) vfs.FS {
	if fs != vfs.Default {
		return fs
	}
	return &mappedFS{FS: fs, open: make(map[string]*mapping)}
}

type mappedFS struct {
	vfs.FS
	mu   sync.Mutex
	open map[string]*mapping // by file name, guarded by mu
}

// mapping is a table file that is mapped into memory. Pebble opens a table again for each sequence of reads. All these
// opened files share one mapping.
type mapping struct {
	b     []byte
	users int // guarded by mappedFS.mu
}

// Open implements vfs.FS.
func (m *mappedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := m.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.open[name]
	if x == nil {
		st, err := f.Stat()
		if err != nil || st.Size() == 0 || int64(int(st.Size())) != st.Size() {
			return f, nil //nolint:nilerr // the file is read without a mapping
		}
		b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return f, nil //nolint:nilerr // there may be no room for the mapping; the file is read without it
		}
		_ = unix.Madvise(b, unix.MADV_SEQUENTIAL) // reading is only slower without it
		x = &mapping{b: b}
		m.open[name] = x
	}
	x.users++
	return &mappedFile{File: f, fs: m, name: name, mapping: x}, nil
}

// release releases a mapping.
func (m *mappedFS) release(name string, x *mapping) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.users--; x.users > 0 {
		return nil
	}
	delete(m.open, name)
	return unix.Munmap(x.b)
}

// mappedFile is an open file that is mapped into memory.
type mappedFile struct {
	vfs.File
	*mapping
	fs   *mappedFS
	name string
}

// ReadAt implements io.ReaderAt. It copies the bytes from the mapping, so that they cannot change after their checksum
// was verified. If the file is truncated or the disk fails, ReadAt returns an error, and the process does not end.
func (f *mappedFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > int64(len(f.b)) {
		return 0, io.EOF
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			n, err = 0, fmt.Errorf("reading a table at %d: %v", off, r)
		}
	}()
	if n = copy(p, f.b[off:]); n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (f *mappedFile) Close() error {
	return errors.Join(f.fs.release(f.name, f.mapping), f.File.Close())
}
