package backup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// packed returns an archive of a folder with one file.
func packed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	if err := os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jetstream", "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	if err := PackFolder(dir, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAnArchiveThatIsCutBetweenTwoFilesIsNotRestored(t *testing.T) {
	file := packed(t)
	if err := unpack(file, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int64{512, 1024, 2048, fi.Size()} {
		if err := os.Truncate(file, fi.Size()-cut); err != nil {
			t.Fatal(err)
		}
		if err := unpack(file, t.TempDir()); err == nil {
			t.Errorf("an archive without its last %d bytes is taken for whole", cut)
		}
	}
}

func TestAnArchiveIsNotWrittenThroughALinkThatIsThereAlready(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar")
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, file+".part"); err != nil {
		t.Fatal(err)
	}
	if err := PackFolder(t.TempDir(), file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "mine" {
		t.Errorf("the other file has %d bytes, %v", len(b), err)
	}
	if fi, err := os.Lstat(file); err != nil || fi.Mode() != 0o600 {
		t.Errorf("the archive is %v, %v", fi, err)
	}
}

func TestAFailedRestoreLeavesNothingAndACopyIsPrivateFromItsBeginning(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(t.Context(), packed(t), "", data); err == nil {
		t.Fatal("a backup without keys is restored")
	}
	if left, err := os.ReadDir(filepath.Dir(data)); err != nil || len(left) > 0 {
		t.Errorf("a failed restore leaves %v: %v", left, err)
	}
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	if err := os.Chmod(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(to); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the copy is %v, %v", fi, err)
	}
}

// If a folder cannot be copied completely to another disk, neither the target nor its .part exists afterwards.
func TestAFolderWhoseCopyFailsHasNoName(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	if err := os.WriteFile(filepath.Join(from, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(from, "b")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil { // os.CopyFS refuses it
		t.Fatal(err)
	}
	if err := moveByCopy(from, to); err == nil {
		t.Fatal("a fifo was copied")
	}
	for _, name := range []string{to, to + ".part"} {
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(fifo); err != nil {
		t.Fatal(err)
	}
	if err := moveByCopy(from, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "a")); string(b) != "a" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Lstat(from); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", from, err)
	}
}

func TestARestoreRemovesNoOtherFolder(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	other := filepath.Join(data+".restored", "keys", "auditor.key")
	if err := os.MkdirAll(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), packed(t), "", data); err == nil {
		t.Fatal("a backup without keys is restored")
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "mine" {
		t.Errorf("%s is lost: %q, %v", other, b, err)
	}
}
