package stage

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// Ten thousand entries that may share messages must be spread over small messages. The server keeps a buffer as large
// as the largest message and uses it for each message that it delivers.
func TestAFrameIsSmall(t *testing.T) {
	for _, size := range []int{10, 1 << 10, 8 << 10, frameMostSize + 1} {
		entries := make([]*streams.Entry, 10_000)
		for i := range entries {
			entries[i] = &streams.Entry{Type: streams.TypeObservation, Body: make([]byte, size)}
		}
		n := 0
		for _, f := range frames(entries, func(int) string { return "one text" }) {
			total := 0
			for _, e := range f {
				total += len(e.Body)
			}
			if n += len(f); len(f) > 1 && (len(f) > 128 || total > 256<<10) {
				t.Fatalf("bodies of %d bytes: a frame has %d entries with %d bytes", size, len(f), total)
			}
		}
		if n != len(entries) {
			t.Errorf("bodies of %d bytes: %d entries are published, want %d", size, n, len(entries))
		}
	}
}

// A reader whose stage is slow must request at most 512 messages, even if they are small.
func TestASlowReaderRequestsFewMessages(t *testing.T) {
	srv := natstest.Start(t)
	gate := make(chan struct{})
	came := read(t, srv.Connect(), gate)
	js := must(jetstream.New(srv.Connect()))
	const n = 3 * readAhead
	for range n {
		_, err := js.PublishAsync(streams.LedgerSubject(0, streams.StageArbiter), []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	st := must(js.Stream(t.Context(), streams.LedgerStream))
	var sent uint64
	natstest.Eventually(t, time.Minute, "the requested messages", func() bool {
		for info := range st.ListConsumers(t.Context()).Info() {
			sent = info.Delivered.Consumer
		}
		return sent >= readAhead
	})
	if sent > readAhead || readAhead > 512 {
		t.Errorf("%d messages were sent to a reader that takes none, want at most 512", sent)
	}
	close(gate)
	natstest.Eventually(t, time.Minute, "all messages", func() bool { return came.Load() == n })
}

// The feed must hold at most 2 MiB of recent messages, or a single message if that is larger.
func TestAFeedHoldsFewBytes(t *testing.T) {
	f := new(Feed)
	for _, size := range []int{100, 1 << 10, 100 << 10, 1 << 20, 3 << 20, 1} {
		body := make([]byte, size)
		for range 2000 {
			f.remember(&arrival{entries: []streams.Entry{{Body: body}}})
			if f.bytes > 2<<20 && len(f.recent) > 1 {
				t.Fatalf("messages of %d bytes: %d of them with %d bytes are held", size, len(f.recent), f.bytes)
			}
		}
	}
}
