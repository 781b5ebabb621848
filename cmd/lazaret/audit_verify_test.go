package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/pkg/chain"
)

func TestPromiseB15VerifyMakesNoKeyAndSaysWhatItDidNotCheck(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	x := install(t, "first", 5)
	x.pin(x.vkey)
	x.expect(3, "no checkpoint from outside")
	x.expect(0, "VERIFIED")
	key := filepath.Join(x.data, "keys", "audit-master.key")
	aside := filepath.Join(t.TempDir(), "key")
	if err := os.Rename(key, aside); err != nil {
		t.Fatal(err)
	}
	out := x.expect(3, "no key that decrypts them")
	if strings.Contains(out, "FAILED") {
		t.Error(out)
	}
	for _, asks := range [][]string{{"ls", "--data", x.data}, {"laundering", "--data", x.data},
		{"prove", "0", "--data", x.data}} {
		command(t, "", append([]string{"audit"}, asks...)...)
		if _, err := os.Stat(key); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("audit %s made a key: %v", asks[0], err)
		}
	}
	if err := os.Rename(aside, key); err != nil {
		t.Fatal(err)
	}
	x.expect(0, "VERIFIED")
}

func TestPromiseB15AnEmptiedLogIsSaidToBeEmptied(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, c := range []struct {
		name string
		do   func(store string) error
	}{
		{"the store is gone", os.RemoveAll},
		{"the store is empty", func(store string) error { return errors.Join(os.RemoveAll(store), os.Mkdir(store, 0o700)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := install(t, "first", 5)
			x.pin(x.vkey)
			if err := c.do(filepath.Join(x.audit, "store")); err != nil {
				t.Fatal(err)
			}
			out := x.expect(2, "FAILED")
			if strings.Contains(out, "another process") {
				t.Error(out)
			}
			// The auditor must not start a new log in place of the deleted one.
			l, err := chain.Open(x.audit, chain.Options{Signer: x.signer, MasterKey: x.master})
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, chain.ErrNoLog) || !strings.Contains(err.Error(), "emptied") {
				t.Errorf("an auditor opens the emptied log: %v", err)
			}
		})
	}
}

func TestPromiseB15GapsLeaveAVerificationIncomplete(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	x := install(t, "first", 5)
	x.pin(x.vkey)
	l, err := chain.Open(x.audit, chain.Options{Signer: x.signer, MasterKey: x.master})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]chain.Entry{{Seq: 9, Type: "observation", Project: "demo"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	x.expect(3, "1 gaps")
	x.expect(3, "1 gaps")
}
