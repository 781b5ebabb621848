package mcpwire

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestABadResponseOfAClientIsAnErrorForTheServer(t *testing.T) {
	in, client := io.Pipe()
	s := Stdio(in, io.Discard)
	defer s.Close()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":5,"error":{"code":-1.0,"message":"no"}}`, `{"jsonrpc":"2.0","id":5,"error":"declined"}`,
		`{"id":5,"result":{}}`,
	} {
		go io.WriteString(client, line+"\n")
		m, err := s.Read(t.Context())
		if r, ok := m.(*jsonrpc.Response); err != nil || !ok || r.Error == nil || r.ID.Raw() != int64(5) {
			t.Errorf("%s is read as %v, %v", line, m, err)
		}
	}
}

func TestAClientThatReadsNothingIsReadAndClosed(t *testing.T) {
	in, client := io.Pipe()
	_, out := io.Pipe()
	s := Stdio(in, out)
	go io.WriteString(client, strings.Repeat("bad\n", 20000)+`{"jsonrpc":"2.0","method":"notifications/x"}`+"\n")
	if m, err := s.Read(t.Context()); err != nil || m == nil {
		t.Fatalf("%v, %v", m, err)
	}
	s.Close()
	if err := s.Write(context.Background(), &jsonrpc.Request{Method: "notifications/x"}); err == nil {
		t.Error("a line was written that nobody reads")
	}
}

func TestAByteOrderMarkBeforeTheFirstLineIsSkipped(t *testing.T) {
	in, client := io.Pipe()
	near, out := io.Pipe()
	s := Stdio(in, out)
	defer s.Close()
	go io.WriteString(client, bom+`{"jsonrpc":"2.0","id":1,"method":"initialize"}`+"\n")
	go func() {
		if line, err := bufio.NewReader(near).ReadString('\n'); err == nil {
			t.Errorf("it is answered with %s", line)
			client.Close()
		}
	}()
	if m, err := s.Read(t.Context()); err != nil || m.(*jsonrpc.Request).Method != "initialize" {
		t.Errorf("%v, %v", m, err)
	}
}
