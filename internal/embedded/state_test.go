package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"lazaret/internal/auditor"
	"lazaret/internal/backup"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/inquiry"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/retain"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// loosen changes every hold in the state of a stage to allow, as an attacker could who can write to its folder. It
// returns the number of values that it changed.
func loosen(dir string) (n int, err error) {
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v := bytes.ReplaceAll(it.Value(), []byte(`"verdict":"hold"`), []byte(`"verdict":"allow"`))
		if !bytes.Equal(v, it.Value()) {
			if err := db.Set(bytes.Clone(it.Key()), v, pebble.Sync); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, it.Error()
}

func TestPromiseA7AnEditOfTheArbitersStateReleasesNothing(t *testing.T) {
	data := t.TempDir()
	up := func() *embedded.Pipeline {
		p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	mail := func() *streams.Action {
		return &streams.Action{Head: streams.Head{ID: "mail-1", Session: "s"}, Tool: "send_email",
			Args: []byte(`{"to":"eve@evil.example"}`)}
	}
	p := up()
	rep, err := agent(t, p, data, "alpha").Decide(t.Context(), mail())
	if err != nil || rep.Verdict != streams.Hold {
		t.Fatalf("%+v, %v: want a hold to attack", rep, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := loosen(datafolder.StateDir(data, "arbiter"))
	t.Logf("the attacker changed %d values: %v", n, err)
	p = up()
	defer p.Close()
	again, err := agent(t, p, data, "alpha").Decide(t.Context(), mail())
	if err != nil || again.Verdict != streams.Hold || again.Entry.Proposal != rep.Entry.Proposal {
		t.Fatalf("asked again: %+v, %v: want the hold that stands in the ledger", again, err)
	}
}

// The folder with the state of the stages is lost. The ledger still has the activations, so the policy must be the same
// after the next start.
func TestPromiseA8LosingTheStateResetsNoPolicy(t *testing.T) {
	data := t.TempDir()
	up := func() *embedded.Pipeline {
		p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := up()
	signer, err := keys.LoadSigner(datafolder.OperatorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	locked := "tools:\n  - {name: locked, tools: [read_file], level: L5}\n"
	strict := []byte(strings.Replace(string(policy.Default), "tools:\n", locked, 1))
	op := operator(t, p)
	if err := embedded.Activate(t.Context(), op, signer, streams.DoActivatePolicy, strict); err != nil {
		t.Fatal(err)
	}
	if err := embedded.AwaitActive(t.Context(), op, "", streams.Digest(strict)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(data, "state")); err != nil {
		t.Fatal(err)
	}
	p = up()
	defer p.Close()
	if err := embedded.AwaitActive(t.Context(), operator(t, p), "", streams.Digest(strict)); err != nil {
		t.Fatalf("after the state was lost: %v", err)
	}
	rep, err := agent(t, p, data, "alpha").Decide(t.Context(), &streams.Action{Tool: "read_file"})
	if err != nil || rep.Verdict == streams.Allow || rep.Entry.Policy != streams.Digest(strict) {
		t.Errorf("%+v, %v: want the stricter policy's verdict", rep, err)
	}
}

// The ledger was trimmed after a policy was activated, and then the state is lost. So it is not known which policy is
// active, and the pipeline must refuse to start.
func TestPromiseA8ATrimmedLedgerWithoutStateRefusesToStart(t *testing.T) {
	data := t.TempDir()
	cfg := embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true}
	p, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := agent(t, p, data, "alpha").Decide(t.Context(), &streams.Action{Tool: "read_file"}); err != nil {
			t.Fatal(err)
		}
	}
	trimAll(t, p, data)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{datafolder.StateDir(data, streams.StageIngest), filepath.Join(data, "state")} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		p, err = embedded.Start(t.Context(), cfg)
		if err == nil {
			p.Close()
			t.Fatalf("without %s it started, with the shipped policy or with none", dir)
		}
		for _, want := range []string{streams.LedgerStream + " was trimmed", "lazaret state restore"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
	}
}

// After a trim, the ledger no longer has all entries. So a backup must contain the state that was made from the missing
// ones.
func TestABackupOfATrimmedLedgerHasTheStateThatIsNeeded(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	action := &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file"}
	want, err := agent(t, p, data, "alpha").Decide(t.Context(), action)
	if err != nil {
		t.Fatal(err)
	}
	c := trimAll(t, p, data)
	ans, err := auditor.Remote{Conn: operator(t, p)}.Ask(t.Context(), auditor.Request{Do: "snapshot"})
	if err != nil {
		t.Fatal(err)
	}
	// The backup must also contain the files of the memory tool.
	const note = "memories/demo/agent/shared/people/ana.md"
	if err := os.MkdirAll(filepath.Dir(filepath.Join(data, note)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, note), []byte("Ana likes tea."), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, _, err := c.Copy(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := backup.MoveFolder(ans.Dir, datafolder.AuditDir(dir)); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), dir, "", restored); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(restored, note)); err != nil || string(b) != "Ana likes tea." {
		t.Errorf("a file of the memory tool is restored as %q, %v", b, err)
	}
	q, err := embedded.Start(t.Context(), embedded.Config{Data: restored, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if info, err := os.Stat(filepath.Join(restored, note)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file of the memory tool is restored as %v, %v", info, err)
	}
	got, err := agent(t, q, restored, "alpha").Decide(t.Context(), action)
	if err != nil || got.Entry.Proposal != want.Entry.Proposal || got.Verdict != want.Verdict {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// The ledger was trimmed, and a stage has no snapshot of its state. A backup without this state could not be started,
// so making a backup must fail. The next start makes the snapshot.
func TestABackupThatLacksAStagesStateFails(t *testing.T) {
	data := t.TempDir()
	cfg := embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true}
	p, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := stage.SnapshotDir(datafolder.StateDir(data, streams.StageArbiter))
	if err := os.RemoveAll(snapshot); err != nil {
		t.Fatal(err)
	}
	copies := func(p *embedded.Pipeline) error {
		nc, err := p.Server.Connect(natsserver.RoleRetention)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		dir, _, err := (&retain.Config{Conn: nc}).Copy(t.Context(), false)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		op := operator(t, p)
		natstest.Eventually(t, time.Minute, "the auditor answers again", func() bool {
			_, err := auditor.Remote{Conn: op}.Ask(t.Context(), auditor.Request{Do: "snapshot"})
			return err == nil
		})
		return err
	}
	if err := copies(p); err != nil {
		t.Errorf("a ledger with all entries: %v", err)
	}
	trimAll(t, p, data)
	if err := copies(p); err != nil {
		t.Errorf("every stage has its snapshot: %v", err)
	}
	if err := os.RemoveAll(snapshot); err != nil {
		t.Fatal(err)
	}
	if err := copies(p); err == nil || !strings.Contains(err.Error(), "lacks the state of stage arbiter") ||
		!strings.Contains(err.Error(), "start lazaret up again") {
		t.Errorf("without the arbiter's snapshot: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(data, "backups")); err != nil || len(left) > 0 {
		t.Errorf("the failed backup left %v, %v", left, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if p, err = embedded.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := copies(p); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// trimAll trims the ledger as far as that is allowed.
func trimAll(t *testing.T, p *embedded.Pipeline, data string) *retain.Config {
	t.Helper()
	trust, err := datafolder.Trust(data)
	if err != nil {
		t.Fatal(err)
	}
	master, err := datafolder.ReadMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	op := operator(t, p)
	c := &retain.Config{Conn: nc, Trust: trust, Log: func(ctx context.Context, ask func(*inquiry.Log) error) error {
		ans, err := auditor.Remote{Conn: op}.Ask(ctx, auditor.Request{Do: "snapshot"})
		if err != nil {
			return err
		}
		l, err := inquiry.Open(ctx, ans.Dir, inquiry.Options{MasterKey: master, Verifiers: trust.Verifiers(keys.RoleAuditor)})
		if err != nil {
			return err
		}
		return errors.Join(ask(l), l.Close())
	}}
	natstest.Eventually(t, time.Minute, "the activations are trimmed", func() bool {
		done, err := c.Trim(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return done.UpTo > 0
	})
	return c
}
