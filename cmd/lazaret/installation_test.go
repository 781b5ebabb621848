package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// running starts a pipeline with a limit on the size of events, and returns a function that runs
// commands on it.
func running(t *testing.T, maxEvent int) (p *embedded.Pipeline, run func(args ...string) (string, int)) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
		MaxEvent: maxEvent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, func(args ...string) (string, int) {
		t.Helper()
		return lazaret(t, append(args, "--data", data)...)
	}
}

func TestPromiseA10SessionStartReleasesASessionThatARejectionHolds(t *testing.T) {
	_, run := running(t, 64<<10)
	decide := func(id string) (string, int) { return run("decide", "read_file", "--session", "s", "--id", id) }
	if out, code := run("observe", "--session", "s", strings.Repeat("x", 100<<10)); code == cli.ExitOK ||
		!strings.Contains(out, string(streams.CodeTooLarge)) || !strings.Contains(out, "lazaret session start") {
		t.Errorf("a rejected observation: exit %d: %s", code, out)
	}
	if out, code := decide("a1"); code == cli.ExitOK || !strings.Contains(out, string(streams.CodeUnseen)) ||
		!strings.Contains(out, string(streams.CodeTooLarge)) || !strings.Contains(out, "lazaret session start s") {
		t.Errorf("a proposal after the rejected observation: exit %d: %s", code, out)
	}
	if out, code := run("session", "start", "s"); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out, code := decide("a2"); code != cli.ExitOK {
		t.Errorf("a proposal of the started session: exit %d: %s", code, out)
	}
}

func TestPromiseB18VerifyLedgerFailsForADeletedEntry(t *testing.T) {
	p, run := running(t, 0)
	if out, code := run("decide", "read_file", "--session", "s"); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out, code := run("audit", "verify", "--ledger"); code != cli.ExitIncomplete { // the first time on a machine
		t.Fatalf("exit %d: %s", code, out)
	}
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	last := st.CachedInfo().State.LastSeq
	var out string
	natstest.Eventually(t, time.Minute, "a log that agrees with all of the ledger", func() bool {
		var code int
		out, code = run("audit", "verify", "--ledger")
		return code == cli.ExitOK
	})
	if err := st.DeleteMsg(t.Context(), last-1); err != nil {
		t.Fatal(err)
	}
	out, code := run("audit", "verify", "--ledger")
	if code != cli.ExitNegative || !strings.Contains(out, "no entry") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestPromiseA12AnExportedHistoryIsItsOwnersAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	out, _ := lazaret(t, "rules", "backtest", "../../rules", "--against", "shipped", "--export", file, os.DevNull)
	fi, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatal("no history file was exported:", out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("the history file has mode %v", fi.Mode())
	}
}
