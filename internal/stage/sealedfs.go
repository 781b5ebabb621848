package stage

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sealedFS encrypts and authenticates the tables and manifests of one Pebble database with AES-256-GCM. The key is not
// in the database's folder. A user who can write to the folder but lacks the key can destroy the state, but cannot
// change, add or omit a single value.
//
// The database has no write-ahead log. Its manifest lists its tables in the order in which they were added. So a user
// who shortens the manifest restores the database of an earlier time, including its cursors. The stage then folds the
// rest of the ledger again.
//
// A file begins with a header: sealedMagic, the id of the database, a salt. Each file has its own key, derived from the
// header and the file's name, so that no file can replace another one of this or another database. A table is a
// sequence of blocks of sealedBlock bytes. A manifest is a sequence of records, each after its length. The nonce of a
// block or record is its number in the file.
//
// Pebble's OPTIONS, LOCK and marker files contain no state, and are not encrypted.
type sealedFS struct {
	vfs.FS
	key []byte

	mu sync.Mutex
	id []byte // id of the database; nil until the first file is opened or created; guarded by mu
}

const (
	sealedMagic  = "LZSTATE\x01"
	sealedID     = 16
	sealedHeader = len(sealedMagic) + sealedID + 16
	sealedTag    = 16
	sealedBlock  = 4096 // plaintext bytes of a table's block
	sealedCipher = sealedBlock + sealedTag
	// maxRecord is the maximum size of a manifest record in bytes. A larger length means that the file is damaged.
	maxRecord = 64 << 20
)

// ErrSealed is the error of a state file that was not written with the stage's key, or was changed since.
var ErrSealed = errors.New("the file was not written with this stage's state key, or was changed since")

func sealedErr(name string) error {
	return fmt.Errorf("%s: %w: if the key (keys/state.key, --state-key) is the right one, remove the state folder: "+
		"the state is then rebuilt from the ledger or, if the ledger was trimmed, "+
		"restored with lazaret state restore", name, ErrSealed)
}

type sealedKind byte

const (
	sealedNot sealedKind = iota
	sealedTable
	sealedManifest
	sealedLog   // a write-ahead log, which Pebble creates and leaves empty
	sealedOther // a file that no database of this program has
)

func sealedKindOf(name string) sealedKind {
	base := filepath.Base(name)
	switch {
	case strings.HasSuffix(base, ".sst"):
		return sealedTable
	case strings.HasPrefix(base, "MANIFEST-"):
		return sealedManifest
	case strings.HasSuffix(base, ".log"):
		return sealedLog
	case strings.HasPrefix(base, "OPTIONS-"), strings.HasPrefix(base, "marker."),
		strings.HasPrefix(base, "temporary."), base == "LOCK":
		return sealedNot
	}
	return sealedOther
}

func (s *sealedFS) Unwrap() vfs.FS { return s.FS }

