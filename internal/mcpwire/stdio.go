package mcpwire

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxClientLine bounds one message of a client over standard input, in bytes.
const maxClientLine = 16 << 20

// bom is the byte order mark that some programs write before their first line.
const bom = "\uFEFF"

// stdio is the connection with a client that exchanges lines with this process.
type stdio struct {
	in       io.ReadCloser
	out      io.Writer
	messages chan jsonrpc.Message
	errors   chan []byte   // answers to lines that are not messages, not yet written
	turn     chan struct{} // has an element while a line is written
	closed   chan struct{}
	gone     chan struct{} // closed when no line waits for the client any longer
	ended    chan struct{} // closed once the input has ended
	once     sync.Once
}

// Stdio connects with a client over the standard input and output of this process. A line that is not
// a message is answered with a JSON-RPC error, and the connection goes on. The SDK's own transport ends
// with such a line. Messages are read also while the client reads nothing. Meanwhile at most maxErrors
// errors are kept for it, and others are dropped.
func Stdio(in io.ReadCloser, out io.Writer) mcp.Connection {
	s := &stdio{in: in, out: out, messages: make(chan jsonrpc.Message), errors: make(chan []byte, maxErrors),
		turn: make(chan struct{}, 1), closed: make(chan struct{}), gone: make(chan struct{}), ended: make(chan struct{})}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for b := range s.errors {
			if s.line(context.Background(), b) != nil {
				return // the client has ended
			}
		}
	}()
	go func() {
		defer close(s.ended)
		r := bufio.NewReaderSize(in, 64<<10)
		if b, _ := r.Peek(1); len(b) == 1 && b[0] == bom[0] {
			if b, _ := r.Peek(len(bom)); string(b) == bom {
				_, _ = r.Discard(len(bom))
			}
		}
		scan(r, maxClientLine, s.messages, s.closed, s.refuse)
		close(s.errors)
		select {
		case <-written:
		case <-s.closed:
		case <-time.After(terminate):
		}
	}()
	return s
}

// refuse answers a line that is not a message. A response gets no answer: the server that waits for it
// gets an error in its place. If it is not known whether the line is a request, its id may be one of the
// server's, so the answer has no id.
func (s *stdio) refuse(bad *badMessage) jsonrpc.Message {
	switch {
	case bad.response && bad.outcome:
		if id, err := ParseID(bad.id); err == nil && id.IsValid() {
			return fault(id, "the client's answer was refused: "+bad.text)
		}
		return nil
	case bad.response:
		bad.id = nil
	}
	select {
	case s.errors <- bad.answer():
	default:
	}
	return nil
}

func (s *stdio) SessionID() string { return "" }

func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.ended:
		return nil, io.EOF
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *stdio) Write(ctx context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.line(ctx, append(b, '\n'))
}

// line writes a line. Once ctx has ended or the connection is closed, the client has the time terminate
// to read it.
func (s *stdio) line(ctx context.Context, b []byte) error {
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(terminate, func() { close(late) }) })
	defer stop()
	done := make(chan error, 1)
	select {
	case s.turn <- struct{}{}:
		go func() {
			_, err := s.out.Write(b)
			<-s.turn
			done <- err
		}()
	case <-s.gone:
		return io.ErrClosedPipe
	case <-late:
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-s.gone:
		return io.ErrClosedPipe
	case <-late:
		return ctx.Err()
	}
}

// Close ends Read at once, and each Write soon, even if the client reads nothing.
func (s *stdio) Close() error {
	s.once.Do(func() {
		close(s.closed)
		time.AfterFunc(terminate, func() { close(s.gone) })
	})
	return s.in.Close()
}
