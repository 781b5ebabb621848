package stage

import (
	"io"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// bulkFS makes Pebble write its table files, and read whole tables for a compaction, in pieces of 64 KiB. Pebble
// itself uses blocks of 4 KiB, and their system calls were a third of the cost of compactions. Other files, such as
// the manifest, are not affected.
//
// Writes are buffered in the process. So unsynced writes may be lost when the process dies, and not only when the
// machine does. That is safe because Pebble syncs a table before its manifest refers to the table.
type bulkFS struct{ vfs.FS }

const bulk = 64 << 10 // bytes of a piece

var bulks = sync.Pool{New: func() any { return new([bulk]byte) }}

func (b bulkFS) Unwrap() vfs.FS { return b.FS }

func (b bulkFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := b.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &bulkWriter{File: f}, nil
}

func (b bulkFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(name, opts...)
	if err != nil || len(opts) != 1 || opts[0] != vfs.SequentialReadsOption {
		return f, err
	}
	return &bulkReader{File: f}, nil
}

// bulkWriter writes a file in pieces. After the first error it writes nothing more, and each call returns that error.
type bulkWriter struct {
	vfs.File
	buf *[bulk]byte // nil if empty
	n   int
	err error
}

func (w *bulkWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 && w.err == nil {
		if w.buf == nil {
			w.buf = bulks.Get().(*[bulk]byte)
		}
		n := copy(w.buf[w.n:], p)
		w.n, done, p = w.n+n, done+n, p[n:]
		if w.n == bulk {
			w.flush()
		}
	}
	return done, w.err
}

func (w *bulkWriter) flush() error {
	if w.err == nil && w.n > 0 {
		_, w.err = w.File.Write(w.buf[:w.n])
	}
	w.free()
	return w.err
}

func (w *bulkWriter) free() {
	if w.buf != nil {
		bulks.Put(w.buf)
		w.buf, w.n = nil, 0
	}
}

// Sync, SyncData, SyncTo and Stat first write the buffer to the file.
func (w *bulkWriter) Sync() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.File.Sync()
}

func (w *bulkWriter) SyncData() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.File.SyncData()
}

func (w *bulkWriter) SyncTo(length int64) (bool, error) {
	if err := w.flush(); err != nil {
		return false, err
	}
	return w.File.SyncTo(length)
}

func (w *bulkWriter) Stat() (vfs.FileInfo, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	return w.File.Stat()
}

// Close writes the buffer and closes the file.
func (w *bulkWriter) Close() error {
	err := w.flush()
	if e := w.File.Close(); err == nil {
		err = e
	}
	return err
}

// bulkReader reads a file in pieces as long as the reads are sequential. Other reads go to the file directly.
type bulkReader struct {
	vfs.File
	mu    sync.Mutex
	buf   *[bulk]byte // nil until two reads were sequential
	begin int64       // file offset of buf
	n     int
	next  int64 // offset after the last read
}

func (r *bulkReader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	onward := off >= r.next && off-r.next < bulk
	r.next = off + int64(len(p))
	if r.has(p, off) {
		return copy(p, r.buf[off-r.begin:]), nil
	}
	if !onward || len(p) > bulk {
		return r.File.ReadAt(p, off)
	}
	if r.buf == nil {
		r.buf = bulks.Get().(*[bulk]byte)
	}
	n, err := r.File.ReadAt(r.buf[:], off)
	if r.begin, r.n = off, n; r.has(p, off) {
		return copy(p, r.buf[:n]), nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return copy(p, r.buf[:n]), err
}

func (r *bulkReader) has(p []byte, off int64) bool {
	return r.buf != nil && off >= r.begin && off+int64(len(p)) <= r.begin+int64(r.n)
}

func (r *bulkReader) Close() error {
	r.mu.Lock()
	if r.buf != nil {
		bulks.Put(r.buf)
		r.buf, r.n = nil, 0
	}
	r.mu.Unlock()
	return r.File.Close()
}
