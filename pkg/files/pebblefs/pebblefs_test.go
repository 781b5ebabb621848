package pebblefs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/files/pebblefs"
)

// loose returns the files and folders below dir to which other users have rights.
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
		db, err := pebble.Open(dir, &pebble.Options{FS: pebblefs.OwnerOnly(vfs.Default), Logger: quiet{}})
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

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
