package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/auditor"
	"lazaret/internal/datafolder"
	"lazaret/internal/fuzztest"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// A second auditor does not know the operator's key. So it only records the order for an erasure, and does not remove
// its payloads. The record of the erasure and the exit codes of the command must say so.
func TestAnAuditorThatRefusedAnErasureIsListedAsLeft(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--no-sync")
	second, stranger := fuzztest.NewPair(t, "second"), fuzztest.NewPair(t, "stranger")
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(trust.Add(keys.Pin{Key: second.Public, Roles: []keys.Role{keys.RoleAuditor}}),
		os.Remove(datafolder.TrustFile(data)), trust.Write(datafolder.TrustFile(data))); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	cfg := auditor.Config{Conn: connect(t, data, "auditor"), Dir: filepath.Join(t.TempDir(), "audit"),
		Signer: second.Signer, MasterKey: bytes.Repeat([]byte{1}, 32), Operators: note.VerifierList(stranger.Verifier)}
	go func() { done <- auditor.Run(ctx, cfg, nil) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		up.interrupt()
	}()

	must(t, data, "remember", "--project", "demo", "--origin", "user", "--data-subject", "p-17", "Her dog is a quokka")
	must(t, data, "remember", "--project", "demo", "--origin", "user", "--data-subject", "p-18", "His dog is a wombat")
	id := chain.KeyID(second.Signer.Name(), second.Signer.KeyHash())
	for _, args := range [][]string{{"forget", "--subject", "demo/p-17", "--reason", "r"},
		{"forget", "--subject", "demo/p-17", "--reason", "r"}, // completes the first, whose statement was refused
		{"forget", "--subject", "demo", "--reason", "r"},
		{"trim", "--older", "0s"}, {"expire", "--older", "0s"}} {
		out, code := command(t, data, append([]string{"audit"}, args...)...)
		if args[0] == "trim" {
			if code != 0 {
				t.Fatalf("trim: exit %d, %s", code, out)
			}
			continue
		}
		line := ""
		for l := range strings.Lines(out) {
			if strings.Contains(l, id) || strings.Contains(line, id) && strings.Contains(l, "NOT ERASED") {
				line += l
			}
		}
		if code != 3 || !strings.Contains(line, "NOT ERASED") || !strings.Contains(line, "refused") {
			t.Errorf("%v: exit %d, %s", args, code, out)
		}
		if args[0] == "forget" {
			if r, err := filepath.Glob(filepath.Join(data, "forgotten", "*.note")); err != nil || len(r) == 0 {
				t.Errorf("no record: %v", err)
			} else if b, err := os.ReadFile(r[len(r)-1]); err != nil ||
				!bytes.Contains(b, []byte("left: the auditor refused the statement")) {
				t.Errorf("%v: the record says %s, %v", args, b, err)
			}
		}
	}
}
