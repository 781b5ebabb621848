package mcpwire

import (
	"bufio"
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxClientLine bounds one message of a client over standard input, in bytes.
const maxClientLine = 16 << 20

// stdio is the connection with a client that exchanges lines with this process.
type stdio struct {
	in       io.ReadCloser
	out      io.Writer
	messages chan jsonrpc.Message
	closed   chan struct{}
	ended    chan struct{} // closed once the input has ended
	write    sync.Mutex
	once     sync.Once
}

// Stdio connects with a client over the standard input and output of this process. A line that is not
// a message is answered with a JSON-RPC error, and the connection goes on. The SDK's own transport ends
// with such a line.
func Stdio(in io.ReadCloser, out io.Writer) mcp.Connection {
	s := &stdio{in: in, out: out,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		scan(bufio.NewReaderSize(in, 64<<10), maxClientLine, s.messages, s.closed, func(bad *badMessage) jsonrpc.Message {
			_ = s.line(bad.answer()) // if the client reads nothing, it has ended
			return nil
		})
	}()
	return s
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

func (s *stdio) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.line(append(b, '\n'))
}

func (s *stdio) line(b []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.out.Write(b)
	return err
}

func (s *stdio) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.in.Close()
}
