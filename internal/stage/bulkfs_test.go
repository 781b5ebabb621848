package stage

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A file that is written in large pieces must have exactly the written content after each sync. Reads in any order must
// return that content.
func TestAFileInLargePiecesIsAFile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		mem := vfs.NewMem()
		fs := bulkFS{mem}
		f, err := fs.Create("1.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for range r.IntN(100) {
			p := make([]byte, r.IntN(1+r.IntN(2*bulk)))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			want = append(want, p...)
			n, err := f.Write(p)
			clear(p) // the caller may reuse it
			if n != len(p) || err != nil {
				t.Fatalf("%d of %d bytes are written: %v", n, len(p), err)
			}
			size := int64(-1)
			switch r.IntN(20) {
			case 0:
				err, size = f.Sync(), int64(len(want))
			case 1:
				err, size = f.SyncData(), int64(len(want))
			case 2:
				_, err = f.SyncTo(int64(len(want)))
				size = int64(len(want))
			case 3:
				if info, e := f.Stat(); e != nil || info.Size() != int64(len(want)) {
					t.Fatalf("the open file has %d of %d bytes: %v", info.Size(), len(want), e)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := mem.Stat("1.sst"); size >= 0 && (err != nil || info.Size() != size) {
				t.Fatalf("after a sync there are %d bytes of %d: %v", info.Size(), size, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, opts := range [][]vfs.OpenOption{nil, {vfs.SequentialReadsOption}} {
			f, err := fs.Open("1.sst", opts...)
			if err != nil {
				t.Fatal(err)
			}
			off := 0
			for range 300 {
				n := r.IntN(1 + r.IntN(bulk*5/4))
				switch r.IntN(10) {
				case 0:
					off = r.IntN(len(want) + 1)
				case 1:
					off = max(0, off-r.IntN(bulk))
				case 2:
					off += r.IntN(100)
				}
				p := make([]byte, n)
				got, err := f.ReadAt(p, int64(off))
				end := min(len(want), off+n)
				if exp := max(0, end-off); got != exp || (err == io.EOF) != (exp < n) || err != nil && err != io.EOF ||
					!bytes.Equal(p[:got], want[min(off, end):end]) {
					t.Fatalf("%d bytes at %d of %d: %d are read, %v", n, off, len(want), got, err)
				}
				if off += n; off > len(want) {
					off = 0
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fullFile is a file on a disk that has room for a given number of bytes.
type fullFile struct {
	vfs.File
	room int
}

var errFull = errors.New("no space left")

func (f *fullFile) Write(p []byte) (int, error) {
	if f.room < len(p) {
		return 0, errFull
	}
	f.room -= len(p)
	return f.File.Write(p)
}

// On a full disk, a small write may succeed because it is only buffered. Each later call that depends on it (sync,
// stat, the next write, close) must return the error.
func TestAFileInLargePiecesSaysThatItCouldNotBeWritten(t *testing.T) {
	for name, end := range map[string]func(f vfs.File) error{"sync": vfs.File.Sync, "sync data": vfs.File.SyncData,
		"sync to": func(f vfs.File) error {
			_, err := f.SyncTo(1)
			return err
		}, "size": func(f vfs.File) error { _, err := f.Stat(); return err }} {
		in, err := vfs.NewMem().Create("1.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		f := &bulkWriter{File: &fullFile{File: in, room: 2 * bulk}}
		for range 2 {
			if _, err := f.Write(make([]byte, bulk)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Write(make([]byte, 100)); err != nil {
			t.Fatalf("%s: a write that is only buffered fails: %v", name, err)
		}
		if err := end(f); !errors.Is(err, errFull) {
			t.Errorf("%s: the call returns %v, want errFull", name, err)
		}
		if _, err := f.Write(make([]byte, 100)); !errors.Is(err, errFull) {
			t.Errorf("%s: a write after the error returns %v, want errFull", name, err)
		}
		if err := f.Close(); !errors.Is(err, errFull) {
			t.Errorf("%s: Close returns %v, want errFull", name, err)
		}
	}
}

// Pebble must use bulkFS for its tables: it writes new tables, and reads and writes merged tables, in large pieces.
func TestTablesAreWrittenAndMergedInLargePieces(t *testing.T) {
	counted := &countedFS{FS: vfs.NewMem()}
	s, err := openStore("state", counted, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := &State{s: s}
	r := rand.New(rand.NewPCG(1, 2))
	const keys, size, times = 4000, 400, 2
	for range times {
		for range keys {
			v := make([]byte, size)
			for i := range v {
				v[i] = byte(r.Uint32())
			}
			if err := st.Give(v[:16], v); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.commit(), s.flush(), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false), s.close()); err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]struct{ calls, bytes, least int }{
		"written":           {counted.writes, counted.written, 2 * times * keys * size}, // and once more when they are merged
		"read to be merged": {counted.reads, counted.read, times * keys * size},
	} {
		if n.bytes < n.least || n.calls > n.bytes/bulk*2+20 {
			t.Errorf("%d bytes of tables are %s in %d pieces, want more bytes or fewer pieces", n.bytes, what, n.calls)
		}
	}
}

// countedFS counts the bytes written to tables, and the bytes read from tables that are read from
// front to back.
type countedFS struct {
	vfs.FS
	writes, written, reads, read int
}

func (c *countedFS) Create(name string, cat vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, cat)
	if err == nil && strings.HasSuffix(name, ".sst") {
		f = &countedFile{f, c}
	}
	return f, err
}

func (c *countedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, opts...)
	if err == nil && slices.Contains(opts, vfs.SequentialReadsOption) {
		f = &countedFile{f, c}
	}
	return f, err
}

type countedFile struct {
	vfs.File
	c *countedFS
}

func (f *countedFile) Write(p []byte) (int, error) {
	f.c.writes++
	f.c.written += len(p)
	return f.File.Write(p)
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.reads++
	f.c.read += n
	return n, err
}
