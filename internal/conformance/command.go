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

// launch starts the program. Variables of the environment that refer to NATS or Lazaret are not passed
// on.
func launch(argv, env []string, log io.Writer) (*command, error) {
	c := &command{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), out: &tail{also: log}}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "LAZARET_") {
			c.cmd.Env = append(c.cmd.Env, e)
		}
	}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	// A child process that outlives the program must not keep its output open.
	c.cmd.WaitDelay = time.Second
	// A separate process group, so that a kill includes the processes that a script starts.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	go func() {
		_ = c.cmd.Wait() // a killed program returns an error
		close(c.done)
	}()
	return c, nil
}

// kill kills the program and the processes that it started with SIGKILL.
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

// last returns the end of the program's output for error messages.
func (c *command) last() string {
	if s := c.out.String(); s != "" {
		return "; it said: " + s
	}
	return "; it said nothing"
}

// tail keeps the end of the written data.
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
