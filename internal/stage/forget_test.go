package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// holding returns the files below dir that contain needle.
func holding(t *testing.T, fs vfs.FS, dir, needle string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		return nil
	}
	for _, n := range names {
		path := filepath.Join(dir, n)
		st, err := fs.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // Pebble removes obsolete files in the background
		}
		if err != nil {
			t.Fatal(err)
		}
		if st.IsDir() {
			out = append(out, holding(t, fs, path, needle)...)
			continue
		}
		f, err := fs.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(needle)) {
			out = append(out, path)
		}
	}
	return out
}

func TestWhatIsDroppedIsInNoFileOnceTheStateIsErased(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/state", 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openStore("/state/x", fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := &State{s: s, partition: 3}
	set := func(project, what string) {
		t.Helper()
		if err := st.Set(Key('b', project, what), []byte("of "+what)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		set("acme", fmt.Sprintf("secret-%d", i))
		set("acmetoo", fmt.Sprintf("kept-%d", i))
		if i%50 == 0 {
			if err := s.commit(); err != nil {
				t.Fatal(err)
			}
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.sync(); err != nil {
		t.Fatal(err)
	}
	if len(holding(t, fs, "/state", "secret-0")) == 0 {
		t.Fatal("before the erasure, the text is in no file: the test shows nothing")
	}
	if err := st.Set(Key('z', "number", "acme"), nil); err != nil {
		t.Fatal(err)
	}
	if err := st.Set(Key('b', "acme"), nil); err != nil {
		t.Fatal(err)
	}
	err = st.DropProject("acme", []byte{'z'}, func(k, _ []byte) (bool, error) { return bytes.HasSuffix(k, []byte("acme")), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.set(eraseKey, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.rewriteErased(); err == nil {
		t.Error("the state was erased although it has uncommitted changes")
	}
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if len(holding(t, fs, "/state", "secret-0")) == 0 {
		t.Error("deleting alone removes the text from the files: the test shows nothing")
	}
	// The process ends before it has erased the deleted data. The next process that opens the state must erase the data
	// first.
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore("/state/x", fs, nil); err != nil {
		t.Fatal(err)
	}
	if f := holding(t, fs, "/state", "secret-"); len(f) != 0 {
		t.Errorf("after the erasure, the text is still in %v", f)
	}
	st = &State{s: s, partition: 3}
	kept := 0
	if err := st.Scan(nil, func(k, v []byte) (bool, error) { kept++; return true, nil }); err != nil || kept != 300 {
		t.Errorf("%d keys are left, want 300: %v", kept, err)
	}
	if v, ok, err := st.Get(Key('b', "acmetoo", "kept-7")); !ok || err != nil || string(v) != "of kept-7" {
		t.Errorf("the value of another project is %q, %v, %v", v, ok, err)
	}
	set("acme", "new")
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}

	// A crash between the two renames.
	for _, c := range []struct{ has, want []string }{
		{[]string{"x.old", "x.new"}, []string{"x"}},
		{[]string{"x", "x.old"}, []string{"x"}},
		{[]string{"x", "x.new"}, []string{"x"}},
	} {
		fs := vfs.NewMem()
		for _, d := range c.has {
			if err := fs.MkdirAll("/state/"+d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := settleFolders("/state/x", fs); err != nil {
			t.Fatal(err)
		}
		if got, err := fs.List("/state"); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v becomes %v, want %v: %v", c.has, got, c.want, err)
		}
	}
}

// failingFS returns an error from the left-th call that renames or removes a folder. It calls each before every such
// call.
type failingFS struct {
	vfs.FS
	left int // calls until one fails
	each func()
}

var errPower = errors.New("the power fails")

func (f *failingFS) count() error {
	f.each()
	if f.left--; f.left == 0 {
		return errPower
	}
	return nil
}

func (f *failingFS) Rename(from, to string) error {
	if err := f.count(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *failingFS) RemoveAll(dir string) error {
	if err := f.count(); err != nil {
		return err
	}
	return f.FS.RemoveAll(dir)
}

// An erasure fails at each of its steps in turn. At every step there must be a snapshot. After a restart, neither state
// nor snapshot may contain dropped data.
func TestASnapshotIsThereAtEveryStepOfAnErasure(t *testing.T) {
	for failing := 1; ; failing++ {
		mem := vfs.NewCrashableMem()
		if err := errors.Join(mem.MkdirAll("/state", 0o700), syncDir(mem, "/")); err != nil {
			t.Fatal(err)
		}
		there := func(when string) {
			t.Helper()
			snapshot := SnapshotDir("/state/x")
			_, err := mem.Stat(snapshot)
			_, old := mem.Stat(snapshot + oldSuffix)
			if err != nil && old != nil {
				t.Fatalf("interrupted at step %d, %s: there is no snapshot", failing, when)
			}
		}
		fs := &failingFS{FS: mem, each: func() {}}
		s, err := openStore("/state/x", fs, nil)
		if err != nil {
			t.Fatal(err)
		}
		secret, kept := Key('b', "acme", "secret"), Key('b', "other", "kept")
		if err := errors.Join(s.set(secret, []byte("secret-0")), s.set(kept, []byte("v")), s.commit(), s.sync(),
			s.snapshot()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.delete(secret), s.set(eraseKey, nil), s.commit(), s.sync()); err != nil {
			t.Fatal(err)
		}
		fs.left, fs.each = failing, func() { there("before a step") }
		interrupted := s.rewriteErased()
		if interrupted != nil && !errors.Is(interrupted, errPower) {
			t.Fatal(interrupted)
		}
		there("after the erasure")
		fs.each = func() {}
		mem = mem.CrashClone(vfs.CrashCloneCfg{})
		if s, err = openStore("/state/x", mem, nil); err != nil {
			t.Fatalf("interrupted at step %d: %v", failing, err)
		}
		if v, ok, err := s.get(kept); err != nil || !ok || string(v) != "v" {
			t.Errorf("interrupted at step %d: %q, %v, %v", failing, v, ok, err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if f := holding(t, mem, "/state", "secret-0"); len(f) > 0 {
			t.Errorf("interrupted at step %d: a dropped text is still in %v", failing, f)
		}
		if _, err := mem.Stat(SnapshotDir("/state/x")); err != nil {
			t.Errorf("interrupted at step %d: %v", failing, err)
		}
		if interrupted == nil {
			if failing < 8 {
				t.Errorf("the erasure has %d steps, and only those were interrupted", failing-1)
			}
			return
		}
	}
}

func TestAKeyBelongsToItsProjectAndNoOther(t *testing.T) {
	for _, c := range []struct {
		key  []byte
		want bool
	}{
		{Key('b', "acme", "x"), true}, {Key('t', "acme"), true}, {Key('b', "acme", ""), true},
		{Key('b', "acme2", "x"), false}, {Key('b', "acm", "e"), false}, {Key('b', "x", "acme"), false},
		{[]byte{'a'}, false}, {nil, false},
		{append([]byte{0xA0}, "acme"...), false},
	} {
		if got := OfProject(c.key, "acme"); got != c.want {
			t.Errorf("%q: %v, want %v", c.key, got, c.want)
		}
	}
}
