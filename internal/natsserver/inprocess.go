package natsserver

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsfiles"
)

// Dial opens an in-process connection with the named credential of the data folder.
func (s *Server) Dial(name string, opts ...nats.Option) (*nats.Conn, error) {
	file := CredsFile(s.cfg.Data, name)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", append(opts, nats.InProcessServer(s), nats.UserCredentials(file),
		nats.CustomInboxPrefix(natsfiles.Inbox(b)))...)
}

// InProcessConn opens a connection to the running server. It implements nats.InProcessServer.
func (s *Server) InProcessConn() (net.Conn, error) {
	ns := s.current()
	if ns == nil {
		return nil, errors.New("nats-server is stopped")
	}
	c, err := ns.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &inProcess{Conn: c, handshake: 2}, nil
}

// inProcess is a client's end of an in-process connection. A pipe has no buffer: a client that writes PING after
// CONNECT blocks while the server, which refuses the CONNECT, writes its error. Neither reads, the server closes, and
// the client gets an error of the pipe in the place of the refusal. So the two writes of the handshake do not block.
type inProcess struct {
	net.Conn

	mu        sync.Mutex
	handshake int           // writes that remain of the handshake; guarded by mu, like the fields below
	written   chan struct{} // closed when the writes so far are done; nil: they are
	err       error         // of a write of the handshake; valid once written is closed
}

func (c *inProcess) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.written
	if c.handshake == 0 {
		if before != nil {
			<-before
			c.written = nil
		}
		if c.err != nil {
			return 0, c.err
		}
		return c.Conn.Write(b)
	}
	c.handshake--
	b, done := append([]byte(nil), b...), make(chan struct{})
	c.written = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if c.err == nil {
			_, c.err = c.Conn.Write(b)
		}
	}()
	return len(b), nil
}
