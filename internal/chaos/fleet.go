package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// server is the name of the process with nats-server. The other processes have the names of their stages. A
// suffix after a slash marks a second process of the same program: a standby, or a second auditor, which
// follows the ledger like the first.
const server = "server"

var daemons = []string{"ingest", "ingest/b", "sentinels", "sentinels/b", "arbiter", "arbiter/b", "auditor", "auditor/b"}

// pair returns the two processes of a stage with a standby.
func pair(stage string) []string { return []string{stage, stage + "/b"} }

// The values of Options.Processes.
const (
	Daemons = "daemons" // two processes of each daemon
	Pair    = "pair"    // two processes with all stages, which decide in joint frames
	Up      = "up"      // a process with server and all stages, and one with all stages
)

// layout describes the processes of a run. Each has a separate data folder.
type layout struct {
	names  []string // processes other than the server
	drills []string
	joint  bool // the stages of a process decide in joint frames (docs/architecture.md)
	killed int  // in how many of three kills the standby is killed together with the process
	askers int  // number of projects with a caller
	// rest is the time between two windows of events (see load.send). Stages decide jointly only while the ledger does
	// not grow.
	rest    time.Duration
	audited []string // the two processes with an audit log
}

var layouts = map[string]layout{
	Daemons: {names: daemons, killed: 1, drills: Drills, askers: 2, audited: pair("auditor")},
	Pair: {names: pair("stages"), joint: true, killed: 1, askers: 1, rest: 400 * time.Millisecond, audited: pair("stages"),
		drills: []string{"overlap:stages", "mute:stages", "backlog:stages", "late:stages", "stray:stages"}},
	Up: {names: []string{"stages/b"}, joint: true, killed: 2, askers: 1, rest: 400 * time.Millisecond,
		audited: []string{server, "stages/b"}, drills: []string{"late:server"}},
}

// rivalRuns reports whether another process with all stages runs.
func (f *fleet) rivalRuns(name string) bool {
	return slices.ContainsFunc(f.mates(name), func(n string) bool {
		return n != name && f.procs[n] != nil && !f.procs[n].ended()
	})
}

// mates returns a process and its standby, in the order in which they start, or nil.
func (f *fleet) mates(name string) []string {
	stage, _, _ := strings.Cut(name, "/")
	switch {
	case slices.Contains(f.audited, name) && f.joint:
		return f.audited
	case name == server || stage == "auditor":
		return nil
	}
	return pair(stage)
}

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	took *atomic.Int64 // counts how often the process took over

	mu  sync.Mutex
	out bytes.Buffer
}

// Write collects the end of the program's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took.Add(int64(bytes.Count(b, []byte("taking over"))))
	const most = 256 << 10
	if p.out.Len() > most {
		p.out.Next(p.out.Len() - most/2)
	}
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// fleet is the pipeline as separate processes. It is not safe for concurrent use.
type fleet struct {
	layout
	dir      string            // contains a folder for each process
	at       map[string]string // by process: the process whose data folder it uses, if not its own
	alone    bool              // the server process runs no stages
	programs string            // folder of the binaries
	addr     string            // address of the server
	procs    map[string]*process
	ways     map[string]*proxy // by daemon: the proxy between it and the server
	clocks   map[string]*clock // replaced clocks by process
	noClocks error             // why clocks cannot be replaced
	took     atomic.Int64      // takeovers by a standby
}

// programsOf returns the folder of the daemons' binaries: the folder of this program. It returns an error if
// one is missing.
func programsOf(self string) (string, error) {
	dir := filepath.Dir(self)
	for _, d := range append([]string{"lazaret"}, daemons...) {
		name, _, _ := strings.Cut(d, "/")
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("chaos runs the daemons from the folder of this program: %w: build them with `make build` "+
				"and run bin/lazaret", err)
		}
	}
	return dir, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (f *fleet) data(name string) string {
	return filepath.Join(f.dir, strings.ReplaceAll(cmp.Or(f.at[name], name), "/", "-"))
}

