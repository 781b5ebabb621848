package retain

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// A stage that has entries only in joint frames must be among the writers, so that an erasure waits for it. A subject
// that has only messages of the server or of strangers adds no writer.
func TestAStageThatSpokeOnlyInJointFramesIsAWriter(t *testing.T) {
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	var entries []*streams.Entry
	for i, e := range []streams.Entry{
		{Stage: streams.StageIngest, Type: streams.TypeAction, Src: 1},
		{Stage: streams.SentinelStage("core"), Type: streams.TypeAssessment, Src: 1},
		{Stage: streams.SentinelStage("left"), Type: streams.TypeAssessment, Src: 1},
		{Stage: streams.StageArbiter, Type: streams.TypeVerdict, Src: 1},
	} {
		e.Partition, e.Project, e.Salt, e.Body, e.Seq, e.Index = 3, "p", streams.NewSalt(), []byte("{}"), 1, i
		entries = append(entries, &e)
	}
	m := streams.JointFrame(entries, time.Now())
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
		t.Fatal(err)
	}
	for p := 3; p <= 4; p++ {
		if _, err := js.Publish(t.Context(), streams.LedgerSubject(p, streams.StageJoint), []byte("no frame")); err != nil {
			t.Fatal(err)
		}
	}
	// An agent can let the server write acknowledgements to a ledger subject. They are no entries. The stage of an
	// entry before them must still be found.
	own := streams.Entry{Partition: 5, Stage: streams.SentinelStage("own"), Type: streams.TypeAssessment, Project: "p",
		Src: 1, Salt: streams.NewSalt(), Body: []byte("{}")}
	m = own.Message()
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{m.Subject, streams.LedgerSubject(6, streams.SentinelStage("phantom"))} {
		if _, err := js.Publish(t.Context(), subject, []byte(`{"stream":"LZ_INTAKE","seq":7}`)); err != nil {
			t.Fatal(err)
		}
	}
	c := &Config{Without: []string{streams.SentinelStage("left")}}
	got, err := c.writers(t.Context(), js)
	if want := []string{streams.StageArbiter, streams.StageIngest, streams.SentinelStage("core"),
		streams.SentinelStage("own")}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("writers are %v (%v), want %v", got, err, want)
	}
}

// An erasure must remove the same entries, whether a proposal and its answers are in one message or in several. If an
// answer is erased, its proposal is erased too. If a proposal is erased, all its answers are.
func TestAnErasureTakesTheSameOfJointFrames(t *testing.T) {
	observation := func(id, person string) string {
		return fmt.Sprintf(`{"id":%q,"agent":"a","data_subject":%q,"intake":1,"blocks":[{"text":"x"}]}`, id, person)
	}
	for name, c := range map[string]struct {
		proposal, assessment, verdict string
		goes                          bool
	}{
		"a proposal of the person":              {observation("e-act", "jane"), `{}`, `{}`, true},
		"a proposal that names her event":       {`{"id":"e-act","agent":"a","data_subject":"joe","uses":["event-jane"]}`, `{}`, `{}`, true},
		"an assessment that names her event":    {observation("e-act", "joe"), `{"alerts":[{"id":"alert-1","events":["event-jane"]}]}`, `{}`, true},
		"a verdict that names her event":        {observation("e-act", "joe"), `{}`, `{"proposal":%d,"reasons":[{"path":["event-jane"]}]}`, true},
		"a verdict that names her entry":        {observation("e-act", "joe"), `{}`, `{"proposal":%d,"reasons":[{"entry":1}]}`, true},
		"a proposal of which nothing names her": {observation("e-act", "joe"), `{}`, `{"proposal":%d}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var gone [2][]string
			for joint := range gone {
				var ledger []*streams.Entry
				names := make(map[uint64][]string)
				add := func(name string, seq uint64, index int, typ streams.Type, stage string, src uint64, body string) uint64 {
					e := &streams.Entry{Seq: seq, Index: index, Stage: stage, Type: typ, Project: "p", Src: src, Body: []byte(body)}
					ledger, names[seq] = append(ledger, e), append(names[seq], name)
					return e.Position()
				}
				add("hers", 1, 0, streams.TypeObservation, streams.StageIngest, 1, observation("event-jane", "jane"))
				add("his", 2, 0, streams.TypeObservation, streams.StageIngest, 2, observation("event-joe", "joe"))
				at := func(i int) (uint64, int) {
					if joint == 1 {
						return 3, i
					}
					return 3 + uint64(i), 0
				}
				seq, i := at(0)
				proposal := add("proposal", seq, i, streams.TypeAction, streams.StageIngest, 3, c.proposal)
				seq, i = at(1)
				add("answer of core", seq, i, streams.TypeAssessment, "sentinel-core", proposal, c.assessment)
				seq, i = at(2)
				last := add("answer of more", seq, i, streams.TypeAssessment, "sentinel-more", proposal, `{}`)
				seq, i = at(3)
				verdict := c.verdict
				if verdict != `{}` {
					verdict = fmt.Sprintf(verdict, proposal)
				}
				add("verdict", seq, i, streams.TypeVerdict, streams.StageArbiter, last, verdict)
				add("later", 9, 0, streams.TypeObservation, streams.StageIngest, 4, observation("event-later", "joe"))
				tr := newTrace(Subject{"p", "jane"})
				passOver(t, tr, ledger)
				parts, _ := tr.statement(nil)
				for _, seq := range parts[0] {
					gone[joint] = append(gone[joint], names[seq]...)
				}
			}
			if !slices.Equal(gone[0], gone[1]) {
				t.Errorf("of separate messages, %q are erased; of a joint frame, %q", gone[0], gone[1])
			}
			if slices.Contains(gone[1], "proposal") != c.goes || slices.Contains(gone[1], "his") {
				t.Errorf("%q are erased", gone[1])
			}
		})
	}
}
