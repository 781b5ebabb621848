package natsserver_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsserver"
	"lazaret/streams"
)

const kept = 100 // messages in the ledger of killed

// killed returns a data folder in the state after a kill of the server, and the folder of the ledger in it.
func killed(t *testing.T) (data, ledger string) {
	t.Helper()
	data = t.TempDir()
	s := startServer(t, data)
	js, done := roleStreams(t, s, natsserver.RoleIngest)
	for i := range kept {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: streams.LedgerSubject(0, streams.StageIngest),
			Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	done()
	s.Shutdown()
	dirs, err := filepath.Glob(filepath.Join(data, "jetstream", "jetstream", "*", "streams", streams.LedgerStream))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	// The server writes the index when it ends. After a kill there would be none.
	if err := os.Remove(filepath.Join(dirs[0], "msgs", "index.db")); err != nil {
		t.Fatal(err)
	}
	return data, dirs[0]
}

// recovers starts a server and checks that the ledger has all its messages.
func recovers(t *testing.T, data string) {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	js, done := roleStreams(t, s, natsserver.RoleOperator)
	defer done()
	st, err := js.Stream(context.Background(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := st.CachedInfo().State.Msgs; n != kept {
		t.Errorf("of %d messages there are %d", kept, n)
	}
	if _, err := os.Stat(filepath.Join(data, "jetstream", "kept")); err == nil {
		t.Error("hard links are left, so deleted data would stay on the disk")
	}
}

func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	m := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		m[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAKillBetweenABlockAndItsKeyCostsNothing(t *testing.T) {
	data, ledger := killed(t)
	if err := os.WriteFile(filepath.Join(ledger, "msgs", "2.blk"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	recovers(t, data)
	recovers(t, data)
}

func TestOnlyEmptyBlocksWithoutAKeyAreMended(t *testing.T) {
	data, ledger := killed(t)
	before := sums(t, ledger)
	empty, keyed := filepath.Join(ledger, "msgs", "3.blk"), filepath.Join(ledger, "msgs", "2.blk")
	for _, f := range []string{empty, keyed, filepath.Join(ledger, "msgs", "2.key")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := natsserver.Mend(filepath.Join(data, "jetstream"), slog.New(slog.DiscardHandler))
	if err != nil || len(removed) != 1 || removed[0] != empty {
		t.Errorf("removed %q, %v", removed, err)
	}
	if after := sums(t, ledger); len(after) != len(before)+2 {
		t.Errorf("there were %d files and are %d", len(before)+2, len(after))
	}
	if err := os.Remove(filepath.Join(ledger, "meta.key")); err != nil { // as if it were not encrypted
		t.Fatal(err)
	}
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := natsserver.Mend(filepath.Join(data, "jetstream"), slog.New(slog.DiscardHandler)); err != nil ||
		len(removed) > 0 {
		t.Errorf("of a stream without keys %q was removed, %v", removed, err)
	}
}

// The server deletes the files of a stream that it cannot recover. After such a start, the files must be there again.
func TestAStreamThatIsNotRecoveredIsNotLost(t *testing.T) {
	data, ledger := killed(t)
	key, away := filepath.Join(ledger, "msgs", "1.key"), filepath.Join(t.TempDir(), "1.key")
	if err := os.Rename(key, away); err != nil {
		t.Fatal(err)
	}
	// If the server was killed while it stored a batch, it needs this file to complete the batch.
	staged := filepath.Join(ledger, "batches", "b", "msgs")
	if err := os.MkdirAll(staged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(staged, "1.blk"), []byte("staged"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := sums(t, ledger)
	for range 2 {
		s, err := natsserver.Start(natsserver.Config{Data: data})
		if err == nil {
			s.Shutdown()
			t.Fatal("a ledger without its key was recovered")
		}
		if !strings.Contains(err.Error(), streams.LedgerStream) || !strings.Contains(err.Error(), ledger) {
			t.Errorf("the error does not say what was not recovered, and where it is: %v", err)
		}
		after := sums(t, ledger)
		if len(after) != len(before) {
			t.Fatalf("there were %d files and are %d", len(before), len(after))
		}
		for name, sum := range before {
			if after[name] != sum {
				t.Errorf("%s is not what it was", name)
			}
		}
	}
	if err := os.Rename(away, key); err != nil {
		t.Fatal(err)
	}
	recovers(t, data)
}

// A kill may come after the server has deleted files and before they are restored. The next start must restore them.
func TestWhatAnEarlierStartKeptIsPutBack(t *testing.T) {
	data, ledger := killed(t)
	rel, err := filepath.Rel(filepath.Join(data, "jetstream", "jetstream"), ledger)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(data, "jetstream", "kept", rel)
	if err := os.MkdirAll(filepath.Dir(second), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ledger, second); err != nil {
		t.Fatal(err)
	}
	recovers(t, data)
}
