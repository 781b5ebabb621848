package stage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// Anybody who may read the ledger can have the server send a copy of a message to any subject, even to a ledger subject
// of a stage. Such a copy must not count as an entry of that stage.
func TestACopyThatTheServerSendsIsNoEntryOfAStage(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js := must(jetstream.New(nc))
	forged := streams.Entry{Partition: 3, Stage: "sentinel-other", Type: streams.TypeVerdict, Project: "acme", Src: 1,
		Salt: streams.NewSalt(), Body: []byte(`{}`)}
	at := must(js.PublishMsg(t.Context(), wire.Msg(&forged))).Sequence
	as := streams.LedgerSubject(3, streams.StageArbiter)
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+streams.LedgerStream, as, fmt.Appendf(nil, `{"seq":%d}`,
		at)); err != nil {
		t.Fatal(err)
	}
	stream := must(js.Stream(t.Context(), streams.LedgerStream))
	natstest.Eventually(t, time.Minute, "the server's copy is in the ledger", func() bool {
		return must(stream.Info(t.Context())).State.LastSeq == at+1
	})
	if e, err := stage.EntryAt(t.Context(), js, at+1); err == nil && e.Stage == streams.StageArbiter && e.Type != "" {
		t.Errorf("the copy is read as an entry of %s: %+v", e.Stage, e)
	}
	r := &wire.Reader{Conn: nc}
	if e, err := r.Read(at + 1); err == nil {
		t.Errorf("the copy is read as an entry: %+v", e)
	}
	if e, err := r.Read(at); err != nil || e == nil || e.Stage != forged.Stage {
		t.Errorf("the message itself is read as %+v, %v", e, err)
	}
}
