package natsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// held counts how often a text occurs in the decrypted blocks of each server: in those of streams and in those of Raft
// logs. It reads again after an error, because a running server creates a block's file before the file with its key.
func held(t *testing.T, data, text string, servers int) (inStreams, inLogs []int) {
	t.Helper()
	for i := range servers {
		var s, l int
		store := filepath.Join(data, fmt.Sprintf("n%d", i+1))
		within(t, 10*time.Second, "reading blocks", func(context.Context) error {
			s, l = 0, 0
			return natsserver.ReadBlocks(data, store, func(file string, content []byte) error {
				if n := bytes.Count(content, []byte(text)); strings.Contains(file, "_js_") {
					l += n
				} else {
					s += n
				}
				return nil
			})
		})
		inStreams, inLogs = append(inStreams, s), append(inLogs, l)
	}
	return inStreams, inLogs
}

func (m *member) js(t *testing.T, data string, r natsserver.Role) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(m.role(t, data, r))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// within calls fn until it succeeds. During an election a cluster answers late.
func within(t *testing.T, d time.Duration, what string, fn func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(d)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := fn(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The servers of a cluster keep deleted messages in the blocks of streams and Raft logs. After RewriteReplicas, no
// block may contain a deleted text.
func TestPromiseB14AClusterHoldsNoDeletedTextOnceItsReplicasAreMadeAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in short mode: three servers that elect leaders ten times")
	}
	data := t.TempDir()
	ms := startClusterOf(t, data, 3)
	within(t, 2*time.Minute, "making the streams", func(ctx context.Context) error {
		return wire.Ensure(ctx, ms[0].js(t, data, natsserver.RoleSetup), wire.Storage{Replicas: 3})
	})
	ing, ret := ms[0].js(t, data, natsserver.RoleIngest), ms[1].js(t, data, natsserver.RoleRetention)
	front := ms[2].js(t, data, natsserver.RoleFront)
	var last uint64
	for i := range 30 {
		text := fmt.Sprintf("stays %d", i)
		if i%3 == 1 {
			text = fmt.Sprintf("Quokka-%d goes", i)
		}
		for subject, js := range map[string]jetstream.JetStream{streams.LedgerSubject(0, streams.StageIngest): ing,
			"lz.live.demo.rejected": ing, "lz.in.demo.a.obs.web": front} {
			within(t, time.Minute, "publishing", func(ctx context.Context) error {
				a, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(text)}, jetstream.WithMsgID(text))
				if err == nil && subject == "lz.in.demo.a.obs.web" {
					last = a.Sequence
				}
				return err
			})
		}
	}
	for _, name := range []string{streams.LedgerStream, streams.LiveStream} {
		st, err := ret.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for seq := range st.CachedInfo().State.LastSeq {
			m, err := st.GetMsg(t.Context(), seq+1)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(m.Data, []byte("Quokka")) {
				if err := st.SecureDeleteMsg(t.Context(), seq+1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	st, err := ing.Stream(t.Context(), streams.IntakeStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(last)); err != nil {
		t.Fatal(err)
	}
	inStreams, inLogs := held(t, data, "Quokka", 3)
	t.Logf("deleted: streams hold it %v times, Raft logs %v times", inStreams, inLogs)
	for i := range 3 {
		if inStreams[i] == 0 || inLogs[i] == 0 {
			t.Fatalf("a server holds nothing of what was deleted, so that its absence later shows nothing")
		}
	}
	before := clusterContent(t, ms[0], data)

	done, err := natsserver.RewriteReplicas(t.Context(), ms[0].role(t, data, natsserver.RoleReplicas), 0,
		func(s string) { t.Log(s) })
	if err != nil || len(done) != 3 {
		t.Fatal(done, err)
	}
	for _, d := range done {
		if d.Replicas != 3 || d.First == d.Second {
			t.Errorf("a stream has too few replicas, or one server had the only replica twice: %+v", d)
		}
	}
	inStreams, inLogs = held(t, data, "Quokka", 3)
	for i := range 3 {
		if inStreams[i]+inLogs[i] != 0 {
			t.Errorf("the servers hold deleted texts: streams %v, Raft logs %v", inStreams, inLogs)
		}
	}
	// All three servers have the remaining messages.
	if inStreams, _ = held(t, data, "stays", 3); min(inStreams[0], inStreams[1], inStreams[2]) < 40 {
		t.Errorf("the servers hold what stays %v times", inStreams)
	}
	if after := clusterContent(t, ms[0], data); after != before {
		t.Errorf("the streams changed from\n%s to\n%s", before, after)
	}
}

// clusterContent returns everything in the ledger and the live stream that a client can read, and the sequences of the
// messages in the intake.
func clusterContent(t *testing.T, m *member, data string) string {
	t.Helper()
	js := m.js(t, data, natsserver.RoleRetention)
	var b strings.Builder
	for _, name := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		within(t, time.Minute, "reading "+name, func(ctx context.Context) error {
			st, err := js.Stream(ctx, name)
			if err != nil {
				return err
			}
			i := st.CachedInfo().State
			fmt.Fprintf(&b, "%s %d %d %d\n", name, i.FirstSeq, i.LastSeq, i.Msgs)
			if name == streams.IntakeStream {
				return nil
			}
			for seq := i.FirstSeq; seq <= i.LastSeq; seq++ {
				if m, err := st.GetMsg(ctx, seq); err == nil {
					fmt.Fprintf(&b, "%d %s %s %d\n", seq, m.Subject, m.Data, m.Time.UnixNano())
				}
			}
			return nil
		})
	}
	return b.String()
}
