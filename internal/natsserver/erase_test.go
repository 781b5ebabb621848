package natsserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// holding returns, by stream, how often a text occurs in the decrypted blocks.
func holding(t *testing.T, data, text string) map[string]int {
	t.Helper()
	out := make(map[string]int)
	if err := natsserver.ReadBlocks(data, "", func(file string, content []byte) error {
		for _, s := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
			if bytes.Contains([]byte(file), []byte(s)) {
				out[s] += bytes.Count(content, []byte(text))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// texts publishes 30 messages to each stream. Then it deletes the ten that contain "Quokka", in the same way as an
// erasure.
func texts(t *testing.T, s *natsserver.Server, size int) {
	t.Helper()
	ing, done := roleStreams(t, s, natsserver.RoleIngest)
	defer done()
	front, done := roleStreams(t, s, natsserver.RoleFront)
	defer done()
	ret, done := roleStreams(t, s, natsserver.RoleRetention)
	defer done()
	pub := func(js jetstream.JetStream, subject, text string) uint64 {
		a, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"h": {text}},
			Data: []byte(text + strings.Repeat(".", size))})
		if err != nil {
			t.Fatal(err)
		}
		return a.Sequence
	}
	for i := range 30 {
		text := fmt.Sprintf("stays %d", i)
		if i%3 == 1 {
			text = fmt.Sprintf("Quokka-%d goes", i)
		}
		led := pub(ing, streams.LedgerSubject(0, streams.StageIngest), text)
		live := pub(ing, "lz.live.demo.rejected", text)
		in := pub(front, "lz.in.demo.a.obs.web", text)
		if i%3 == 1 {
			for stream, seq := range map[string]uint64{streams.LedgerStream: led, streams.LiveStream: live} {
				st, err := ret.Stream(t.Context(), stream)
				if err != nil {
					t.Fatal(err)
				}
				if err := st.SecureDeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i == 29 { // after the last message, purge the intake as ingest does
			st, err := ing.Stream(t.Context(), streams.IntakeStream)
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(in)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// content returns everything in the streams that a client can read.
func content(t *testing.T, s *natsserver.Server) string {
	t.Helper()
	var out strings.Builder
	for stream, role := range map[string]natsserver.Role{streams.IntakeStream: natsserver.RoleIngest,
		streams.LedgerStream: natsserver.RoleIngest, streams.LiveStream: natsserver.RoleRetention} {
		js, done := roleStreams(t, s, role)
		st, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := st.Info(t.Context(), jetstream.WithDeletedDetails(true))
		if err != nil {
			t.Fatal(err)
		}
		is := info.State
		fmt.Fprintf(&out, "%s %d %d %d %d %v\n", stream, is.FirstSeq, is.LastSeq, is.Msgs, is.Bytes, is.Deleted)
		for seq := is.FirstSeq; seq <= is.LastSeq; seq++ {
			if m, err := st.GetMsg(t.Context(), seq); err == nil {
				fmt.Fprintf(&out, "%d %s %s %.20s %d %d\n", seq, m.Subject, m.Header.Get("h"), m.Data, len(m.Data),
					m.Time.UnixNano())
			} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
				t.Fatal(err)
			}
		}
		done()
	}
	lines := strings.SplitAfter(out.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// nats-server leaves deleted messages in the files of an encrypted stream. The test checks that, and that EraseDeleted
// removes them. If the first check fails with a later version of nats-server, EraseDeleted is no longer needed.
func TestPromiseB14TheDecryptedBlocksHoldNoDeletedText(t *testing.T) {
	for name, size := range map[string]int{"one block": 10, "many blocks": 300_000} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "[acme]") // no pattern
			s := startServer(t, data)
			texts(t, s, size)
			for stream, n := range holding(t, data, "Quokka") {
				if n == 0 {
					t.Fatalf("%s holds none of what was deleted, so that its absence later shows nothing", stream)
				}
			}
			before := content(t, s)
			nc, err := s.Connect(natsserver.RoleOperator)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			url := s.URL()
			outside := roleUser(t, s, natsserver.RoleOperator)

			erased, err := s.EraseDeleted(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range erased {
				if e.Left != "" || e.Messages == 0 || e.Files == 0 {
					t.Errorf("nothing was erased, or something is left: %+v", e)
				}
			}
			gone := func(when string) {
				t.Helper()
				if got := holding(t, data, "Quokka"); len(got) != 3 || got[streams.IntakeStream]+got[streams.LedgerStream]+
					got[streams.LiveStream] != 0 {
					t.Errorf("%s: the blocks hold deleted texts: %v", when, got)
				}
			}
			gone("erased")
			if after := content(t, s); after != before {
				t.Errorf("the streams changed from\n%s to\n%s", before, after)
			}
			// Connections reach the server again.
			if s.URL() != url {
				t.Errorf("it was at %s and is at %s", url, s.URL())
			}
			for _, c := range []*nats.Conn{nc, outside.Conn} {
				js, err := jetstream.New(c)
				if err != nil {
					t.Fatal(err)
				}
				natstest.Eventually(t, 20*time.Second, "a connection does not find the server again", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, err := js.Stream(ctx, streams.LedgerStream)
					return err == nil
				})
			}
			if again, err := s.EraseDeleted(t.Context()); err != nil || slices.ContainsFunc(again,
				func(e streams.Erased) bool { return e.Messages > 0 || e.Left != "" }) {
				t.Errorf("again: %+v, %v", again, err)
			}
			s.Shutdown()
			gone("stopped")
			// With its index, the server need not read the blocks. Without it, it reads them. Both must give the same
			// streams.
			for _, index := range []bool{true, false} {
				if !index {
					removeIndexes(t, data)
				}
				s = startServer(t, data)
				if after := content(t, s); after != before {
					t.Errorf("started again, with the index: %v: the streams changed from\n%s to\n%s", index, before, after)
				}
				s.Shutdown()
			}
			gone("started again")
			if _, err := s.EraseDeleted(t.Context()); !errors.Is(err, natsserver.ErrStopped) {
				t.Error(err)
			}
		})
	}
}

// If no message was ever deleted, EraseDeleted must not stop the server, because a stop interrupts all clients.
func TestAnErasureWithNothingDeletedDoesNotStopTheServer(t *testing.T) {
	s := startServer(t, t.TempDir())
	nc := roleUser(t, s, natsserver.RoleOperator).Conn
	front, done := roleStreams(t, s, natsserver.RoleFront)
	defer done()
	id := nc.ConnectedServerId()
	for range 2 { // with empty streams, and with a message
		erased, err := s.EraseDeleted(t.Context())
		if err != nil || len(erased) != 3 {
			t.Fatalf("the erasure reports %+v, %v", erased, err)
		}
		for _, e := range erased {
			if e.Messages != 0 || e.Left != "" {
				t.Errorf("something was erased although nothing was deleted: %+v", e)
			}
		}
		if _, err := front.Publish(t.Context(), "lz.in.demo.a.obs.web", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil || nc.Stats().Reconnects != 0 || nc.ConnectedServerId() != id {
		t.Errorf("the server restarted: %v", err)
	}
}

func removeIndexes(t *testing.T, data string) {
	t.Helper()
	indexes, err := files.Glob(data, "jetstream/jetstream/*/streams/*/msgs/index.db")
	if err != nil || len(indexes) == 0 {
		t.Fatal(indexes, err)
	}
	for _, f := range indexes {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// A kill during the erasure leaves some blocks replaced and others not, and perhaps an unfinished file. From each such
// state, the server must recover all messages that were not deleted.
func TestPromiseB14AKillWhileErasingLosesNothing(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	texts(t, s, 300_000)
	s.Shutdown()
	s = startServer(t, data) // the files of a stopped server
	want := content(t, s)
	s.Shutdown()
	store := filepath.Join(data, "jetstream")
	before := t.TempDir()
	if err := os.CopyFS(before, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	s = startServer(t, data)
	if _, err := s.EraseDeleted(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	replaced, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(replaced) < 6 {
		t.Fatal(replaced, err)
	}
	after := make(map[string][]byte)
	for _, f := range replaced {
		if after[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	for n := range replaced {
		for _, index := range []bool{true, false} {
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(store, os.DirFS(before)); err != nil {
				t.Fatal(err)
			}
			for _, f := range replaced[:n] {
				if err := os.WriteFile(f, after[f], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(store, "erasing"), []byte("half a block"), 0o600); err != nil {
				t.Fatal(err)
			}
			if !index {
				removeIndexes(t, data)
			}
			s := startServer(t, data)
			if got := content(t, s); got != want {
				t.Fatalf("%d blocks replaced, index: %v: the streams changed from\n%s to\n%s", n, index, want, got)
			}
			if n%2 == 0 {
				if _, err := s.EraseDeleted(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := holding(t, data, "Quokka"); got[streams.IntakeStream]+got[streams.LedgerStream]+
					got[streams.LiveStream] != 0 {
					t.Fatalf("erased after a kill, the blocks hold deleted texts: %v", got)
				}
				if _, err := os.Stat(filepath.Join(store, "erasing")); !errors.Is(err, os.ErrNotExist) {
					t.Fatal("the file that was not finished is still there")
				}
			}
			s.Shutdown()
		}
	}
}

// EraseDeleted must leave a block that it cannot read unchanged, and must report it.
func TestPromiseB14ABlockThatCannotBeReadIsLeftAndNamed(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	texts(t, s, 300_000)
	blocks, err := filepath.Glob(filepath.Join(data, "jetstream", "jetstream", "*", "streams", streams.LedgerStream,
		"msgs", "2.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	erased, err := s.EraseDeleted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range erased {
		if left := strings.Contains(e.Left, "2.blk"); left != (e.Stream == streams.LedgerStream) {
			t.Errorf("the damaged block is not reported, or another one is: %+v", e)
		}
	}
}

// EraseStore must erase the store of a separately run nats-server that is not in a cluster.
func TestPromiseB14TheStoreOfAnExternalServerIsErased(t *testing.T) {
	data, store := t.TempDir(), filepath.Join(t.TempDir(), "nats")
	s := startServer(t, data)
	texts(t, s, 10)
	want := content(t, s)
	s.Shutdown()
	if err := os.Rename(filepath.Join(data, "jetstream"), store); err != nil {
		t.Fatal(err)
	}
	erased, err := natsserver.EraseStore(t.Context(), data, store)
	if err != nil || len(erased) != 3 {
		t.Fatal(erased, err)
	}
	for _, e := range erased {
		if e.Left != "" || e.Messages < 10 {
			t.Errorf("too little was erased: %+v", e)
		}
	}
	if err := os.MkdirAll(filepath.Join(store, "jetstream", "$SYS", "_js_"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.EraseStore(t.Context(), data, store); err == nil || !strings.Contains(err.Error(),
		"of a cluster") {
		t.Errorf("the store of a cluster's server: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(store, "jetstream", "$SYS")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(data, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(store, filepath.Join(data, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if got := holding(t, data, "Quokka"); len(got) != 3 || got[streams.IntakeStream]+got[streams.LedgerStream]+
		got[streams.LiveStream] != 0 {
		t.Errorf("the blocks hold deleted texts: %v", got)
	}
	s = startServer(t, data)
	if got := content(t, s); got != want {
		t.Errorf("the streams changed from\n%s to\n%s", want, got)
	}
	if _, err := natsserver.EraseStore(t.Context(), data, filepath.Join(data, "no")); err == nil {
		t.Error("a folder that does not exist is accepted as a store")
	}
}