// Create implements vfs.FS.
func (s *sealedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	kind := sealedKindOf(name)
	if kind == sealedOther {
		return nil, fmt.Errorf("%s: this is not a file of a stage's state", name)
	}
	f, err := s.FS.Create(name, c)
	if err != nil || kind == sealedNot || kind == sealedLog {
		return f, err
	}
	header := append(make([]byte, 0, sealedHeader), sealedMagic...)
	s.mu.Lock()
	if s.id == nil {
		s.id = make([]byte, sealedID)
		rand.Read(s.id)
	}
	header = append(header, s.id...)
	s.mu.Unlock()
	header = header[:sealedHeader]
	rand.Read(header[len(sealedMagic)+sealedID:])
	if _, err := f.Write(bytes.Clone(header)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &sealedWriter{File: f, aead: s.aead(header, name), kind: kind}, nil
}

// Open implements vfs.FS.
func (s *sealedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	kind := sealedKindOf(name)
	if kind == sealedOther {
		return nil, sealedErr(name)
	}
	f, err := s.FS.Open(name, opts...)
	if err != nil || kind == sealedNot {
		return f, err
	}
	if kind == sealedLog {
		return emptyFile{f}, nil // this file should be empty, so ignore bytes that another program wrote to it
	}
	header := make([]byte, sealedHeader)
	if n, err := f.ReadAt(header, 0); n < len(header) {
		if err == nil || err == io.EOF {
			err = sealedErr(name)
		}
		return nil, errors.Join(err, f.Close())
	}
	id := header[len(sealedMagic):][:sealedID]
	s.mu.Lock()
	if s.id == nil {
		s.id = bytes.Clone(id)
	}
	ours := bytes.HasPrefix(header, []byte(sealedMagic)) && bytes.Equal(s.id, id)
	s.mu.Unlock()
	if !ours {
		return nil, errors.Join(sealedErr(name), f.Close())
	}
	r := sealedReader{File: f, aead: s.aead(header, name), name: name}
	if kind == sealedManifest {
		return &manifestReader{sealedReader: r, at: int64(sealedHeader)}, nil
	}
	return &r, nil
}

// OpenReadWrite implements vfs.FS. It refuses sealed files, because Pebble never changes a file that it has written.
func (s *sealedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if sealedKindOf(name) != sealedNot {
		return nil, fmt.Errorf("%s: a sealed file cannot be changed", name)
	}
	return s.FS.OpenReadWrite(name, c, opts...)
}

// ReuseForWrite implements vfs.FS. It removes the old file and creates a new one.
func (s *sealedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.Remove(oldname); err != nil {
		return nil, err
	}
	return s.Create(newname, c)
}

// Stat implements vfs.FS. The size of a table is that of its plaintext.
func (s *sealedFS) Stat(name string) (vfs.FileInfo, error) {
	fi, err := s.FS.Stat(name)
	if err != nil || sealedKindOf(name) != sealedTable {
		return fi, err
	}
	return sealedInfo{fi}, nil
}

func (s *sealedFS) aead(header []byte, name string) cipher.AEAD {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte("lazaret state file\x00"))
	h.Write(header)
	h.Write([]byte(filepath.Base(name)))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // cannot happen: a hash has the length of a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func sealedNonce(n int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(n))
}

type emptyFile struct{ vfs.File }

func (emptyFile) Read([]byte) (int, error)          { return 0, io.EOF }
func (emptyFile) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

type sealedInfo struct{ vfs.FileInfo }

func (i sealedInfo) Size() int64 { return sealedSize(i.FileInfo.Size()) }

// sealedSize returns the plaintext size of a table whose file has the given size.
func sealedSize(file int64) int64 {
	body := max(0, file-int64(sealedHeader))
	return max(0, body-(body+sealedCipher-1)/sealedCipher*sealedTag)
}

// sealedWriter writes a table block by block, and a manifest record by record.
type sealedWriter struct {
	vfs.File
	aead cipher.AEAD
	kind sealedKind
	n    int64  // number of blocks or records written
	size int64  // size of the plaintext
	buf  []byte // for a table: plaintext of the incomplete block
	out  []byte // scratch space
	sync bool   // Close must sync the file
	err  error  // after an error nothing more is written
}

// Write implements vfs.File.
func (w *sealedWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n := len(p)
	w.size += int64(n)
	w.out = w.out[:0]
	if w.kind == sealedManifest {
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(n))
		w.seal(p)
		return n, w.put()
	}
	for len(w.buf)+len(p) >= sealedBlock {
		take := sealedBlock - len(w.buf)
		w.buf, p = append(w.buf, p[:take]...), p[take:]
		w.seal(w.buf)
		w.buf = w.buf[:0]
	}
	w.buf = append(w.buf, p...)
	return n, w.put()
}

func (w *sealedWriter) seal(p []byte) {
	w.out = w.aead.Seal(w.out, sealedNonce(w.n), p, nil)
	w.n++
}

func (w *sealedWriter) put() error {
	if len(w.out) > 0 && w.err == nil {
		_, w.err = w.File.Write(w.out)
	}
	return w.err
}

// Sync implements vfs.File. If there is an incomplete block, Sync does nothing, and Close syncs the file.
func (w *sealedWriter) Sync() error {
	if w.err != nil || len(w.buf) > 0 {
		w.sync = true
		return w.err
	}
	return w.File.Sync()
}

// SyncData implements vfs.File.
func (w *sealedWriter) SyncData() error { return w.Sync() }

// Preallocate implements vfs.File.
func (w *sealedWriter) Preallocate(int64, int64) error { return nil }

// Stat implements vfs.File.
func (w *sealedWriter) Stat() (vfs.FileInfo, error) {
	fi, err := w.File.Stat()
	return writtenInfo{fi, w.size}, err
}

