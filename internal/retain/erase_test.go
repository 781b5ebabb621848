package retain

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// For a cluster, the record states how many replicas contain a deleted message, and how to replace
// them.
func TestPromiseB14TheRecordOfAClusterNamesItsReplicasAndTheProcedure(t *testing.T) {
	i := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3},
		Cluster: &jetstream.ClusterInfo{Name: "lazaret"}}
	r := &Record{Places: []Place{{Where: filesOf + streams.LedgerStream, What: "deleted messages", Left: leftOf(i)}}}
	if text := r.text(time.Now()); r.Whole() ||
		!strings.Contains(text, "left: deleted from 3 replicas, not overwritten") ||
		!strings.Contains(text, "lazaret server rewrite") {
		t.Errorf("whole: %v\n%s", r.Whole(), text)
	}
}

// A separate nats-server does not answer requests to overwrite deleted messages. The record must then say of each
// stream that its messages are deleted and not overwritten.
func TestPromiseB14TheRecordSaysWhatWasNotOverwritten(t *testing.T) {
	srv := natstest.Start(t)
	c := &Config{Conn: srv.Connect()}
	r := new(Record)
	if err := c.eraseFiles(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if text := r.text(time.Now()); r.Whole() ||
		strings.Count(text, "left: deleted, not overwritten: nats-server is a process of its own") != 3 {
		t.Errorf("whole: %v\n%s", r.Whole(), text)
	}

	// With the embedded server, the record contains the server's EraseReply.
	done := streams.EraseReply{Run: "r", Done: true, Streams: []streams.Erased{
		{Stream: streams.LedgerStream, Messages: 7, Files: 2},
		{Stream: streams.LiveStream, Messages: 3, Files: 1, Left: "2.blk: the record at 17 has a wrong checksum"},
		{Stream: streams.IntakeStream}}}
	answers := []streams.EraseReply{{Error: "another erasure or copy is under way: ask again"}, {Run: "r"}, {Run: "r"}, done,
		{Run: "q"}, {Run: "q", Done: true, Error: "nothing is known of this run"}}
	var asked []string
	nc := srv.Connect()
	if _, err := nc.Subscribe(streams.EraseSubject, func(m *nats.Msg) {
		var req streams.EraseRequest
		if err := streams.Unmarshal(m.Data, &req); err != nil {
			t.Error(err)
		}
		asked = append(asked, req.Run)
		b, err := streams.Marshal(answers[0])
		if err != nil {
			t.Error(err)
		}
		if answers = answers[1:]; m.Respond(b) != nil {
			t.Error("no answer")
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	r = new(Record)
	if err := c.eraseFiles(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked, ","); got != ",,r,r" {
		t.Errorf("asked %q", got)
	}
	text := r.text(time.Now())
	for _, want := range []string{
		"files of LZ_LEDGER: deleted messages, overwritten in 2 block files: 7\n",
		"files of LZ_LIVE: deleted messages, overwritten in 1 block files: 3\n  left: 2.blk: the record at 17 has " +
			"a wrong checksum\n",
		"files of LZ_INTAKE: they contained no deleted messages: 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the record\n%s", want, text)
		}
	}
	if r.Whole() {
		t.Error("the record counts as whole, although a block was left")
	}
	if err := c.eraseFiles(t.Context(), new(Record)); err == nil || !strings.Contains(err.Error(),
		"nothing is known of this run") {
		t.Errorf("an erasure of which nothing is known: %v", err)
	}
}

// An erasure of large files may take longer than the caller waits. Then the error must say that the erasure goes on.
func TestAnErasureThatOutlastsTheCommandSaysThatItGoesOn(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	if _, err := nc.Subscribe(streams.EraseSubject, func(m *nats.Msg) {
		if err := m.Respond([]byte(`{"run":"r"}`)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	c := &Config{Conn: srv.Connect(), Tell: t.Logf}
	if err := c.eraseFiles(ctx, new(Record)); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "still removes") {
		t.Errorf("%v", err)
	}
}
