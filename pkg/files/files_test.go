package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lazaret/pkg/files"
)

func TestAReplacedFileKeepsItsModeAndItsLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := files.Replace(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "new" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if i, err := os.Lstat(link); err != nil || i.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link became %v, %v", i.Mode(), err)
	}
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v, %v", i.Mode(), err)
	}
}

func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := files.Write(taken, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestTheNewFolderOfARenamedFileIsSynced(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "old", "file"), filepath.Join(dir, "new", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(from), 0o700), os.Mkdir(filepath.Dir(to), 0o700),
		os.WriteFile(from, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var synced []string
	failed := errors.New("failed")
	defer files.SetSync(func(d *os.File) error {
		if _, err := os.Stat(to); err == nil {
			synced = append(synced, d.Name())
		}
		return failed
	})()
	if err := files.Rename(from, to); !errors.Is(err, failed) {
		t.Errorf("the sync failed: %v", err)
	}
	if len(synced) != 1 || synced[0] != filepath.Dir(to) {
		t.Errorf("after the rename these were synced: %q", synced)
	}
	if err := files.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTheFolderOfAGlobIsNoPattern(t *testing.T) {
	for _, name := range []string{"[acme]", "a*", "?", "plain"} {
		dir := filepath.Join(t.TempDir(), name)
		want := filepath.Join(dir, "sub", "x.blk")
		if err := os.MkdirAll(filepath.Dir(want), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(want, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := files.Glob(dir, "*/*.blk"); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
	if got, err := files.Glob(filepath.Join(t.TempDir(), "missing"), "*"); err != nil || got != nil {
		t.Errorf("a missing folder: %q, %v", got, err)
	}
}

func TestAFileThatIsThereIsNotCreatedAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := files.Create(file, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Create(file, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "first" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", i.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestAFileIsCreatedWithoutHardLinks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	noLinks := errors.New("no links")
	defer files.SetLink(func(string, string) error { return noLinks })()
	if err := files.Create(file, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Create(file, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "first" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestAFailedCreationWithoutHardLinksLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	// The function in the place of os.Link removes the file. So the rename after it fails.
	defer files.SetLink(func(from, _ string) error { return errors.Join(errors.ErrUnsupported, os.Remove(from)) })()
	if err := files.Create(filepath.Join(dir, "file"), []byte("x"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rename fails: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