type writtenInfo struct {
	vfs.FileInfo
	size int64
}

func (i writtenInfo) Size() int64 { return i.size }

// Close implements vfs.File. It first writes the last block.
func (w *sealedWriter) Close() error {
	if len(w.buf) > 0 {
		w.out = w.out[:0]
		w.seal(w.buf)
		w.buf = nil
		if err := w.put(); err == nil && w.sync {
			w.err = w.File.Sync()
		}
	}
	return errors.Join(w.err, w.File.Close())
}

// ReadSealed calls f with the name and plaintext of each table in a folder and its subfolders. The folder has states of
// stages, or snapshots of states, that were encrypted with key. Checks that a content was erased use ReadSealed. Files
// that are deleted while it runs are skipped.
func ReadSealed(dir string, key []byte, f func(file string, content []byte)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && sealedKindOf(path) != sealedTable {
			return nil
		}
		if err != nil {
			return err
		}
		in, err := (&sealedFS{FS: vfs.Default, key: key}).Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		content := make([]byte, info.Size())
		if _, err := in.ReadAt(content, 0); err != nil && err != io.EOF {
			return err
		}
		f(path, content)
		return nil
	})
}

// sealedReader reads a table. It is safe for concurrent use, except Read.
type sealedReader struct {
	vfs.File
	aead cipher.AEAD
	name string
}

var sealedBuffers = sync.Pool{New: func() any { return new([8 * sealedCipher]byte) }}

// Read implements vfs.File. It always fails, because Pebble reads tables with ReadAt.
func (r *sealedReader) Read([]byte) (int, error) {
	return 0, fmt.Errorf("%s: read a sealed table with ReadAt", r.name)
}

// ReadAt implements vfs.File.
func (r *sealedReader) ReadAt(p []byte, off int64) (int, error) {
	b := sealedBuffers.Get().(*[8 * sealedCipher]byte)
	defer sealedBuffers.Put(b)
	done := 0
	for done < len(p) {
		block, skip := (off+int64(done))/sealedBlock, int((off+int64(done))%sealedBlock)
		want := min(len(b), (skip+len(p)-done+sealedBlock-1)/sealedBlock*sealedCipher)
		n, err := r.File.ReadAt(b[:want], int64(sealedHeader)+block*sealedCipher)
		if err != nil && err != io.EOF {
			return done, err
		}
		for at := 0; at < n && done < len(p); at, block, skip = at+sealedCipher, block+1, 0 {
			c := b[at:min(n, at+sealedCipher)]
			plain, err := r.aead.Open(c[:0], sealedNonce(block), c, nil)
			if err != nil {
				return done, sealedErr(r.name)
			}
			done += copy(p[done:], plain[min(skip, len(plain)):])
		}
		if n < want && done < len(p) {
			return done, io.EOF
		}
	}
	return done, nil
}

// Stat implements vfs.File.
func (r *sealedReader) Stat() (vfs.FileInfo, error) {
	fi, err := r.File.Stat()
	if err != nil {
		return nil, err
	}
	return sealedInfo{fi}, nil
}

// manifestReader reads a manifest sequentially. A crash can leave an incomplete record. manifestReader treats the first
// one as the end of the file.
type manifestReader struct {
	sealedReader
	at   int64  // file offset of the next record
	n    int64  // number of the next record, which is its nonce
	rest []byte // rest of the plaintext of the last record, which Read has not returned yet
}

// Read implements vfs.File.
func (r *manifestReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *manifestReader) next() error {
	var head [4]byte
	if n, err := r.File.ReadAt(head[:], r.at); n < len(head) {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:])) + sealedTag
	if size > maxRecord {
		return io.EOF
	}
	c := make([]byte, size)
	if n, err := r.File.ReadAt(c, r.at+int64(len(head))); n < size {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	plain, err := r.aead.Open(c[:0], sealedNonce(r.n), c, nil)
	if err != nil && r.n > 0 {
		return io.EOF
	}
	if err != nil {
		return sealedErr(r.name)
	}
	r.rest, r.at, r.n = plain, r.at+int64(len(head)+size), r.n+1
	return nil
}

// ReadAt implements vfs.File. It always fails.
func (r *manifestReader) ReadAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("%s: read a sealed manifest with Read", r.name)
}
