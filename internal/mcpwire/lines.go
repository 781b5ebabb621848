package mcpwire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxMessage is the maximum length of one message of a server, in bytes. A larger message
// is never held in memory. If it answers a request, that request gets an error.
const MaxMessage = 32 << 20

// maxErrors is the maximum number of errors that wait until a server reads them.
const maxErrors = 16

// terminate is how long a server may take to end after its input is closed. After that it
// gets SIGTERM, and has the same time again.
const terminate = 3 * time.Second

// process is a started server that exchanges lines over its pipes.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	log *slog.Logger

	messages chan jsonrpc.Message
	closed   chan struct{}
	ended    chan struct{} // closed when the process has ended and exit is set
	exit     error

	write sync.Mutex
	once  sync.Once
}

// Start starts a server. A line on its standard output that is not a message is skipped
// with a warning.
func Start(cmd *exec.Cmd, log *slog.Logger) (mcp.Connection, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A grandchild that keeps standard error open must not keep Wait from returning.
	cmd.WaitDelay = terminate
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{cmd: cmd, in: in, log: log,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		scan(bufio.NewReaderSize(out, 64<<10), MaxMessage, s.messages, s.closed, s.skipped())
		_, _ = io.Copy(io.Discard, out) // so that a server that still writes is not blocked and can end
		s.exit = cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// skipped returns a function that logs a line that is not a message. If the line is a request with an
// id, the server gets an error. If the line may be a response, the function returns an error in its place,
// so that the request with its id does not wait.
func (s *process) skipped() func(*badMessage) jsonrpc.Message {
	warnings := 0
	answers := make(chan struct{}, maxErrors)
	return func(bad *badMessage) jsonrpc.Message {
		if warnings < 20 { // a server that logs to its output must not fill our log
			warnings++
			s.log.Warn("a line of the server's output was skipped", "err", bad)
		}
		if bad.id == nil {
			return nil
		}
		if bad.response {
			id, err := ParseID(bad.id)
			if err != nil || !id.IsValid() || !bad.outcome {
				return nil
			}
			return fault(id, "the server's message was refused: "+bad.text)
		}
		select {
		case answers <- struct{}{}:
			go func() { // the server may read nothing before its output is read
				defer func() { <-answers }()
				if err := s.line(bad.answer()); err != nil {
					s.log.Warn("an error was not sent to the server", "err", err)
				}
			}()
		default:
		}
		return nil
	}
}

// scan reads messages of at most limit bytes until the input ends or closed is closed. It calls bad for
// lines and parts of batches that are not messages. bad may return a message in their place.
func scan(r *bufio.Reader, limit int, to chan<- jsonrpc.Message, closed <-chan struct{},
	bad func(*badMessage) jsonrpc.Message) {
	for {
		line, large, err := readLine(r, limit)
		messages, refused := decodeLine(line, large, limit)
		for _, b := range refused {
			if m := bad(b); m != nil {
				messages = append(messages, m)
			}
		}
		for _, m := range messages {
			select {
			case to <- m:
			case <-closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line without its line break. If the line is longer than most, it returns the line's outline
// instead.
func readLine(r *bufio.Reader, most int) (line []byte, large *outline, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if large == nil && len(line)+len(part) > most {
			large, line = outlineOf(line), nil
		}
		if large == nil {
			line = append(line, part...)
		} else {
			large.add(part)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), large, err
		}
	}
}

// decodeLine reads the messages of a line: one, or a batch. If the line has more bytes than limit, large is its
// outline.
func decodeLine(line []byte, large *outline, limit int) (messages []jsonrpc.Message, bad []*badMessage) {
	if large != nil {
		text := fmt.Sprintf("the message is too large: it has %d bytes, the limit is %d", large.size, limit)
		for _, raw := range batch(bytes.TrimSpace(large.text)) {
			bad = append(bad, readOutermost(raw).refused(text)...)
		}
		return nil, bad
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil, nil
	}
	for _, raw := range batch(line) {
		m, b := decode(raw)
		messages = append(messages, m...)
		if b != nil {
			bad = append(bad, b)
		}
	}
	return messages, bad
}

// batch returns the messages of a batch, or line itself.
func batch(line []byte) []json.RawMessage {
	var parts []json.RawMessage
	if bytes.HasPrefix(line, []byte("[")) && json.Unmarshal(line, &parts) == nil && len(parts) > 0 {
		return parts
	}
	return []json.RawMessage{line}
}

func fault(id jsonrpc.ID, text string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "lazaret: " + text}}
}

func (s *process) SessionID() string { return "" }

func (s *process) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.ended:
		if s.exit != nil {
			return nil, s.exit
		}
		return nil, io.EOF
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *process) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.line(append(b, '\n'))
}

func (s *process) line(b []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.in.Write(b)
	return err
}

// Close closes the server's input, and stops the server if it does not end by itself.
func (s *process) Close() error {
	s.once.Do(func() {
		close(s.closed)
		_ = s.in.Close()
		for _, signal := range []os.Signal{syscall.SIGTERM, os.Kill} {
			select {
			case <-s.ended:
				return
			case <-time.After(terminate):
				_ = s.cmd.Process.Signal(signal)
			}
		}
	})
	select {
	case <-s.ended:
		return s.exit
	case <-time.After(2 * terminate):
		return errors.New("the server process does not exit")
	}
}
