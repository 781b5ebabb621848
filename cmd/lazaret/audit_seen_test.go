package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// installation is a data folder that has only a log and its keys.
type installation struct {
	t             *testing.T
	data, audit   string
	private, vkey string
	master        []byte
	text          string // content of each payload
	signer        note.Signer
}

// install creates a log of n entries with the given text.
func install(t *testing.T, text string, n int) *installation {
	t.Helper()
	x := &installation{t: t, data: t.TempDir(), text: text}
	x.audit = datafolder.AuditDir(x.data)
	var err error
	if x.private, x.vkey, err = keys.Generate("lazaret-ledger"); err != nil {
		t.Fatal(err)
	}
	if x.signer, err = note.NewSigner(x.private); err != nil {
		t.Fatal(err)
	}
	if x.master, err = datafolder.MasterKey(x.data); err != nil {
		t.Fatal(err)
	}
	if err := keys.WritePrivate(datafolder.AuditorKey(x.data), x.private); err != nil {
		t.Fatal(err)
	}
	x.grow(n)
	return x
}

// grow extends the log to n entries.
func (x *installation) grow(n int) {
	x.t.Helper()
	l, err := chain.Open(x.audit, chain.Options{Signer: x.signer, MasterKey: x.master})
	if err != nil {
		x.t.Fatal(err)
	}
	defer l.Close()
	for seq := l.Head().LastSeq + 1; seq <= uint64(n); seq++ {
		e := chain.Entry{Seq: seq, Time: time.Unix(int64(seq), 0), Type: "observation", Project: "demo",
			Payload: fmt.Append(nil, x.text, seq)}
		if err := l.Append([]chain.Entry{e}); err != nil {
			x.t.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(); err != nil {
		x.t.Fatal(err)
	}
}

// rewrite replaces the log by one with other entries and the same key.
func (x *installation) rewrite(text string, n int) {
	x.t.Helper()
	if err := os.RemoveAll(x.audit); err != nil {
		x.t.Fatal(err)
	}
	x.text = text
	x.grow(n)
}

// pin makes x's data folder trust only these keys.
func (x *installation) pin(vkeys ...string) {
	x.t.Helper()
	var b strings.Builder
	for _, k := range vkeys {
		fmt.Fprintf(&b, "- key: %s\n  roles: [auditor]\n", k)
	}
	if err := os.WriteFile(datafolder.TrustFile(x.data), []byte(b.String()), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x *installation) expect(code int, says string, more ...string) string {
	x.t.Helper()
	out, got := command(x.t, "", append([]string{"audit", "verify", "--offline", "--data", x.data}, more...)...)
	if got != code || !strings.Contains(out, says) {
		x.t.Fatalf("audit verify ended with %d, want %d and %q:\n%s", got, code, says, out)
	}
	return out
}

// copyOf copies a folder.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// put replaces dir by a copy of from.
func put(t *testing.T, dir, from string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAMachineSawOfALogIsHeldAgainstThatLog verifies two logs, each pinned in both data folders. The machine then
// has checkpoints of both. An older copy of one log, the other log, or a forged log that is signed with a pinned key
// must then fail, in the place of the log and elsewhere.
func TestWhatAMachineSawOfALogIsHeldAgainstThatLog(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, b := install(t, "first", 5), install(t, "second", 3)
	a.pin(a.vkey, b.vkey)
	b.pin(a.vkey, b.vkey)
	for _, code := range []int{cli.ExitIncomplete, cli.ExitOK} { // the second run has the checkpoint of the first
		a.expect(code, "payloads match")
		b.expect(code, "payloads match")
	}
	old := copyOf(t, a.audit)
	a.grow(8)
	a.expect(cli.ExitOK, "it extends the 5 leaves")
	b.grow(12)
	b.expect(cli.ExitOK, "it extends the 3 leaves")
	now := copyOf(t, a.audit)

	for _, x := range []struct {
		what, says string
		do         func()
		dir        string // if it differs from the log's folder
	}{
		{"an old copy", "truncated", func() { put(t, a.audit, old) }, ""},
		{"an old copy, elsewhere", "truncated", func() {}, old},
		{"another log that is pinned", "seen", func() { put(t, a.audit, b.audit) }, ""},
		{"a rewritten log", "another root", func() { a.rewrite("forged", 8) }, ""},
		{"a longer rewritten log", "another root", func() { a.rewrite("forged", 80) }, ""},
		{"a rewritten log, elsewhere", "another root", func() { old = copyOf(t, a.audit) }, "rewritten"},
		{"the log's entries, signed with the other's key", "FAILED", func() {
			signer := a.signer
			a.signer = b.signer
			a.rewrite("forged", 8)
			a.signer = signer
		}, ""},
		{"under another name", "is of log", func() {
			if err := os.RemoveAll(a.audit); err != nil {
				t.Fatal(err)
			}
			l, err := chain.Open(a.audit, chain.Options{Signer: a.signer, Origin: "another", MasterKey: a.master})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.Append([]chain.Entry{{Seq: 1, Time: time.Unix(1, 0), Type: "observation",
				Project: "demo"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(x.what, func(t *testing.T) {
			a.t = t
			x.do()
			switch x.dir {
			case "":
				if out := a.expect(cli.ExitNegative, "FAILED"); !strings.Contains(out, "on purpose, move these files away:") {
					t.Errorf("the output does not tell which stored files to move away:\n%s", out)
				} else if !strings.Contains(out, x.says) {
					t.Errorf("the output lacks %q:\n%s", x.says, out)
				}
			case "rewritten":
				a.expect(cli.ExitNegative, x.says, "--dir", old)
			default:
				a.expect(cli.ExitNegative, x.says, "--dir", x.dir)
			}
		})
	}
	a.t = t
	put(t, a.audit, now)
	a.expect(cli.ExitOK, "it extends the 8 leaves")
	b.expect(cli.ExitOK, "it extends the 12 leaves")
}

// TestTheAdviceAfterADrillIsComplete verifies a copy of a log to which the copy's auditor added entries of its own, and
// then the original. The original does not extend the copy's checkpoint, so its verification fails. The output must
// name the stored checkpoint to move away, and after that the original verifies.
func TestTheAdviceAfterADrillIsComplete(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	a := install(t, "first", 5)
	a.pin(a.vkey)
	a.expect(cli.ExitIncomplete, "payloads match")
	drill := *a
	drill.data = copyOf(t, a.data)
	drill.audit = datafolder.AuditDir(drill.data)
	drill.text = "drill"
	drill.grow(7)
	drill.expect(cli.ExitOK, "it extends the 5 leaves")
	a.grow(9)
	out := a.expect(cli.ExitNegative, "another root")
	files, err := os.ReadDir(filepath.Join(state, "lazaret", "checkpoints"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	file := filepath.Join(state, "lazaret", "checkpoints", files[0].Name())
	for _, want := range []string{"this log: 9 leaves", "remembered here: 7 leaves", drill.audit,
		"move these files away:\n    " + file + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the advice lacks %q:\n%s", want, out)
		}
	}
	if err := os.Rename(file, filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	a.expect(cli.ExitOK, "VERIFIED") // the original's folder has its own earlier checkpoint
	drill.expect(cli.ExitNegative, "truncated")
	a.rewrite("forged", 20)
	a.expect(cli.ExitNegative, "move these files away:")
}

// TestWhatWasRememberedByAnEarlierVersionIsStillHeldAgainstTheLog deletes the records of log folders, which earlier
// versions did not make. A log must still extend its stored checkpoints.
func TestWhatWasRememberedByAnEarlierVersionIsStillHeldAgainstTheLog(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	a := install(t, "first", 5)
	a.pin(a.vkey)
	a.expect(cli.ExitIncomplete, "no checkpoint from outside")
	if err := os.RemoveAll(filepath.Join(state, "lazaret", "folders")); err != nil {
		t.Fatal(err)
	}
	a.grow(6)
	a.expect(cli.ExitOK, "it extends the 5 leaves")
	if err := os.RemoveAll(filepath.Join(state, "lazaret", "folders")); err != nil {
		t.Fatal(err)
	}
	a.rewrite("forged", 9)
	a.expect(cli.ExitNegative, "another root")
}

// TestWhatAHandedOverKeySignedIsRemembered covers a machine that pins only the log's first key. The log was handed over
// to a second key. Checkpoints by the second key must be stored, and later verifications must use them.
func TestWhatAHandedOverKeySignedIsRemembered(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a := install(t, "first", 5)
	before := copyOf(t, a.audit)

	private, vkey, err := keys.Generate("lazaret-ledger")
	if err != nil {
		t.Fatal(err)
	}
	next, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	l, err := chain.Open(a.audit, chain.Options{Signer: a.signer, MasterKey: a.master})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Handover(next, vkey); err != nil {
		t.Fatal(err)
	}
	l.Close()
	first := a.signer
	a.signer = next
	a.grow(9)
	a.pin(a.vkey)
	a.expect(cli.ExitIncomplete, "no checkpoint from outside")
	rolled := copyOf(t, a.audit)
	a.grow(11)
	a.expect(cli.ExitOK, "it extends the 9 leaves")
	a.expect(cli.ExitNegative, "truncated", "--dir", rolled)

	// The log from before the handover, and a forged log by the first key, must be refused: they do not extend the
	// checkpoint in the record of the folder. The second key signed it, and the record has the handover to this key.
	put(t, a.audit, before)
	a.expect(cli.ExitNegative, "FAILED")
	a.signer = first
	a.rewrite("forged", 20)
	a.expect(cli.ExitNegative, "FAILED")
}
