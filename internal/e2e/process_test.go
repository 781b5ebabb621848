package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsconn"
)

// bin is the folder of the programs. They are built once for all tests.
var bin string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == receiverName {
		receive(os.Args[1], os.Args[2])
	}
	if filepath.Base(os.Args[0]) == mcpServerName {
		serveMCP()
	}
	dir, err := os.MkdirTemp("", "lazaret-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	args := []string{"build", "-ldflags=-s -w", "-o", dir + "/"} // as make build does
	if raced {
		args = append(args, "-race")
	}
	args = append(args, "lazaret/cmd/lazaret", "lazaret/cmd/lazaret-hook", "lazaret/examples/clients/go")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		os.Exit(1)
	}
	for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		if err := os.Symlink("lazaret", filepath.Join(dir, d)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	bin = dir
	flag.Parse()
	if p := flag.Lookup("test.parallel"); !raced && p.Value.String() == p.DefValue {
		p.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // the tests wait more than they compute
	}
	if run := flag.Lookup("test.run"); raced && testing.Short() && run.Value.String() == "" {
		run.Value.Set(racedTests)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// long skips a test with -short (make test) because it takes more than five seconds. make ci runs all tests without
// -short. With the race detector, the test is not skipped.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && !raced {
		t.Skip("long: make ci runs it")
	}
}

// process is a running program.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd

	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

// Write collects the program's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start starts a program and waits until its output contains the text ready.
func start(t *testing.T, ready string, name string, args ...string) *process {
	t.Helper()
	return startWith(t, func(*exec.Cmd) {}, ready, name, args...)
}

// startWith is like start. Before it starts the command, it calls change with it.
func startWith(t *testing.T, change func(*exec.Cmd), ready string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(filepath.Join(bin, name), args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	change(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if out := p.output(); strings.Contains(out, "WARNING: DATA RACE") {
			t.Errorf("%s raced:\n%s", name, out)
		}
	})
	deadline := time.Now().Add(60 * time.Second)
	for !strings.Contains(p.output(), ready) {
		select {
		case <-p.done:
			t.Fatalf("%s ended before it was ready:\n%s", name, p.output())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not get ready:\n%s", name, p.output())
		}
	}
	return p
}

// kill kills the program with SIGKILL.
func (p *process) kill() {
	p.cmd.Process.Signal(syscall.SIGCONT)
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// interrupt sends a process the signal of Ctrl-C, waits until the process has ended, and checks that its exit code is
// 0.
func (p *process) interrupt() {
	p.t.Helper()
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Fatalf("%s ended with %d:\n%s", p.name, code, p.output())
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s does not stop:\n%s", p.name, p.output())
	}
}

// command runs `lazaret` with a data folder, for at most 20 minutes. It returns the output and the exit code.
func command(t *testing.T, data string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute) // replaying all corpora is the longest
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, "lazaret"), append(args, "--data", data)...)
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(data, "user-state")) // not the state of the real user
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// must runs a command and fails the test if the command fails. It runs a command again that says to ask again: an
// erasure may remove the snapshot of the log that the command reads.
//
// If the command verifies a log, must runs it twice: the first time there is no earlier checkpoint to compare with.
func must(t *testing.T, data string, args ...string) string {
	t.Helper()
	if len(args) > 1 && args[0] == "audit" && args[1] == "verify" {
		if out, code := command(t, data, args...); code != 0 && code != 3 {
			t.Fatalf("lazaret %s: exit %d\n%s", strings.Join(args, " "), code, out)
		}
	}
	out, code := command(t, data, args...)
	for again := 0; code != 0 && strings.Contains(out, "ask again") && again < 10; again++ {
		out, code = command(t, data, args...)
	}
	if code != 0 {
		t.Fatalf("lazaret %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// ports counts the ports that freePort has tried.
var ports atomic.Uint32

// freePort returns an address that no process uses. A server can be restarted on the same address. The port is below
// the ports that the kernel assigns by itself, and freePort returns no port twice.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+(uint32(os.Getpid())*100+ports.Add(1))%20000)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// connect opens a connection for a role. It reconnects when the server has restarted.
func connect(t *testing.T, data, role string) *nats.Conn {
	t.Helper()
	f := natsconn.Flags{Data: data}
	nc, err := f.Connect(role, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
