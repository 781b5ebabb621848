package auditor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/auditor"
	"lazaret/internal/fuzztest"
	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/pkg/chain/witness"
	"lazaret/streams"
)

// ledger writes entries. Equal numbers give equal entries.
type ledger struct {
	t  *testing.T
	js jetstream.JetStream
	n  int
}

func newLedger(t *testing.T, srv *natstest.Server) *ledger {
	t.Helper()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{t: t, js: js}
}

func (l *ledger) write(n int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var acks []jetstream.PubAckFuture
	for range n {
		l.n++
		e := streams.Entry{Partition: l.n % streams.Partitions, Stage: streams.StageIngest, Type: streams.TypeObservation,
			Project: fmt.Sprintf("p%d", l.n%3), Src: uint64(l.n),
			Salt: streams.NewSalt(), Body: fmt.Appendf(nil, `{"id":"e%d","text":%q}`, l.n, strings.Repeat("x", l.n%50))}
		f, err := l.js.PublishMsgAsync(wire.Msg(&e), jetstream.WithStallWait(time.Minute))
		if err != nil {
			l.t.Fatal(err)
		}
		acks = append(acks, f)
	}
	for _, f := range acks {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			l.t.Fatal(err)
		case <-ctx.Done():
			l.t.Fatal(ctx.Err())
		}
	}
}

func (l *ledger) stream() jetstream.Stream {
	l.t.Helper()
	st, err := l.js.Stream(context.Background(), streams.LedgerStream)
	if err != nil {
		l.t.Fatal(err)
	}
	return st
}

// running is an auditor that follows a ledger.
type running struct {
	*auditor.Auditor
	t    *testing.T
	cfg  auditor.Config
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, srv *natstest.Server, cfg auditor.Config) *running {
	t.Helper()
	cfg.Conn = srv.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := auditor.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{a, t, cfg, cancel, make(chan error, 1)}
	go func() { r.done <- a.Follow(ctx) }()
	return r
}

