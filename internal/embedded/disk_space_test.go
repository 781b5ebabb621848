package embedded_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/metrics"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// smallDisk returns a folder on a file system of its own, which has 640 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=640m"); err != nil {
		t.Fatalf("mounting a small file system, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// If a request is refused because the disk is full, the refusal must say so.
func TestPromiseC23ARefusalOnAFullDiskNamesTheDisk(t *testing.T) {
	data := t.TempDir()
	p := upForeign(t, data)
	defer p.Close()
	c := agent(t, p, data, "demo")
	// The pipeline does the same when its disk is nearly full.
	if err := p.Server.Admit(false); err != nil {
		t.Fatal(err)
	}
	for how, ask := range map[string]func() error{
		"observe": func() error {
			_, err := c.Observe(t.Context(), "web", &streams.Observation{Head: streams.Head{Session: "s"}, Tool: "web.fetch",
				Content: "x"})
			return err
		},
		"submit": func() error {
			_, err := c.Submit(t.Context(), "web", &streams.Observation{Head: streams.Head{Session: "s"}, Tool: "web.fetch",
				Content: "x"})
			return err
		},
		"decide": func() error {
			_, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: "read_file"})
			return err
		},
	} {
		var e *client.Error
		if err := ask(); !errors.As(err, &e) || e.Code != streams.CodeIntakeFull || !strings.Contains(e.Message,
			"disk is full") ||
			!strings.Contains(e.Message, "lazaret doctor") {
			t.Errorf("%s on a full disk: %v", how, err)
		}
	}
}

// The pipeline must start on a disk of 640 MiB. When the disk is nearly full, publishers must be refused, verdicts must
// be hold, and the readiness check must give the reason. No process may end. When there is space again, verdicts must
// come. Acknowledged messages must exist after a restart.
func TestPromiseC23AFullDiskRefusesAndEndsNothing(t *testing.T) {
	long(t)
	disk := smallDisk(t)
	data := filepath.Join(disk, "data")
	m := metrics.New()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0",
		AnswerTimeout: 3 * time.Second, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	c := agent(t, p, data, "demo")
	decide := func() error {
		act := &streams.Action{Head: streams.Head{ID: fmt.Sprint("asked-", asked.Add(1)), Session: "s"}, Tool: "read_file",
			Args: []byte(`{"path":"notes.txt"}`)}
		_, err := c.Decide(t.Context(), act)
		return err
	}
	if err := decide(); err != nil {
		t.Fatal(err)
	}
	// Another process fills most of the disk.
	filler := filepath.Join(disk, "filler")
	free, all, err := natsserver.Free(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, free-natsserver.Reserve(all)-(8<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("The minutes of a long meeting about nothing. ", 4000)
	refused := 0
	for i := 0; refused < 20; i++ {
		if i == 2000 {
			t.Fatal("nothing is refused")
		}
		if _, err := c.Observe(t.Context(), "web", &streams.Observation{Head: streams.Head{Session: "s"}, Tool: "web.fetch",
			Content: fmt.Sprint(i, body)}); err != nil {
			refused++
		}
	}
	if err := decide(); err == nil {
		t.Error("a verdict came though the intake can store nothing")
	}
	var b bytes.Buffer
	natstest.Eventually(t, 2*time.Minute, "a process that is not ready", func() bool {
		b.Reset()
		return !m.Ready(t.Context(), &b) && strings.Contains(b.String(), natsserver.ErrNoRoom.Error())
	})
	select {
	case <-p.Failed():
		t.Fatal(p.Err())
	default:
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 3*time.Minute, "a verdict", func() bool { return decide() == nil })
	natstest.Eventually(t, 2*time.Minute, "a process that is ready", func() bool { return m.Ready(t.Context(), &b) })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(decideOn(t, again, data), again.Close()); err != nil {
		t.Fatal(err)
	}
}

func decideOn(t *testing.T, p *embedded.Pipeline, data string) error {
	act := &streams.Action{Head: streams.Head{ID: fmt.Sprint("asked-", asked.Add(1)), Session: "s"}, Tool: "read_file",
		Args: []byte(`{"path":"notes.txt"}`)}
	_, err := agent(t, p, data, "demo").Decide(t.Context(), act)
	return err
}
