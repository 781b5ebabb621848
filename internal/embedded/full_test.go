package embedded_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// said collects the pipeline's log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), what)
}

// Another process takes the whole reserve at once, so that a write of nats-server fails. After that, the server refuses
// messages of the stream until it is restarted. When there is space again, verdicts must come without a restart of the
// process.
func TestPromiseC23ADiskFilledToTheLastByteIsTakenUpAgainWhenThereIsRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a disk: make ci runs it")
	}
	disk := smallDisk(t)
	data := filepath.Join(disk, "data")
	// When its own disk is full, Pebble ends the process. So state and log are on another disk in this test.
	for _, name := range []string{"state", "audit"} {
		if err := errors.Join(os.MkdirAll(data, 0o700), os.Symlink(t.TempDir(), filepath.Join(data, name))); err != nil {
			t.Fatal(err)
		}
	}
	log := &said{}
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0",
		AnswerTimeout: 3 * time.Second,
		Log:           slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := decideOn(t, p, data); err != nil {
		t.Fatal(err)
	}
	c := agent(t, p, data, "demo")
	page := strings.Repeat("the page ", 10_000)
	var filler string
	// The pipeline refuses messages at most 250 ms after the disk is full. That may be before a write fails. Then fill
	// the disk again.
	for n := 0; !log.has("Critical write error"); n++ {
		if n == 20 {
			t.Fatal("no write failed on a full disk")
		}
		if filler != "" {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, 30*time.Second, "a pipeline that takes observations", func() bool {
				return p.NoRoom() == nil
			})
		}
		// Publish observations while the disk fills, so that the server has something to write.
		first, begun := sync.Once{}, make(chan struct{})
		var observing sync.WaitGroup
		observing.Go(func() {
			for i := 0; ; i++ {
				obs := &streams.Observation{Head: streams.Head{ID: fmt.Sprint("o", n, "-", i), Session: "s"}, Tool: "web.fetch",
					Content: page}
				_, err := c.Observe(t.Context(), "web", obs)
				first.Do(func() { close(begun) })
				if err != nil {
					return
				}
			}
		})
		<-begun
		filler = fill(t, disk)
		observing.Wait()
	}
	natstest.Eventually(t, 10*time.Second, "a pipeline that refuses", func() bool { return p.NoRoom() != nil })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "a verdict", func() bool { return decideOn(t, p, data) == nil })
}

// fill fills a file system completely.
func fill(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Statfs_t
	for size := int64(0); err == nil; {
		if err = syscall.Statfs(dir, &st); err != nil {
			break
		}
		// Even if no block is free, ask for one, so that the call shows that the disk is full.
		room := max(int64(st.Bavail), 1) * st.Bsize
		err = syscall.Fallocate(int(f.Fd()), 0, size, room)
		if err == nil {
			size += room
		} else if st.Bavail > 0 && errors.Is(err, syscall.ENOSPC) {
			err = nil // the server took a block meanwhile
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return f.Name()
}
