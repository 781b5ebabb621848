package chaos

import (
	"io"
	"net"
	"sync"
)

// proxy is a TCP proxy between a daemon and the server. It can cut connections, or drop the daemon's
// messages while those of the server still arrive.
type proxy struct {
	l      net.Listener
	target string

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

// hold registers a connection, so that it can be cut. It returns false if connections are cut now.
func (p *proxy) hold(c net.Conn) bool {
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
	if !p.hold(c) {
		return
	}
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(s)
	if !p.hold(s) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(mouth{p, s}, c); s.Close(); c.Close() })
	_, _ = io.Copy(c, s)
	s.Close()
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

// silence drops the daemon's messages from now on. When it is switched off, it closes the connections,
// because bytes of the daemon are missing in them.
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

// mouth is the direction from the daemon to the server.
type mouth struct {
	p  *proxy
	to net.Conn
}

func (m mouth) Write(b []byte) (int, error) {
	m.p.mu.Lock()
	mute := m.p.mute
	m.p.mu.Unlock()
	if mute {
		return len(b), nil
	}
	return m.to.Write(b)
}

func (p *proxy) close() {
	p.l.Close()
	p.set(true)
	p.wg.Wait()
}
