package audit

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// contents returns the content of the files of a data folder, except the log.
func contents(t *testing.T, data string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if path == datafolder.AuditDir(data) {
				return fs.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// restoreFiles replaces the files of a data folder, except the log, by want, which contents returned.
func restoreFiles(t *testing.T, data string, want map[string]string) {
	t.Helper()
	for path := range contents(t, data) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range want {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// logIsSound checks that the log has this number of handovers, and that verifiers accept them.
func logIsSound(t *testing.T, data string, master []byte, handovers int64) {
	t.Helper()
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := chain.VerifyDir(t.Context(), datafolder.AuditDir(data), chain.Options{MasterKey: master},
		chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor)})
	if err != nil || rep.FirstBad >= 0 || rep.Handovers != handovers {
		t.Errorf("%d handovers, want %d, %v: %+v", rep.Handovers, handovers, err, rep)
	}
}

func generated(t *testing.T, name string) (private, public string) {
	t.Helper()
	private, public, err := keys.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func TestPromiseARotationRefusesKeysThatCannotTakePartInAHandover(t *testing.T) {
	data, first, master := rotatable(t)
	proofAfter(t, data, first, master, 1)
	file, trustFile := datafolder.AuditorKey(data), datafolder.TrustFile(data)
	next := file + ".next"
	retired, err := keys.LoadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	public, err := rotate(data, "", "", trustFile)
	if err != nil {
		t.Fatal(err)
	}
	current, err := keys.LoadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := generated(t, "log")
	named, _ := generated(t, "another-log")
	operator, operatorKey := generated(t, "log")
	elsewhere, elsewhereKey := generated(t, "log")
	trust, err := keys.LoadTrust(trustFile)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(9)
	if err := errors.Join(trust.Add(keys.Pin{Key: operatorKey, Roles: []keys.Role{keys.RoleOperator}}),
		trust.Add(keys.Pin{Key: elsewhereKey, Roles: []keys.Role{keys.RoleAuditor}, ReplacedAt: &size}),
		trust.Write(trustFile)); err != nil {
		t.Fatal(err)
	}
	without := new(keys.Trust) // like a trust file to which nobody has copied replaced_at
	for _, p := range trust.Pins() {
		p.ReplacedAt = nil
		if err := without.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	unrecorded, err := without.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	good := contents(t, data)
	for _, c := range []struct {
		name, key, next, trust string
		want                   []string
	}{
		{"a retired key as the next one", current, retired, "", []string{next, "was replaced when the log had 1 leaves"}},
		{"a retired key as the next one, which only the log knows", current, retired, string(unrecorded),
			[]string{next, "was replaced when the log had 1 leaves"}},
		{"a key that was replaced in another log as the next one", current, elsewhere, "",
			[]string{next, "was replaced when the log had 9 leaves"}},
		{"a retired key", retired, "", "", []string{file, "put the private key of " + public, "run the command again"}},
		{"a retired key, which only the log knows", retired, "", string(unrecorded),
			[]string{file, "put the private key of " + public}},
		{"a retired key and a next one that is not the key in force", retired, other, "",
			[]string{file, "put the private key of " + public}},
		{"a next key with another name", current, named, "",
			[]string{next, `but the log's key has the name "log"`, `lazaret key gen "log"`}},
		{"an operator's key as the next one", current, operator, "", []string{next, "[operator] and not for auditor"}},
		{"the same key as the next one", current, current, "", nil}, // the handover to it is stored
		{"an operator's key", operator, "", "", []string{file, "put the private key of " + public}},
	} {
		restoreFiles(t, data, good)
		put := map[string]string{file: c.key, next: c.next, trustFile: c.trust}
		for path, text := range put {
			if text == "" {
				continue
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, data)
		_, err := rotate(data, "", "", trustFile)
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is accepted", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", c.name, err, w)
			}
		}
		if !maps.Equal(contents(t, data), before) {
			t.Errorf("%s: files were changed", c.name)
		}
	}
	restoreFiles(t, data, good)
	logIsSound(t, data, master, 1)
}

// The log was never handed over, but its key was already replaced in another auditor's log, is not pinned, or is the
// same as the next key. rotate must refuse each of these, and change no file.
func TestARotationRefusesAnOldKeyWhoseHandoverNobodyWouldAccept(t *testing.T) {
	data, first, master := rotatable(t)
	proofAfter(t, data, first, master, 1)
	proofAfter(t, data, first, master, 2)
	file, trustFile := datafolder.AuditorKey(data), datafolder.TrustFile(data)
	trust, err := keys.LoadTrust(trustFile)
	if err != nil {
		t.Fatal(err)
	}
	id := chain.KeyID(first.Name(), first.KeyHash())
	next, _ := generated(t, first.Name())
	refused := func(what, want string) {
		t.Helper()
		before := contents(t, data)
		if _, err := rotate(data, "", "", trustFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if !maps.Equal(contents(t, data), before) {
			t.Errorf("%s: files were changed", what)
		}
	}
	trust.Replaced(id, 1)
	if err := trust.Write(trustFile); err != nil {
		t.Fatal(err)
	}
	refused("replaced elsewhere", "was replaced when the log had 1 leaves, so it cannot hand over the log, which has 2")
	if err := keys.WritePrivate(file+".next", next); err != nil {
		t.Fatal(err)
	}
	refused("replaced elsewhere at a smaller size", "cannot hand over the log, which has 2")
	if err := os.WriteFile(trustFile, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("not pinned", "is not pinned in "+trustFile+" with the role auditor")
	private, err := keys.LoadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	pinned := new(keys.Trust)
	public, err := keys.Public(private)
	if err := errors.Join(err, pinned.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}),
		pinned.Write(trustFile), os.WriteFile(file+".next", []byte(private), 0o600)); err != nil {
		t.Fatal(err)
	}
	refused("the same key", "but it is the key in "+file)
	logIsSound(t, data, master, 0)
}

func TestAnInterruptedRotationIsFinishedByTheSameCommand(t *testing.T) {
	for name, before := range map[string]bool{"by the command": false, "before": true} {
		data, first, master := rotatable(t)
		proofAfter(t, data, first, master, 1)
		file, trustFile := datafolder.AuditorKey(data), datafolder.TrustFile(data)
		next, public := generated(t, first.Name())
		if before {
			if err := keys.WritePrivate(file+".next", next); err != nil {
				t.Fatal(err)
			}
		}
		begun := contents(t, data)
		got, err := rotate(data, "", "", trustFile)
		if err != nil || before && got != public {
			t.Fatalf("%s: %s, %v", name, got, err)
		}
		public, done := got, contents(t, data)
		// The files of the data folder after an interruption that follows the handover, and the files of a pod, which
		// gets its old ones again at each start. In each of these states rotate must finish the same handover.
		with := maps.Clone(begun)
		with[file+".next"] = done[file]
		pinned := maps.Clone(with)
		trust, err := keys.ParseTrust(trustFile, []byte(begun[trustFile]))
		if err != nil {
			t.Fatal(err)
		}
		if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
			t.Fatal(err)
		}
		text, err := trust.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		pinned[trustFile] = string(text)
		recorded := maps.Clone(with)
		recorded[trustFile] = done[trustFile]
		aside := maps.Clone(done)
		aside[file], aside[file+".next"] = begun[file], done[file]
		brought := maps.Clone(done) // the operator has put the new key in the place of the old one, and .next is still there
		brought[file+".next"] = done[file]
		for state, have := range map[string]map[string]string{"the next key is made": with, "it is pinned": pinned,
			"replaced_at is recorded": recorded, "the old key is kept": aside, "all is brought": brought} {
			restoreFiles(t, data, have)
			if got, err := rotate(data, "", "", trustFile); err != nil || got != public {
				t.Errorf("made %s, %s: handed over to %s, want %s: %v", name, state, got, public, err)
			}
			if now := contents(t, data); now[file] != done[file] || now[file+".next"] != "" {
				t.Errorf("made %s, %s: the key is not the new one", name, state)
			}
			logIsSound(t, data, master, 1)
		}
	}
}

// A rotation that was interrupted before the handover has made the next key, and perhaps pinned it. When rotate runs
// again, it must hand the log over to that key.
func TestARotationThatWasInterruptedBeforeTheHandoverUsesTheKeyThatItMade(t *testing.T) {
	for _, pinnedAlready := range []bool{false, true} {
		data, first, master := rotatable(t)
		proofAfter(t, data, first, master, 1)
		file, trustFile := datafolder.AuditorKey(data), datafolder.TrustFile(data)
		next, public := generated(t, first.Name())
		trust, err := keys.LoadTrust(trustFile)
		if err == nil && pinnedAlready {
			err = errors.Join(trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}), trust.Write(trustFile))
		}
		if err := errors.Join(err, keys.WritePrivate(file+".next", next)); err != nil {
			t.Fatal(err)
		}
		if got, err := rotate(data, "", "", trustFile); err != nil || got != public {
			t.Errorf("handed over to %s, want %s: %v", got, public, err)
		}
		logIsSound(t, data, master, 1)
	}
}

