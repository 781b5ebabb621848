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

// maxClientLine is the maximum length of a message of a client over standard input, in bytes.
const maxClientLine = 16 << 20

// bom is a byte order mark. Some programs write it before their first line.
const bom = "\uFEFF"

// stdio is a connection to a client. Its messages are lines in the standard input and output of this process.
type stdio struct {
	in       io.ReadCloser
	out      io.Writer
	messages chan jsonrpc.Message
	errors   chan []byte   // answers to lines that are not messages; they wait to be written
	turn     chan struct{} // has an element while a line is being written
	closed   chan struct{}
	gone     chan struct{} // closed when a line need no longer wait until the client reads it
	ended    chan struct{} // closed once the input has ended
	once     sync.Once
}

// Stdio returns a connection to a client over the standard input and output of this process. A line that is not a
// message is answered with a JSON-RPC error, and the connection goes on; with the SDK's own transport, such a line ends
// the connection. Stdio reads messages even while the client reads nothing. Then at most maxErrors of the errors wait
// for the client, and the others are dropped.
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

// refuse handles a line of the client that is not a message. If the line is a response, the client gets no answer.
// Instead, refuse returns an error as the response, for the server that waits for it. If it is not known whether the
// line is a request, the answer to the client has no id, because the id in the line could be one of the server's.
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

// line writes a line to the client. If ctx has ended or the connection is closed, it waits at most for the time
// terminate until the client has read the line.
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

// Close makes Read return at once. Each Write returns soon, even if the client reads nothing.
func (s *stdio) Close() error {
	s.once.Do(func() {
		close(s.closed)
		time.AfterFunc(terminate, func() { close(s.gone) })
	})
	return s.in.Close()
}