// begin starts the server, and gives each daemon a separate data folder with the same keys and
// credentials and its own proxy to the server.
func (f *fleet) begin(ctx context.Context) error {
	if err := f.start(ctx, server); err != nil {
		return err
	}
	for _, d := range f.names {
		way, err := newProxy(f.addr)
		if err != nil {
			return err
		}
		f.ways[d] = way
		if err := f.furnish(d, way.url()); err != nil {
			return fmt.Errorf("the data folder of %s: %w", d, err)
		}
		if err := f.start(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// furnish copies the files that a daemon needs from the server's data folder to the daemon's. In the copied
// NATS contexts, the server's address is that of the daemon's proxy.
func (f *fleet) furnish(name, url string) error {
	from, to := f.data(server), f.data(name)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, part := range []string{"creds", "keys", "nats", "trust.yaml"} {
		err := filepath.WalkDir(filepath.Join(from, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(to, rel), 0o700)
			}
			if d.Name() == "audit-master.key" {
				return nil // auditors produce equal logs without sharing keys
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if filepath.Ext(path) == ".json" {
				b = bytes.ReplaceAll(b, []byte("nats://"+f.addr), []byte(url))
			}
			return os.WriteFile(filepath.Join(to, rel), b, 0o600)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startTimeout is how long a process may take to get ready.
const startTimeout = 2 * time.Minute

// start starts a process and waits until it prints that it is ready.
func (f *fleet) start(ctx context.Context, name string) error {
	program, second, _ := strings.Cut(name, "/")
	args, ready := []string{"--data", f.data(name), "--takeover", "500ms"}, "ready"
	switch {
	case name == server:
		program, ready = "lazaret", "lazaret is up"
		args = []string{"up", "--data", f.data(name), "--listen", f.addr}
		if f.alone {
			args = append(args, "--server-only")
		} else {
			args = append(args, "--verbose", "--http", "off", "--console", "off")
		}
	case program == "stages":
		program = "lazaret"
		args = []string{"chaos", "stages", "--data", f.data(name), "--takeover", "1s"}
		// Stages decide jointly only if all stages of one process are active. If both processes ran without --standby,
		// each would become active for some of the stages only.
		if f.rivalRuns(name) {
			args = append(args, "--standby")
		}
	case program == "auditor":
		// Both auditors follow the ledger; there is no standby.
	case second != "":
		args = append(args, "--standby")
	}
	p := &process{cmd: exec.Command(filepath.Join(f.programs, program), args...), took: &f.took, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // a killed process returns an error
		close(p.done)
	}()
	f.procs[name] = p
	if f.noClocks == nil {
		c, err := takeClock(p.cmd.Process)
		if err != nil && len(f.clocks) == 0 {
			f.noClocks = err // the first try failed, so this machine does not allow it
		}
		f.clocks[name] = c
	}
	deadline := time.After(startTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if strings.Contains(p.output(), ready) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return &endedError{name, tail(p.output())}
		case <-deadline:
			return fmt.Errorf("%s was not ready within %s: %s", name, startTimeout, tail(p.output()))
		case <-tick.C:
		}
	}
}

// endedError means that a process ended by itself.
type endedError struct{ name, output string }

func (e *endedError) Error() string { return fmt.Sprintf("%s ended by itself: %s", e.name, e.output) }

func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}

// kill kills a process with SIGKILL.
func (f *fleet) kill(name string) {
	p := f.procs[name]
	resume(p.cmd.Process)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// halfBlock creates an empty block without a key file in the ledger, as a kill of the server leaves it between
// the creation of a block and of its key file.
func (f *fleet) halfBlock() error {
	blocks, err := files.Glob(f.data(server), "jetstream/jetstream/*/streams/"+streams.LedgerStream+"/msgs/*.blk")
	if err != nil || len(blocks) == 0 {
		return errors.Join(err, errors.New("the ledger has no blocks"))
	}
	last := 0
	for _, b := range blocks {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(b), ".blk"))
		if err != nil {
			return fmt.Errorf("a block of the ledger: %w", err)
		}
		last = max(last, n)
	}
	return os.WriteFile(filepath.Join(filepath.Dir(blocks[0]), fmt.Sprintf("%d.blk", last+1)), nil, 0o600)
}

// revive restarts processes that ended by themselves and returns their names with the last line of
// their output.
func (f *fleet) revive(ctx context.Context) (died []string, err error) {
	for _, name := range append([]string{server}, f.names...) {
		for p := f.procs[name]; p.ended(); p = f.procs[name] {
			died = append(died, name+": "+lastLine(p.output()))
			var e *endedError
			if err := f.start(ctx, name); errors.As(err, &e) && len(died) < 50 {
				continue // start it again: a process that it needs may not run yet
			} else if err != nil {
				return died, err
			}
		}
	}
	return died, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// quit interrupts processes at the same time, and kills those that have not ended after d.
func (f *fleet) quit(ctx context.Context, d time.Duration, names ...string) error {
	for _, name := range names {
		if p := f.procs[name]; !p.ended() {
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
	late := time.After(d)
	for _, name := range names {
		select {
		case <-f.procs[name].done:
		case <-late:
			late = closedTime
			f.kill(name)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// closedTime is a closed channel, on which a receive never blocks.
var closedTime = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// again restarts processes that were ended. If one of them ends by itself, revive restarts it later.
func (f *fleet) again(ctx context.Context, names ...string) error {
	for _, name := range names {
		var e *endedError
		if err := f.start(ctx, name); err != nil && !errors.As(err, &e) {
			return err
		}
	}
	return nil
}

// stop ends processes in order.
func (f *fleet) stop(ctx context.Context, names ...string) error {
	var all []error
	for _, name := range names {
		p := f.procs[name]
		if p == nil || p.ended() {
			continue
		}
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			all = append(all, err)
		}
		select {
		case <-p.done:
			if code := p.cmd.ProcessState.ExitCode(); code != 0 {
				all = append(all, fmt.Errorf("%s exited with code %d: %s", name, code, tail(p.output())))
			}
		case <-time.After(time.Minute):
			all = append(all, fmt.Errorf("%s did not stop: %s", name, tail(p.output())))
			_ = p.cmd.Process.Kill()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(all...)
}

// quiet stops all processes that write to the ledger, so that only the server and the two auditors run. If the server
// or an auditor ran in a process with other stages, quiet starts it again alone.
func (f *fleet) quiet(ctx context.Context) error {
	if !f.joint {
		return f.stop(ctx, slices.Concat(pair("arbiter"), pair("sentinels"), pair("ingest"))...)
	}
	writers := slices.Clone(f.names)
	slices.Reverse(writers)
	if !f.alone {
		writers = append(writers, server)
	}
	if err := f.stop(ctx, writers...); err != nil {
		return err
	}
	if !f.alone {
		f.alone = true
		if err := f.start(ctx, server); err != nil {
			return err
		}
	}
	for i, name := range pair("auditor") {
		f.at[name] = f.audited[i]
		if err := f.start(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// end kills the remaining processes.
func (f *fleet) end() {
	for name, p := range f.procs {
		if !p.ended() {
			f.kill(name)
		}
	}
	for _, w := range f.ways {
		w.close()
	}
}

// connect opens a reconnecting connection of a role directly to the server.
func (f *fleet) connect(role string) (*nats.Conn, error) {
	c := natsconn.Flags{Data: f.data(server)}
	return c.Connect(role, lasting()...)
}

func lasting() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectBufSize(-1)}
}

// agents opens a connection for an agent in each project.
func (f *fleet) agents(projects []string, agent string) ([]*nats.Conn, error) {
	m, err := natsserver.OpenMinter(f.data(server))
	if err != nil {
		return nil, err
	}
	var out []*nats.Conn
	for _, p := range projects {
		b, err := m.Agent(natsserver.Agent{Project: p, Name: agent, Origins: origins})
		if err != nil {
			return nil, err
		}
		path := filepath.Join(f.dir, p+"."+agent+".creds")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return nil, err
		}
		nc, err := nats.Connect("nats://"+f.addr, append(lasting(), nats.UserCredentials(path),
			nats.CustomInboxPrefix(natsserver.InboxOfCreds(b)))...)
		if err != nil {
			return nil, err
		}
		out = append(out, nc)
	}
	return out, nil
}
