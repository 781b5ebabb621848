package natsserver

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsfiles"
)

// Dial opens a connection inside the process, with the credential of this name in the data folder.
func (s *Server) Dial(name string, opts ...nats.Option) (*nats.Conn, error) {
	file := CredsFile(s.cfg.Data, name)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", append(opts, nats.InProcessServer(s), nats.UserCredentials(file),
		nats.CustomInboxPrefix(natsfiles.Inbox(b)))...)
}

// InProcessConn opens a connection inside the process to the running server. It implements nats.InProcessServer.
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

// inProcess is the client's end of a connection inside the process. The connection is a pipe without a buffer. A client
// writes CONNECT and then PING. If the server refuses the CONNECT, it writes an error at the same time. Then both write
// and neither reads, so the server closes the connection, and the client gets an error of the pipe instead of the
// refusal. To avoid that, the client's two writes return at once, before the server has read them.
type inProcess struct {
	net.Conn

	mu        sync.Mutex
	handshake int           // number of writes that the handshake still makes; guarded by mu, like the fields below
	written   chan struct{} // closed when all writes up to now are done; nil if they are done
	err       error         // error of a write of the handshake; valid only after written is closed
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
