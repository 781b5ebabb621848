package natsserver_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// copyRunning copies the data folder of a running server. The copy is in the state after a kill of the process.
func copyRunning(t *testing.T, data string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	keys, err := files.Glob(to, "keys/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := os.Chmod(k, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// rebuilds is a log handler. It records the messages of nats-server and freshen that say that the ledger's index is
// rebuilt.
type rebuilds struct {
	slog.Handler
	mu  sync.Mutex
	why []string
}

func (r *rebuilds) Enabled(context.Context, slog.Level) bool { return true }

func (r *rebuilds) Handle(_ context.Context, rec slog.Record) error {
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	if strings.Contains(text, "rebuild") &&
		(strings.Contains(text, streams.LedgerStream) || strings.Contains(text, "index of the ledger")) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.why = append(r.why, text)
	}
	return nil
}

// ledgerOf returns everything in the ledger that a client can see.
func ledgerOf(t *testing.T, s *natsserver.Server) string {
	t.Helper()
	js, done := roleStreams(t, s, natsserver.RoleIngest)
	defer done()
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(t.Context(), jetstream.WithDeletedDetails(true), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	is := info.State
	is.Consumers = 0
	var out strings.Builder
	fmt.Fprintf(&out, "%+v\n", is)
	for seq := is.FirstSeq; seq <= is.LastSeq; seq++ {
		if m, err := st.GetMsg(t.Context(), seq); err == nil {
			fmt.Fprintf(&out, "%d %s %x %d\n", seq, m.Subject, sha256.Sum256(m.Data), m.Time.UnixNano())
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatal(err)
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(is.Subjects)) {
		m, err := st.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "last of %s: %d\n", subject, m.Sequence)
	}
	return out.String()
}

// appendLedger publishes n messages of up to 400,000 bytes to the ledger. Each names the expected last message, like
// those of a stage.
func appendLedger(t *testing.T, s *natsserver.Server, r *rand.Rand, n int) {
	t.Helper()
	js, done := roleStreams(t, s, natsserver.RoleIngest)
	defer done()
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		subject := streams.LedgerSubject(r.IntN(streams.Partitions), streams.StageIngest)
		last := uint64(0)
		if m, err := st.GetLastMsgForSubject(t.Context(), subject); err == nil {
			last = m.Sequence
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatal(err)
		}
		msg := &nats.Msg{Subject: subject, Data: make([]byte, r.IntN(400_000))}
		if r.IntN(2) == 0 {
			msg.Header = nats.Header{"lz-type": {"x"}}
		}
		if _, err := js.PublishMsg(t.Context(), msg, jetstream.WithExpectLastSequencePerSubject(last)); err != nil {
			t.Fatal(err)
		}
	}
}

// deleteLedger deletes messages of the ledger.
func deleteLedger(t *testing.T, s *natsserver.Server, seqs ...uint64) {
	t.Helper()
	js, done := roleStreams(t, s, natsserver.RoleRetention)
	defer done()
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	for _, seq := range seqs {
		if err == nil {
			err = st.DeleteMsg(t.Context(), seq)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// purgeLedger removes the messages before a sequence.
func purgeLedger(t *testing.T, s *natsserver.Server, seq uint64) {
	t.Helper()
	js, done := roleStreams(t, s, natsserver.RoleRetention)
	defer done()
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err == nil {
		err = st.Purge(t.Context(), jetstream.WithPurgeSequence(seq))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func oneFile(t *testing.T, data, pattern string) string {
	t.Helper()
	found, err := files.Glob(data, pattern)
	if err != nil || len(found) == 0 {
		t.Fatal(pattern, found, err)
	}
	return found[len(found)-1]
}

// ledgerBlocks is the folder of the ledger's blocks, relative to the data folder.
const ledgerBlocks = ledgerDir + "/msgs/"

const ledgerDir = "jetstream/jetstream/*/streams/" + streams.LedgerStream

func TestAStartAfterAKillRecoversTheLedgerWithoutARebuild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the boot id")
	}
	for name, c := range map[string]struct {
		before, after func(*testing.T, *natsserver.Server) // the index was written
		left          func(t *testing.T, data string)      // changes the folder that the kill left
		rebuilt       bool
		emptied       bool // the ledger has only messages from after the purge; if it has none, no rebuild is needed
		noIndex       bool // after the start
	}{
		"appended": {},
		"deleted before the index": {before: func(t *testing.T, s *natsserver.Server) {
			deleteLedger(t, s, 1, 3, 17, 30)
		}},
		"deleted after the index": {after: func(t *testing.T, s *natsserver.Server) {
			deleteLedger(t, s, 5)
		}, rebuilt: true},
		"last message deleted after the index": {after: func(t *testing.T, s *natsserver.Server) {
			deleteLedger(t, s, 60)
		}, rebuilt: true},
		"purged before the index": {before: func(t *testing.T, s *natsserver.Server) { purgeLedger(t, s, 20) }},
		"purged after the index":  {after: func(t *testing.T, s *natsserver.Server) { purgeLedger(t, s, 20) }},
		"emptied after the index": {after: func(t *testing.T, s *natsserver.Server) { purgeLedger(t, s, 61) }, rebuilt: true,
			emptied: true},
		"a block removed": {after: func(t *testing.T, s *natsserver.Server) {
			deleteLedger(t, s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
		}, rebuilt: true},
		"without an index": {left: func(t *testing.T, data string) {
			if err := os.Remove(oneFile(t, data, ledgerBlocks+"index.db")); err != nil {
				t.Fatal(err)
			}
		}},
		"index damaged": {left: func(t *testing.T, data string) {
			flip(t, oneFile(t, data, ledgerBlocks+"index.db"))
		}, rebuilt: true, noIndex: true},
		"another boot": {left: func(t *testing.T, data string) {
			if err := os.WriteFile(oneFile(t, data, "jetstream/boot"), []byte("another"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, rebuilt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			data := t.TempDir()
			s := startWith(t, natsserver.Config{Data: data, NoSync: true})
			appendLedger(t, s, r, 40)
			if c.before != nil {
				c.before(t, s)
			}
			s.Shutdown() // writes the index
			s = startWith(t, natsserver.Config{Data: data, NoSync: true})
			appendLedger(t, s, r, 20)
			if c.after != nil {
				c.after(t, s)
			}
			more := r.IntN(10)
			appendLedger(t, s, r, more)
			want := ledgerOf(t, s)
			natstest.Eventually(t, 20*time.Second, "the purged files stay", func() bool {
				found, err := files.Glob(data, ledgerDir+"/__msgs__")
				return err == nil && len(found) == 0
			})
			left := copyRunning(t, data)
			s.Shutdown()
			if c.left != nil {
				c.left(t, left)
			}

			seen := &rebuilds{Handler: slog.DiscardHandler}
			s = startWith(t, natsserver.Config{Data: left, NoSync: true, Log: slog.New(seen)})
			if got := ledgerOf(t, s); got != want {
				t.Errorf("the ledger is\n%s, want\n%s", got, want)
			}
			if found, err := files.Glob(left, ledgerBlocks+"index.db"); err != nil || (len(found) == 0) != c.noIndex {
				t.Errorf("the index: %q %v", found, err)
			}
			if got, want := len(seen.why) > 0, c.rebuilt && (!c.emptied || more > 0); got != want {
				t.Errorf("rebuilt: %v %q, want %v", got, seen.why, want)
			}
			// The server must be able to work with the index. The index must be the same as one that is rebuilt from
			// the blocks alone.
			appendLedger(t, s, r, 10)
			deleteLedger(t, s, 62, 65)
			want = ledgerOf(t, s)
			s.Shutdown()
			for _, index := range []bool{true, false} {
				if !index {
					removeIndexes(t, left)
				}
				s = startWith(t, natsserver.Config{Data: left, NoSync: true})
				if got := ledgerOf(t, s); got != want {
					t.Errorf("with the index %v: the ledger is\n%s, want\n%s", index, got, want)
				}
				s.Shutdown()
			}
		})
	}
}

// A compaction removes deleted messages and, if these are in the same block, also their tombstones. Then the blocks do
// not show that messages in the index were deleted. The index must still not be used.
func TestAnIndexIsNotUsedAfterACompaction(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs the boot id")
	}
	r := rand.New(rand.NewPCG(1, 1))
	data := t.TempDir()
	s := startWith(t, natsserver.Config{Data: data, NoSync: true})
	appendLedger(t, s, r, 12)
	s.Shutdown() // writes the index
	blocks := func() []string {
		found, err := files.Glob(data, ledgerBlocks+"[0-9]*.blk")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	size := func() int64 {
		fi, err := os.Stat(blocks()[0])
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	before := size()
	if len(blocks()) != 1 {
		t.Fatal("the index has several blocks")
	}
	s = startWith(t, natsserver.Config{Data: data, NoSync: true}.WithSyncInterval(100*time.Millisecond))
	var seqs []uint64
	for seq := uint64(2); seq < 12; seq++ {
		seqs = append(seqs, seq)
	}
	deleteLedger(t, s, seqs...)
	for len(blocks()) < 2 {
		appendLedger(t, s, r, 1)
	}
	natstest.Eventually(t, 20*time.Second, "a compaction of the first block", func() bool { return size() < before })
	want := ledgerOf(t, s)
	left := copyRunning(t, data)
	s.Shutdown()
	seen := &rebuilds{Handler: slog.DiscardHandler}
	s = startWith(t, natsserver.Config{Data: left, NoSync: true, Log: slog.New(seen)})
	defer s.Shutdown()
	if got := ledgerOf(t, s); got != want {
		t.Errorf("the ledger is\n%s, want\n%s", got, want)
	}
	if len(seen.why) == 0 {
		t.Error("the index was used")
	}
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
