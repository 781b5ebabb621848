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

// MaxMessage is the maximum length of one message of a server, in bytes. A larger message is skipped without being held
// in memory. If it is the answer to a request, the host gets an error as the answer.
const MaxMessage = 32 << 20

// maxErrors is the maximum number of errors that wait until the server or client reads them. Further errors are
// dropped.
const maxErrors = 16

// terminate is the time within which a server must end after its input was closed. If it does not, it gets SIGTERM, and
// has the same time again.
const terminate = 3 * time.Second

// process is a server that was started as a process. Its messages are lines in its pipes.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	log *slog.Logger

	messages chan jsonrpc.Message
	closed   chan struct{}
	ended    chan struct{} // closed when the process has ended; exit is set before that
	exit     error

	write sync.Mutex
	once  sync.Once
}

// Start starts a server. If a line of its standard output is not a message, the line is skipped and a warning is
// logged.
func Start(cmd *exec.Cmd, log *slog.Logger) (mcp.Connection, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A process that the server started may keep standard error open. Wait must not wait for it.
	cmd.WaitDelay = terminate
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{cmd: cmd, in: in, log: log,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		scan(bufio.NewReaderSize(out, 64<<10), MaxMessage, s.messages, s.closed, s.skipped())
		_, _ = io.Copy(io.Discard, out) // a server that still writes must not be blocked, so that it can end
		s.exit = cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// skipped returns a function for lines that are not messages. The function logs the line. If the line is a request with
// an id, it sends the server an error. If the line may be a response, the function returns an error as the response, so
// that the request with this id does not wait.
func (s *process) skipped() func(*badMessage) jsonrpc.Message {
	warnings := 0
	answers := make(chan struct{}, maxErrors)
	return func(bad *badMessage) jsonrpc.Message {
		if warnings < 20 { // limit the warnings: a server may write its own log to its output
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
			go func() { // in a goroutine, because the server may not read before its output is read
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

// scan reads messages until the input ends or closed is closed. A message may have at most limit bytes. For a line, or
// a part of a batch, that is not a message, scan calls bad. If bad returns a message, it takes the place of that part.
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

// readLine reads a line and returns it without the line break. If the line is longer than most bytes, readLine returns
// an outline of it instead.
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

// decodeLine decodes the messages of a line, which is one message or a batch. If large is not nil, it is the outline of
// a line of more than limit bytes. Then decodeLine returns an error for each message.
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

// batch returns the messages in a batch. If the line is not a batch, it returns the line.
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

// Close closes the server's input. If the server then does not end by itself, Close stops it.
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