// After some rotations, the log is restored from a backup from before the last one, with the keys and perhaps the trust
// file from after it. rotate must hand the restored log over again.
func TestARestoredLogThatLostItsHandoverIsHandedOverAgain(t *testing.T) {
	for _, earlier := range []int64{0, 1, 2} {
		for _, latest := range []bool{false, true} {
			data, first, master := rotatable(t)
			proofAfter(t, data, first, master, 1)
			file, trustFile, dir := datafolder.AuditorKey(data), datafolder.TrustFile(data), datafolder.AuditDir(data)
			for range earlier {
				if _, err := rotate(data, "", "", trustFile); err != nil {
					t.Fatal(err)
				}
			}
			last, err := readKey(file)
			if err != nil {
				t.Fatal(err)
			}
			backup := filepath.Join(t.TempDir(), "audit")
			before := contents(t, data)[trustFile]
			if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			proofAfter(t, data, last.signer, master, 2)
			public, err := rotate(data, "", "", trustFile)
			if err := errors.Join(err, os.RemoveAll(dir), os.Rename(backup, dir)); err != nil {
				t.Fatal(err)
			}
			if !latest {
				err = os.WriteFile(trustFile, []byte(before), 0o600)
			}
			aside := file + "." + strings.TrimPrefix(chain.KeyID("", last.signer.KeyHash()), "+")
			if err := errors.Join(err, os.Rename(file, file+".next"), os.Rename(aside, file)); err != nil {
				t.Fatal(err)
			}
			if got, err := rotate(data, "", "", trustFile); err != nil || got != public {
				t.Errorf("after %d earlier rotations, handed over to %s, want %s: %v", earlier, got, public, err)
			}
			logIsSound(t, data, master, earlier+1)
		}
	}
}

