package stage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// ledger writes generated entries to the server's ledger, in turn for two stages.
type ledger struct {
	t  *testing.T
	js jetstream.JetStream
	n  int
}

func newLedger(t *testing.T, srv *natstest.Server) *ledger {
	js, err := jetstream.New(srv.Connect(), jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{t: t, js: js}
}

func (l *ledger) add(n int) {
	l.t.Helper()
	for range n {
		l.n++
		e := &streams.Entry{Partition: l.n % 3, Stage: []string{streams.StageIngest, streams.StageArbiter}[l.n%2],
			Type: streams.TypeVerdict, Project: "demo",
			Src: uint64(l.n), Salt: streams.NewSalt(), Body: fmt.Appendf(nil, `{"n":%d}`, l.n)}
		if _, err := l.js.PublishMsgAsync(wire.Msg(e), jetstream.WithStallWait(10*time.Second)); err != nil {
			l.t.Fatal(err)
		}
	}
	select {
	case <-l.js.PublishAsyncComplete():
	case <-time.After(30 * time.Second):
		l.t.Fatal("the ledger did not acknowledge all entries")
	}
}

// seen reads entries with sequences from `from` to `to`, in steps of step. It fails the test if the reader returns
// another entry.
func seen(t *testing.T, name string, r *ledgerReader, from, to, step uint64) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for want := from; want <= to; want += step {
		select {
		case a := <-r.msgs:
			if a.err != nil || a.first().Seq != want || a.first().Src != want {
				t.Fatalf("%s read entry %d of input %d (%v), want %d", name, a.first().Seq, a.first().Src, a.err, want)
			}
		case <-timeout:
			t.Fatalf("%s did not read entry %d in time", name, want)
		}
	}
}

func (f *Feed) has(r *ledgerReader) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.taps, r)
}

// Released returns how often a reader was released.
func (f *Feed) Released() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cuts
}

func TestWhoReadsByAFeedSeesTheLedgerAsIfAlone(t *testing.T) {
	srv := natstest.Start(t)
	l := newLedger(t, srv)
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	l.add(100)
	f, err := OpenFeed(ctx, srv.Connect(), log)
	if err != nil {
		t.Fatal(err)
	}
	open := func(from uint64, only string) *ledgerReader {
		r, err := openLedgerReader(ctx, srv.Connect(), f, nil, only, from, log)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	joined := func(name string, r *ledgerReader) {
		t.Helper()
		natstest.Eventually(t, time.Minute, name+" joins the feed", func() bool { return f.has(r) })
	}
	read := func(seq uint64) {
		t.Helper()
		natstest.Eventually(t, time.Minute, fmt.Sprintf("the feed reads entry %d", seq), func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.recent) > 0 && f.recent[len(f.recent)-1].first().Seq >= seq
		})
	}
	whole, tail, one := open(1, ""), open(101, ""), open(1, streams.StageArbiter)
	defer whole.close()
	defer tail.close()
	defer one.close()
	// This reader starts at the end of the ledger and has no entry in common with the feed yet. After one more entry,
	// or two if the feed started with the first one, it must have joined.
	l.add(1)
	seen(t, "who begins at the end", tail, 101, 101, 1)
	read(101)
	l.add(1)
	for name, r := range map[string]*ledgerReader{"who reads all": whole, "who begins at the end": tail,
		"who reads one stage": one} {
		joined(name, r)
	}
	// One reader stops reading until more messages wait than it has room for, so the feed must release it. The other
	// readers must go on.
	read(102)
	stuck := open(101, "") // both have read the last entry
	defer stuck.close()
	joined("who will stop", stuck)
	const n = 2 * ledgerAhead
	for range n / 1024 {
		l.add(1024)
		last := uint64(l.n)
		from := last - 1023
		if from == 103 {
			from = 1
		}
		seen(t, "who reads all", whole, from, last, 1)
		seen(t, "who begins at the end", tail, max(from, 102), last, 1)
		// The odd entries are the arbiter's.
		seen(t, "who reads one stage", one, from|1, last, 2)
	}
	if got := f.Released(); got != 1 {
		t.Fatalf("the feed released %d readers, want only the one that stopped", got)
	}
	seen(t, "who stopped", stuck, 101, uint64(l.n), 1)
	l.add(1)
	seen(t, "who stopped", stuck, uint64(l.n), uint64(l.n), 1)
	read(uint64(l.n))
	l.add(1)
	seen(t, "who stopped", stuck, uint64(l.n), uint64(l.n), 1)
	joined("who has caught up", stuck)
	// Without the feed each reader continues alone.
	f.Close()
	l.add(10)
	seen(t, "who reads all", whole, uint64(l.n)-11, uint64(l.n), 1)
	seen(t, "who stopped", stuck, uint64(l.n)-9, uint64(l.n), 1)
}

