package chaos

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// proxy is a TCP proxy between a daemon and the server. It can cut connections, drop, delay or hold the
// daemon's messages. On connections that are not cut, the server's messages reach the daemon at once.
type proxy struct {
	l      net.Listener
	target string
	late   atomic.Int64 // longest delay of a ledger entry, in nanoseconds
	gate   atomic.Pointer[gate]

	mu    sync.Mutex
	cut   bool
	mute  bool              // the daemon's bytes are dropped
	conns map[net.Conn]bool // open connections
	wg    sync.WaitGroup
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, target: target, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) url() string { return "nats://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// keep registers a connection, so that set can cut it. It returns false if connections are refused now.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *proxy) serve(c net.Conn) {
	defer p.drop(c)
	if !p.keep(c) {
		return
	}
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(s)
	if !p.keep(s) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.carry(s, c); s.Close(); c.Close() })
	_, _ = io.Copy(c, s)
	// Close only the connection to the daemon. The connection to the server stays open until carry has sent the delayed
	// messages, which must arrive even if the daemon was killed.
	c.Close()
	wg.Wait()
}

// set cuts all connections and refuses new ones, or allows connections again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			c.Close()
		}
	}
}

// silence starts or stops dropping the daemon's messages. When it stops, it closes the connections, because
// the server has not received all of the daemon's bytes on them.
func (p *proxy) silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
	if !on {
		for c := range p.conns {
			c.Close()
		}
	}
}

// delay makes one in four of the daemon's ledger entries arrive late from now on, by up to most.
func (p *proxy) delay(most time.Duration) { p.late.Store(int64(most)) }

// gate holds messages of the daemon until it is opened.
type gate struct {
	parts [][]byte // a message is held if its protocol line contains all of them
	open  func()   // releases the held messages; later messages pass
	wait  chan struct{}
	held  atomic.Int64
}

// used reports whether a message is held.
func (g *gate) used() (bool, error) { return g.held.Load() > 0, nil }

// hold replaces the gate. The new gate holds the daemon's messages whose protocol line contains all parts. The
// previous gate keeps the messages that it holds until it is opened.
func (p *proxy) hold(parts ...string) *gate {
	g := &gate{wait: make(chan struct{})}
	for _, s := range parts {
		g.parts = append(g.parts, []byte(s))
	}
	g.open = sync.OnceFunc(func() { close(g.wait) })
	p.gate.Store(g)
	return g
}

// pass waits until a message may pass.
func (g *gate) pass(line []byte) {
	for _, p := range g.parts {
		if !bytes.Contains(line, p) {
			return
		}
	}
	g.held.Add(1)
	<-g.wait
}

// carry copies the daemon's messages to the server.
func (p *proxy) carry(to io.Writer, from io.Reader) {
	r := bufio.NewReaderSize(from, 64<<10)
	w := bufio.NewWriterSize(to, 64<<10)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if most := p.late.Load(); most > 0 && bytes.Contains(line, []byte("PUB lz.ledger.")) && rand.IntN(4) == 0 {
			if w.Flush() != nil {
				return
			}
			time.Sleep(time.Duration(rand.Int64N(most)))
		}
		if g := p.gate.Load(); g != nil && bytes.Contains(line, []byte("PUB ")) {
			if w.Flush() != nil {
				return
			}
			g.pass(line)
		}
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		dst := io.Writer(w)
		if mute {
			dst = io.Discard
		}
		if _, err := dst.Write(line); err != nil {
			return
		}
		if _, err := io.CopyN(dst, r, payload(line)); err != nil {
			return
		}
		if r.Buffered() == 0 && w.Flush() != nil {
			return
		}
	}
}

// payload returns the number of bytes that follow a line of the NATS protocol.
func payload(line []byte) int64 {
	fields := bytes.Fields(line)
	if len(fields) < 3 || !bytes.HasSuffix(fields[0], []byte("PUB")) {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[len(fields)-1]), 10, 64)
	if err != nil {
		return 0
	}
	return n + 2 // the end of the line
}

func (p *proxy) close() {
	p.l.Close()
	p.set(true)
	p.wg.Wait()
}