// rotate moves the old key to a file with the key's id in its name. If this file exists and has another key, rotate
// must fail and leave the old key in its place.
func TestARotationDoesNotLoseTheOldKeyIfItsKeptFileHasAnother(t *testing.T) {
	data, first, master := rotatable(t)
	proofAfter(t, data, first, master, 1)
	file := datafolder.AuditorKey(data)
	old, err := keys.LoadPrivate(file)
	other, _ := generated(t, "log")
	aside := file + "." + strings.TrimPrefix(chain.KeyID("", first.KeyHash()), "+")
	if err := errors.Join(err, keys.WritePrivate(aside, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(data, "", "", datafolder.TrustFile(data)); err == nil || !strings.Contains(err.Error(), aside) {
		t.Errorf("the kept file has another key: %v", err)
	}
	if now, err := keys.LoadPrivate(file); err != nil || now != old {
		t.Errorf("the old key is lost: %v", err)
	}
	if err := os.Remove(aside); err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(data, "", "", datafolder.TrustFile(data)); err != nil {
		t.Error(err)
	}
	if kept, err := keys.LoadPrivate(aside); err != nil || kept != old {
		t.Errorf("the old key is not kept: %v", err)
	}
	logIsSound(t, data, master, 1)
}

// Another command has read the trust file in order to change it, and has not written it yet. rotate must wait for it,
// so that neither change is lost.
func TestARotationWaitsForAnotherChangeOfTheTrustFile(t *testing.T) {
	data, first, master := rotatable(t)
	proofAfter(t, data, first, master, 1)
	trustFile := datafolder.TrustFile(data)
	rotated := make(chan error, 1)
	err := datafolder.WithTrustFile(trustFile, func() error {
		read, err := keys.LoadTrust(trustFile)
		if err != nil {
			return err
		}
		go func() {
			a := &verb.App{}
			a.Conn.Data = data
			c := rotateCommand(a)
			c.SetArgs(nil)
			c.SetOut(io.Discard)
			c.SetErr(io.Discard)
			rotated <- c.ExecuteContext(t.Context())
		}()
		select {
		case err := <-rotated:
			rotated <- err
		case <-time.After(500 * time.Millisecond): // it waits
		}
		return read.Write(trustFile)
	})
	if err := errors.Join(err, <-rotated); err != nil {
		t.Fatal(err)
	}
	logIsSound(t, data, master, 1)
	key, err := readKey(datafolder.AuditorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := keys.LoadTrust(trustFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := trust.Find(key.signer.Name(), key.signer.KeyHash()); !ok {
		t.Errorf("the pin of the new key %s is lost", key)
	}
}
