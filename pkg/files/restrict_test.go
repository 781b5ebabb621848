package files_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lazaret/pkg/files"
)

func TestRestrictAllTakesOthersRightsAndFollowsNoLinks(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	root := t.TempDir()
	outside := filepath.Join(root, "outside")
	dir := filepath.Join(root, "data")
	script := filepath.Join(dir, "sub", "run")
	for _, d := range []string{outside, filepath.Dir(script)} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(script, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := files.RestrictAll(dir, filepath.Join(root, "nothing")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(script): 0o700, script: 0o700,
		outside: 0o777} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, fi.Mode(), err, want)
		}
	}
}
