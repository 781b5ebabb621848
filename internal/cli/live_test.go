package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/cli"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// An agent can make the server publish an acknowledgement to the live stream, and a sentinel may publish anything
// there. Such messages are skipped, and a note counts them.
func TestReadLiveSkipsWhatNoStageWrote(t *testing.T) {
	nc := natstest.Start(t).Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ seq, body string }{
		{"1", `{"rule":"first"}`}, {"", `{"stream":"LZ_INTAKE","seq":7}`}, {"", `{"rule":"forged"}`}, {"2", `{`},
		{"3", `{"rule":"last"}`}, {"", `{"error":{"code":400},"stream":"LZ_INTAKE","seq":0}`},
	} {
		msg := nats.NewMsg("lz.live.demo.alert.low.x")
		if msg.Data = []byte(m.body); m.seq != "" {
			msg.Header.Set(streams.HeaderSeq, m.seq)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	var rules []string
	var notes strings.Builder
	err = cli.ReadLive(t.Context(), nc, "lz.live.demo.alert.>", 0, false, &notes,
		func(_ string, x streams.Alert, _ []byte) error {
			rules = append(rules, x.Rule)
			return nil
		})
	if err != nil || !slices.Equal(rules, []string{"first", "last"}) {
		t.Errorf("the alerts are %q (%v)", rules, err)
	}
	if !strings.HasPrefix(notes.String(), "NOTE: 4 messages") {
		t.Errorf("the note is %q", notes.String())
	}
}
