package stage

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// fill writes n values, so many that the store has several tables, and closes the store.
func fill(t *testing.T, fs vfs.FS, dir string, key []byte, n int) {
	t.Helper()
	s, err := openStore(dir, fs, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		v := fmt.Sprintf(`{"hold":"h%d","verdict":"hold","filler":%q}`, i, strings.Repeat("x", i%700))
		if err := s.set([]byte(fmt.Sprintf("v%05d", i)), []byte(v)); err != nil {
			t.Fatal(err)
		}
		if i%(n/4) == 0 {
			if err := s.commit(); err != nil {
				t.Fatal(err)
			}
			if err := s.sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// values opens a store and returns its values. It returns an error if opening or reading fails.
func values(fs vfs.FS, dir string, key []byte) (map[string]string, error) {
	s, err := openStore(dir, fs, key)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	err = s.scan([]byte("v"), func(k, v []byte) (bool, error) {
		out[string(k)] = string(v)
		return true, nil
	})
	if e := s.close(); err == nil {
		err = e
	}
	return out, err
}

func contents(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for _, n := range names {
		f, err := fs.Open(fs.PathJoin(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		out[n] = b
		f.Close()
	}
	return out
}

func folder(t *testing.T, files map[string][]byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("state", 0o700); err != nil {
		t.Fatal(err)
	}
	for n, b := range files {
		f, err := fs.Create(fs.PathJoin("state", n), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Clone(b)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return fs
}

// An attacker can write to the folder of a state. Bits of its files are flipped, and files are truncated, exchanged,
// removed and inserted. After each change, the state must either be refused, or have unchanged values: all that were
// written up to some moment.
func TestPromiseA7NoEditOfAStateFolderChangesAValue(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	const n = 4000
	fs, other := vfs.NewMem(), vfs.NewMem()
	fill(t, fs, "state", key, n)
	fill(t, other, "state", key, n/2)
	good, foreign := contents(t, fs, "state"), contents(t, other, "state")
	want, err := values(folder(t, good), "state", key)
	if err != nil || len(want) != n {
		t.Fatalf("%d values, %v", len(want), err)
	}
	tables := 0
	for name, b := range good {
		if strings.HasSuffix(name, ".sst") {
			tables++
		}
		if bytes.Contains(b, []byte(`"verdict"`)) {
			t.Errorf("%s can be read without the key", name)
		}
	}
	if tables < 2 {
		t.Fatalf("%d tables, want several", tables)
	}
	refused, earlier := 0, 0
	check := func(what string, files map[string][]byte) {
		t.Helper()
		got, err := values(folder(t, files), "state", key)
		if err != nil {
			refused++
			return
		}
		if len(got) < n {
			earlier++
		}
		for i := range len(got) {
			k := fmt.Sprintf("v%05d", i)
			if v, ok := got[k]; !ok || v != want[k] {
				t.Fatalf("%s: %d values, and %s is %q, want %q", what, len(got), k, v, want[k])
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, b := range good {
		if len(b) == 0 {
			continue
		}
		for range 12 {
			at := r.IntN(len(b))
			bad := bytes.Clone(b)
			bad[at] ^= byte(1 + r.IntN(255))
			files := maps.Clone(good)
			files[name] = bad
			check(fmt.Sprintf("%s flipped at %d", name, at), files)
			files[name] = b[:at]
			check(fmt.Sprintf("%s cut at %d", name, at), files)
		}
		for from, x := range good {
			files := maps.Clone(good)
			files[name] = x
			check(name+" replaced by "+from, files)
		}
		if x := foreign[name]; x != nil {
			files := maps.Clone(good)
			files[name] = x
			check(name+" taken from another state", files)
		}
		files := maps.Clone(good)
		delete(files, name)
		check(name+" removed", files)
	}
	if refused == 0 || earlier == 0 {
		t.Errorf("%d refused, %d earlier: the attacks did nothing", refused, earlier)
	}
	// Pebble would apply the changes in an inserted write-ahead log to the tables.
	files := maps.Clone(good)
	for k, v := range planted(t) {
		files[k] = v
	}
	check("a planted log", files)
	_, err = values(folder(t, good), "state", bytes.Repeat([]byte{8}, 32))
	if err == nil || !strings.Contains(err.Error(), "state key") {
		t.Errorf("with another key: %v", err)
	}
	// An unencrypted state is not accepted.
	plain := vfs.NewMem()
	fill(t, plain, "state", nil, n)
	if _, err := values(plain, "state", key); err == nil || !strings.Contains(err.Error(), "state key") {
		t.Errorf("a state in plaintext: %v", err)
	}
}

// planted returns a write-ahead log that sets values to a verdict of allow. Its file number is higher than that of any
// other file.
func planted(t *testing.T) map[string][]byte {
	t.Helper()
	fs := vfs.NewMem()
	db, err := pebble.Open("state", &pebble.Options{FS: fs, FormatMajorVersion: format})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := db.Set(fmt.Appendf(nil, "v%05d", i), []byte(`{"verdict":"allow"}`), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	out := make(map[string][]byte)
	for name, b := range contents(t, fs, "state") {
		if strings.HasSuffix(name, ".log") {
			out["999999.log"] = b
		}
	}
	if len(out) == 0 {
		t.Fatal("Pebble made no write-ahead log to insert")
	}
	return out
}

// A sealed table must be read back exactly as it was written, in pieces of any size.
func TestSealedTablesAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const block = sealedBlock
	for _, size := range []int{0, 1, block - 1, block, block + 1, 3*block + 17, 20*block - 1} {
		raw := vfs.NewMem()
		fs := &sealedFS{FS: raw, key: []byte("k")}
		f, err := fs.Create("1.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(2*sealedBlock))
			if _, err := f.Write(bytes.Clone(rest[:n])); err != nil {
				t.Fatal(err)
			}
			if rest = rest[n:]; r.IntN(3) == 0 {
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if fi, err := fs.Stat("1.sst"); err != nil || fi.Size() != int64(size) {
			t.Errorf("%d bytes have size %v, %v", size, fi.Size(), err)
		}
		g, err := fs.Open("1.sst")
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			off := r.IntN(size + 10)
			p := make([]byte, 1+r.IntN(size+10))
			n, err := g.ReadAt(p, int64(off))
			exp := want[min(off, size):min(off+len(p), size)]
			if !bytes.Equal(p[:n], exp) || (n < len(p)) != (err == io.EOF) {
				t.Fatalf("size %d: read %d at %d: %d bytes, %v", size, len(p), off, n, err)
			}
		}
		g.Close()
	}
}
