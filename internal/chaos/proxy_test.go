package chaos

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// A held message arrives after its process has closed the connection, and only messages that match the gate are
// held.
func TestAHeldMessageOutlivesItsProcess(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p, err := newProxy(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	g := p.hold(" lz.ledger.", ".joint ")
	defer g.open()
	daemon, err := net.Dial("tcp", p.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The payload of the first message looks like a message of the gate.
	const first = "PUB lz.ledger.3.ingest 31\r\n\r\nPUB lz.ledger.3.joint 8\r\n1234\r\n"
	const held = "HPUB lz.ledger.3.joint _INBOX.1 4 9\r\nabc\r\n1234\r\n"
	if _, err := io.WriteString(daemon, first+held); err != nil {
		t.Fatal(err)
	}
	conn, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	got := make([]byte, len(first))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != first {
		t.Fatalf("the server received %q: %v", got, err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if ok, _ := g.used(); ok {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no message is held")
		}
	}
	daemon.Close()
	if g.held.Load() != 1 || r.Buffered() > 0 {
		t.Fatalf("%d messages are held, %d bytes arrived", g.held.Load(), r.Buffered())
	}
	g.open()
	if got, err := io.ReadAll(r); err != nil || string(got) != held {
		t.Errorf("the server received %q: %v", got, err)
	}
}
