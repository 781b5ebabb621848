package conformance

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// command is a running instance of the program under test.
type command struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	out  *tail
}

// launch starts the program. Of our own environment it gets nothing that names
// a NATS server or a Lazaret installation.
func launch(argv, env []string, log io.Writer) (*command, error) {
	c := &command{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), out: &tail{also: log}}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "LAZARET_") {
			c.cmd.Env = append(c.cmd.Env, e)
		}
	}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	// A child that the program left running must not keep its output open.
	c.cmd.WaitDelay = time.Second
	// A process group of its own: a script that starts the real program must
	// not be survived by it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	go func() {
		_ = c.cmd.Wait() // killed programs fail by design
		close(c.done)
	}()
	return c, nil
}

// kill is kill -9, of the program and of what it started.
func (c *command) kill() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
}

func (c *command) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// last is the end of what it printed, for errors.
func (c *command) last() string {
	if s := c.out.String(); s != "" {
		return "; it said: " + s
	}
	return "; it said nothing"
}

// tail keeps the end of what is written to it.
type tail struct {
	also io.Writer

	mu  sync.Mutex
	buf []byte // guarded by mu
}

const tailLen = 600

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailLen; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	if t.also != nil {
		return t.also.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.buf)), "\uFFFD")
}
