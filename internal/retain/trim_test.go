package retain

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// What is trimmed is what is old, and never a subject's last entry, whoever
// wrote when. Each case asks a server some dozens of times, so there are only a hundred.
func TestThePurgeLeavesWhatIsYoungAndEveryFence(t *testing.T) {
	srv := natstest.Start(t)
	ctx := context.Background()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		first := st.CachedInfo().State.LastSeq
		if info, err := st.Info(ctx); err == nil {
			first = info.State.LastSeq
		}
		last := make(map[string]uint64)
		subjects := make(map[uint64]string)
		// Some subjects fall silent early.
		n := rapid.IntRange(1, 60).Draw(rt, "entries")
		for i := range n {
			kinds := 6
			if i > n/2 {
				kinds = 3
			}
			subject := streams.LedgerSubject(rapid.IntRange(0, 1).Draw(rt, "partition"), fmt.Sprintf("stage%d", rapid.IntRange(0, kinds-1).Draw(rt, "stage")))
			ack, err := js.Publish(ctx, subject, nil)
			if err != nil {
				rt.Fatal(err)
			}
			last[subject], subjects[ack.Sequence] = ack.Sequence, subject
		}
		upTo := first + uint64(rapid.IntRange(0, n).Draw(rt, "up to"))
		if err := purge(ctx, st, upTo); err != nil {
			rt.Fatal(err)
		}
		for seq, subject := range subjects {
			_, err := st.GetMsg(ctx, seq)
			if want := seq > upTo || last[subject] == seq; (err == nil) != want {
				rt.Fatalf("entry %d of %s, trimmed up to %d, its last is %d: %v", seq, subject, upTo, last[subject], err)
			}
		}
		// The next round begins with what this one left.
		for s := range last {
			if err := st.Purge(ctx, jetstream.WithPurgeSubject(s)); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestWhatIsOlderThanTheHorizonIsFound(t *testing.T) {
	srv := natstest.Start(t)
	ctx := context.Background()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lastBefore(ctx, js, time.Now()); got != 0 || err != nil {
		t.Errorf("of an empty ledger: %d, %v", got, err)
	}
	var at [10]time.Time
	for i := range at {
		ack, err := js.Publish(ctx, streams.LedgerSubject(i, "x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := st.GetMsg(ctx, ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		at[i] = m.Time
	}
	for i, tm := range at {
		if got, err := lastBefore(ctx, js, tm); err != nil || got != uint64(i) {
			t.Errorf("before entry %d: %d, %v", i+1, got, err)
		}
	}
	if got, err := lastBefore(ctx, js, time.Now().Add(time.Hour)); got != 10 || err != nil {
		t.Errorf("before tomorrow: %d, %v", got, err)
	}
}