// halt stops the auditor.
func (r *running) halt() {
	r.t.Helper()
	r.stop()
	if err := errors.Join(<-r.done, r.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// end stops the auditor and returns its log, opened for reading.
func (r *running) end() *chain.Log {
	r.t.Helper()
	r.halt()
	l, err := chain.Open(r.cfg.Dir, chain.Options{MasterKey: r.cfg.MasterKey, ReadOnly: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	return l
}

func (r *running) await(what string, f func(h chain.Head) bool) {
	r.t.Helper()
	natstest.Eventually(r.t, 30*time.Second, what, func() bool { return f(r.Head()) })
}

func reached(n uint64) func(chain.Head) bool {
	return func(h chain.Head) bool { return h.LastSeq >= n }
}

func config(t *testing.T, k fuzztest.Pair, seed byte) auditor.Config {
	return auditor.Config{Dir: filepath.Join(t.TempDir(), "audit"), Signer: k.Signer,
		MasterKey: bytes.Repeat([]byte{seed}, 32)}
}

// tiles returns all tiles and bundles of a log.
func tiles(t *testing.T, l *chain.Log) []byte {
	t.Helper()
	var out bytes.Buffer
	size := l.Head().Size
	for level := 0; size>>(8*level) > 0; level++ {
		for n, rest := int64(0), size>>(8*level); rest > 0; n, rest = n+1, rest-chain.TileWidth {
			b, err := l.Tile(level, n, int(min(rest, chain.TileWidth)))
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
			if level == 0 {
				if b, err = l.EntryBundle(n, int(min(rest, chain.TileWidth))); err != nil {
					t.Fatal(err)
				}
				out.Write(b)
			}
		}
	}
	return out.Bytes()
}

func TestTwoAuditorsOfOneLedgerKeepTheSameTree(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	ka, kb := fuzztest.NewPair(t, "a"), fuzztest.NewPair(t, "b")
	a := start(t, srv, config(t, ka, 1))
	w.write(300)
	a.await("the first has chained 300", reached(300))
	a.halt()
	// An entry is removed from the ledger before an auditor has chained it. Both auditors must record the same gap.
	w.write(49)
	odd := streams.Entry{Stage: streams.StageArbiter, Type: streams.TypeDue, Src: 1, Body: []byte("{}")}
	if _, err := w.js.PublishMsg(context.Background(), wire.Msg(&odd)); err != nil {
		t.Fatal(err)
	}
	w.write(550)
	if err := w.stream().Purge(context.Background(), jetstream.WithPurgeSubject(wire.Msg(&odd).Subject)); err != nil {
		t.Fatal(err)
	}
	a = start(t, srv, a.cfg)
	b := start(t, srv, config(t, kb, 2))
	b.await("the second has chained some", reached(1))
	b.halt() // the rotation is interrupted
	b = start(t, srv, b.cfg)
	a.await("the first has chained all", reached(900))
	b.await("the second has chained all", reached(900))
	la, lb := a.end(), b.end()
	if la.Head().Root != lb.Head().Root || la.Head().Gaps != 1 || !bytes.Equal(tiles(t, la), tiles(t, lb)) {
		t.Errorf("heads are %+v and %+v", la.Head(), lb.Head())
	}
}

func TestANewAuditorOfATrimmedLedgerTakesAnothersTiles(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	ka, kb := fuzztest.NewPair(t, "a"), fuzztest.NewPair(t, "b")
	a := start(t, srv, config(t, ka, 1))
	w.write(1000)
	a.await("the first has chained all", reached(1000))
	if err := w.stream().Purge(context.Background(), jetstream.WithPurgeSequence(701)); err != nil {
		t.Fatal(err)
	}

	// Without another auditor's log to begin with, the new auditor cannot start. The error must say what to do.
	cfg := config(t, kb, 2)
	alone := start(t, srv, cfg)
	err := <-alone.done
	var trimmed *stage.TrimmedError
	if !errors.As(err, &trimmed) || !strings.Contains(err.Error(), "--from") {
		t.Errorf("a new auditor of a trimmed ledger: %v", err)
	}
	alone.Close()
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}

	web := httptest.NewServer(chain.NewHandler(a.Source()))
	defer web.Close()
	if cfg.From, err = chain.NewClient(web.URL, nil); err != nil {
		t.Fatal(err)
	}
	cfg.Conn, cfg.Trusted = srv.Connect(), note.VerifierList(kb.Verifier)
	if _, err := auditor.Open(context.Background(), cfg); err == nil {
		t.Fatal("tiles were taken whose signer is not trusted")
	}
	natstest.Eventually(t, time.Minute, "the first signs all", func() bool {
		cp, err := chain.ParseCheckpoint(a.Head().Checkpoint)
		return err == nil && cp.Size == 1000
	})
	cfg.Trusted = note.VerifierList(ka.Verifier)
	b := start(t, srv, cfg)
	w.write(50)
	a.await("the first has chained all", reached(1050))
	b.await("the second has chained all", reached(1050))
	la, lb := a.end(), b.end()
	if !bytes.Equal(tiles(t, la), tiles(t, lb)) || lb.Head().Gaps != 0 {
		t.Errorf("heads are %+v and %+v", la.Head(), lb.Head())
	}
	// The log holds the entries that the ledger still had, with their payloads.
	for _, i := range []int64{0, 699, 700, 999, 1049} {
		p, err := lb.Payload(i)
		want, werr := la.Payload(i)
		if werr != nil {
			t.Fatal(werr)
		}
		if i < 700 && !errors.Is(err, chain.ErrNotHeld) || i >= 700 && !bytes.Equal(p, want) {
			t.Errorf("payload %d: %v", i, err)
		}
	}
}

func TestTilesOfAnotherLedgerAreRefused(t *testing.T) {
	srv, other := natstest.Start(t), natstest.Start(t)
	ka, kb := fuzztest.NewPair(t, "a"), fuzztest.NewPair(t, "b")
	w := newLedger(t, other)
	a := start(t, other, config(t, ka, 1))
	w.write(100)
	a.await("it has chained all", reached(100))
	natstest.Eventually(t, time.Minute, "it signs all", func() bool {
		cp, err := chain.ParseCheckpoint(a.Head().Checkpoint)
		return err == nil && cp.Size == 100
	})
	newLedger(t, srv).write(100) // other salts, other stamps
	cfg := config(t, kb, 2)
	cfg.From, cfg.Trusted = a.Source(), note.VerifierList(ka.Verifier)
	b := start(t, srv, cfg)
	if err := <-b.done; !errors.Is(err, chain.ErrDiffers) {
		t.Errorf("the auditor ended with %v", err)
	}
	b.Close()
	a.end()
}

func TestALedgerThatWasCreatedAnewIsALeafAndAnAlarm(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	incidents := make(chan string, 10)
	if _, err := srv.Connect().Subscribe("lz.live.*.incident", func(m *nats.Msg) {
		incidents <- string(m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	a := start(t, srv, config(t, fuzztest.NewPair(t, "a"), 1))
	w.write(20)
	a.await("it has chained 20", reached(20))
	recreate := func() {
		t.Helper()
		cfg := w.stream().CachedInfo().Config
		if err := w.js.DeleteStream(context.Background(), streams.LedgerStream); err != nil {
			t.Fatal(err)
		}
		if _, err := w.js.CreateStream(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	recreate() // while the auditor follows
	a.await("it has noticed", func(h chain.Head) bool { return h.Resets == 1 })
	w.write(5)
	a.await("it has chained 5 of the new one", func(h chain.Head) bool { return h.LastSeq == 5 && h.Size == 26 })
	a.halt()
	recreate() // while the auditor is stopped
	w.write(30)
	a = start(t, srv, a.cfg)
	a.await("it has chained 30 of the newest one", func(h chain.Head) bool {
		return h.LastSeq == 30 && h.Resets == 2 && h.Size == 57
	})
	l := a.end()
	for i, seq := range map[int64]uint64{20: 20, 26: 5} {
		if leaf, err := l.Leaf(i); err != nil || leaf.Kind != chain.KindReset || leaf.Seq != seq {
			t.Errorf("leaf %d is %+v, %v", i, leaf, err)
		}
	}
	for range 2 {
		select {
		case s := <-incidents:
			var x struct {
				Kind string `json:"kind"`
			}
			if err := json.Unmarshal([]byte(s), &x); err != nil || x.Kind != "ledger-reset" {
				t.Errorf("incident %s, %v", s, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("there was no incident")
		}
	}
}

func TestWhatWasTrimmedAboveTheLogIsAGapAndAnAlarm(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	var mu sync.Mutex
	var incidents []string
	if _, err := srv.Connect().Subscribe("lz.live.*.incident", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		incidents = append(incidents, string(m.Data))
	}); err != nil {
		t.Fatal(err)
	}
	a := start(t, srv, config(t, fuzztest.NewPair(t, "a"), 1))
	w.write(20)
	a.await("it has chained 20", reached(20))
	a.halt()
	w.write(30)
	if err := w.stream().Purge(context.Background(), jetstream.WithPurgeSequence(41)); err != nil {
		t.Fatal(err)
	}
	a = start(t, srv, a.cfg)
	a.await("it has chained the rest", reached(50))
	l := a.end()
	if leaf, err := l.Leaf(20); err != nil || leaf.Kind != chain.KindGap || leaf.Seq != 21 || leaf.Length != 20 {
		t.Errorf("leaf 20 is %+v, %v", leaf, err)
	}
	natstest.Eventually(t, time.Minute, "there is an incident", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(incidents) == 1 && strings.Contains(incidents[0], "ledger-gap")
	})
}

func TestWitnessesCosignWhatTheAuditorSigns(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	k, wk := fuzztest.NewPair(t, "log"), fuzztest.NewPair(t, "witness.example")
	s, err := witness.NewServer(wk.Private, t.TempDir(), []note.Verifier{k.Verifier})
	if err != nil {
		t.Fatal(err)
	}
	var silent atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	cosigner, err := witness.CosignerKey(wk.Public)
	if err != nil {
		t.Fatal(err)
	}
	policy := fmt.Sprintf("witness w %s %s\nquorum w\n", cosigner, web.URL)
	cfg := config(t, k, 1)
	cfg.WitnessPolicy = filepath.Join(t.TempDir(), "witnesses.policy")
	if err := os.WriteFile(cfg.WitnessPolicy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := witness.ParsePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Stats = new(stage.Stats)
	a := start(t, srv, cfg)
	cosigned := func(size int64) {
		t.Helper()
		a.await("all is cosigned", func(h chain.Head) bool {
			cp, err := chain.ParseCheckpoint(h.Checkpoint)
			return err == nil && cp.Size == size && p.Satisfied(h.Checkpoint)
		})
	}
	w.write(20)
	cosigned(20)
	silent.Store(true)
	w.write(10)
	a.await("the witness is missed", func(chain.Head) bool { return cfg.Stats.UncosignedSince.Load() > 0 })
	silent.Store(false)
	cosigned(30)
	a.await("the witness is heard again", func(chain.Head) bool { return cfg.Stats.UncosignedSince.Load() == 0 })
	l := a.end()
	rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: note.VerifierList(k.Verifier), Quorum: p})
	if err != nil || rep.Status != chain.Verified || rep.Witnessed != 30 {
		t.Errorf("report is %+v, %v", rep, err)
	}
}

func TestAnEventIsFoundByItsID(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	a := start(t, srv, config(t, fuzztest.NewPair(t, "log"), 1))
	w.write(700)
	a.await("all is chained", reached(700))
	l := a.end()
	for _, n := range []int64{1, 77, 700} {
		if i, err := auditor.FindEvent(context.Background(), l, fmt.Sprintf("e%d", n)); err != nil || i != n-1 {
			t.Errorf("e%d is leaf %d, %v", n, i, err)
		}
	}
	if _, err := auditor.FindEvent(context.Background(), l, "e701"); !errors.Is(err, auditor.ErrNoEvent) {
		t.Errorf("an unknown event: %v", err)
	}
	if _, err := auditor.FindEvent(context.Background(), l, "no id"); err == nil {
		t.Error("an id that is none is looked for")
	}
}

func TestPromiseB17AnUnpinnedKeySignsNothing(t *testing.T) {
	srv := natstest.Start(t)
	pinned, stranger := fuzztest.NewPair(t, "auditor"), fuzztest.NewPair(t, "auditor")
	cfg := config(t, stranger, 1)
	cfg.Conn, cfg.Pinned = srv.Connect(), note.VerifierList(pinned.Verifier)
	if a, err := auditor.Open(context.Background(), cfg); err == nil || !strings.Contains(err.Error(),
		"not pinned with the role auditor") {
		if err == nil {
			a.Close()
		}
		t.Fatalf("an unpinned key: %v", err)
	}
	if _, err := os.Stat(cfg.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an auditor with an unpinned key left a log: %v", err)
	}
	cfg.Signer = pinned.Signer
	a, err := auditor.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}
