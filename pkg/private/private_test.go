package private_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/private"
)

// loose lists the files to which other users have rights.
func loose(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			out = append(out, path+" "+fi.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPromiseA12ADatabasesFilesAreItsOwnersAloneWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "db")
	for range 2 { // the second opens the files of the first, and reuses its log
		db, err := pebble.Open(dir, &pebble.Options{FS: private.FS(vfs.Default), Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := db.Set([]byte{byte(i)}, []byte("secret"), pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Checkpoint(dir + ".copy"); err != nil {
			t.Fatal(err)
		}
		if got := append(loose(t, dir), loose(t, dir+".copy")...); got != nil {
			t.Error(got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir + ".copy"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTightenTakesOthersRightsAndFollowsNoLinks(t *testing.T) {
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
	if err := private.Tighten(dir, filepath.Join(root, "nothing")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(script): 0o700, script: 0o700,
		outside: 0o777} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, fi.Mode(), err, want)
		}
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
