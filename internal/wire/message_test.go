package wire_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// A direct get returns the stored message, unless the message has headers that the server adds itself.
func TestADirectAnswerIsTheStoredMessage(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	get := func(seq uint64) *nats.Msg {
		t.Helper()
		m, err := nc.Request("$JS.API.DIRECT.GET."+streams.IntakeStream, fmt.Appendf(nil, `{"seq":%d}`, seq), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, test := range map[string]struct {
		header nats.Header
		direct bool
	}{
		"no header":            {nil, true},
		"an id":                {nats.Header{streams.HeaderCloudEventID: {"e1"}, "X": {"a", "b"}}, true},
		"a status":             {nats.Header{"Status": {"404"}}, true},
		"an answer's stream":   {nats.Header{"Nats-Stream": {"OTHER"}}, false},
		"an answer's sequence": {nats.Header{"Nats-Sequence": {"1"}}, false},
		"an answer's time":     {nats.Header{"Nats-Time-Stamp": {"never"}}, false},
	} {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "lz.in.p.a.obs.web", Header: test.header,
			Data: []byte(name)})
		if err != nil {
			t.Fatalf("publishing the message %s: %v", name, err)
		}
		got := wire.Direct(get(ack.Sequence), ack.Sequence)
		if !test.direct {
			if got != nil {
				t.Errorf("%s: it is %v, want none", name, got)
			}
			continue
		}
		if got == nil {
			t.Errorf("%s: there is none", name)
			continue
		}
		if !strings.HasSuffix(got.Subject, ".p.a.obs.web") || got.Sequence != ack.Sequence || got.Time.IsZero() ||
			string(got.Data) != name || !maps.EqualFunc(got.Header, test.header, slices.Equal) {
			t.Errorf("%s: it is %v with the headers %v", name, got, got.Header)
		}
		if wire.Direct(get(ack.Sequence), ack.Sequence+1) != nil {
			t.Errorf("%s: Direct accepts it as the answer for another sequence", name)
		}
	}
	if m := wire.Direct(get(1000), 1000); m != nil {
		t.Errorf("Direct returns %v for an answer without a message", m)
	}
}