func arrivalOf(e streams.Entry) *arrival { return &arrival{entries: []streams.Entry{e}} }

func TestNobodyJoinsAFeedOfAnotherStream(t *testing.T) {
	now := time.Now()
	a := arrivalOf(streams.Entry{Seq: 7, Time: now, Salt: [16]byte{1}})
	f := &Feed{log: slog.New(slog.DiscardHandler), recent: []*arrival{arrivalOf(streams.Entry{Seq: 6}), a,
		arrivalOf(streams.Entry{Seq: 8})}}
	reader := func(e streams.Entry) *ledgerReader {
		return &ledgerReader{msgs: make(chan *arrival, 8), trail: []*arrival{arrivalOf(streams.Entry{Seq: 4}),
			arrivalOf(e)}, next: e.Seq + 1}
	}
	r := reader(*a.first())
	if !f.join(r) || len(r.msgs) != 1 || r.next != 9 {
		t.Fatalf("a reader at the entry of the feed has %d entries to read and goes on with %d, want 1 and 9", len(r.msgs), r.next)
	}
	// The feed ends at entry 9. This reader has read entries 9 and 10. It may join the feed, and the feed must not pass
	// entry 9 to it again.
	ahead := reader(streams.Entry{Seq: 9})
	ahead.trail = append(ahead.trail, arrivalOf(streams.Entry{Seq: 10}))
	f.recent = append(f.recent, ahead.trail[1])
	if !f.join(ahead) || len(ahead.msgs) != 0 {
		t.Error("a reader that is ahead of the feed does not join it, or gets an entry twice")
	}
	f.recent = f.recent[:3]
	for what, e := range map[string]streams.Entry{
		"another salt":  {Seq: 7, Time: now, Salt: [16]byte{2}},
		"another stamp": {Seq: 7, Time: now.Add(1), Salt: [16]byte{1}},
		"an older one":  {Seq: 5, Time: now, Salt: [16]byte{1}},
		"a later one":   {Seq: 9, Time: now, Salt: [16]byte{1}},
	} {
		if f.join(reader(e)) {
			t.Errorf("%s: joined", what)
		}
	}
}

func TestWhatABodyEncodesIsKnownForThatBodyOnly(t *testing.T) {
	f := &Feed{log: slog.New(slog.DiscardHandler)}
	var es []*streams.Entry
	for i := range 3 * mostMade {
		es = append(es, &streams.Entry{Stage: streams.StageIngest, Salt: streams.NewSalt(),
			Body: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	f.announce(es, func(i int) any { return i })
	read := func(i int, body []byte) any {
		e := *es[i]
		e.Body = body
		f.know(&e)
		return e.Decoded
	}
	first := len(es) - mostMade
	if d := read(first-1, es[first-1].Body); d != nil {
		t.Errorf("entry %d was forgotten, but the feed still knows its decoded body %v", first-1, d)
	}
	if d := read(first, es[first].Body); d != first {
		t.Errorf("entry %d encodes %v", first, d)
	}
	if d := read(first+5, []byte(`{"n":-1}`)); d != nil {
		t.Errorf("an entry that was not announced has the decoded body %v", d)
	}
	if d := read(first+6, es[first+6].Body); d != first+6 {
		t.Errorf("entry %d encodes %v", first+6, d)
	}
	if d := read(first+4, es[first+4].Body); d != nil {
		t.Errorf("an entry that is read too late has the decoded body %v", d)
	}
}
