package auditor_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/auditor"
	"lazaret/internal/fuzztest"
	"lazaret/internal/natstest"
)

// stallingProxy forwards connections to an address. While stalled is set, it holds back the
// server's messages.
func stallingProxy(t *testing.T, to string, stalled *atomic.Bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				return
			}
			go func() { _, _ = io.Copy(s, c); s.Close() }()
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := s.Read(buf)
					for stalled.Load() {
						time.Sleep(time.Millisecond)
					}
					if _, werr := c.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A server under load may answer later than the client library waits. The auditor asks again.
func TestAnAuditorWaitsForAServerThatAnswersLate(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time-out of a request")
	}
	srv := natstest.Start(t)
	l := newLedger(t, srv)
	l.write(10)
	var stalled atomic.Bool
	addr := stallingProxy(t, strings.TrimPrefix(srv.Connect().ConnectedUrl(), "nats://"), &stalled)
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stalled.Store(true)
	k := fuzztest.NewPair(t, "auditor.example")
	a, err := auditor.Open(t.Context(), auditor.Config{Conn: nc, Dir: t.TempDir() + "/audit", Signer: k.Signer,
		MasterKey: make([]byte, 32), Origin: "auditor.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Follow(ctx) }()
	select {
	case err := <-ended:
		t.Fatalf("the auditor ended: %v", err)
	case <-time.After(7 * time.Second): // the library waits 5 s
	}
	stalled.Store(false)
	natstest.Eventually(t, time.Minute, "all entries are chained", func() bool { return a.Head().Entries == 10 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
