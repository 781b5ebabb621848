package arbiter

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// A reply that is larger than a NATS message must be replaced by an error reply with the same sequences. Such a reply
// can come from the entry of an earlier version, which has whole memories.
func TestPromiseC20AnAnswerThatFitsIntoNoMessageIsAnError(t *testing.T) {
	const most = 1 << 20
	rep := &streams.Reply{Verdict: streams.Allow, Seq: 7, IntakeSeq: 3,
		Recall: &streams.RecallEntry{Admitted: []streams.RecallItem{{Content: strings.Repeat("x", most)}}}}
	got, body := encode(rep, most)
	if len(body) > most || got.Verdict != streams.Hold || got.Error == nil || got.Error.Code != streams.CodeReplySize ||
		got.Seq != 7 || got.IntakeSeq != 3 {
		t.Errorf("%d bytes: %+v", len(body), got)
	}
	if got, _ := encode(&streams.Reply{Verdict: streams.Allow}, most); got.Verdict != streams.Allow || got.Error != nil {
		t.Errorf("%+v", got)
	}
}

// If a joint decision is dropped, the next one gets the same ledger sequence. The recall of the dropped decision must
// not be served with the verdict of the next one.
func TestTheRecallOfADroppedDecisionIsNotServed(t *testing.T) {
	f := &Front{waiting: make(map[requestKey][]*waiter)}
	w, ok := f.await(requestKey{"demo", "agent", "r"})
	if !ok {
		t.Fatal("the front accepts no waiting request")
	}
	read := func(query string) *streams.RecallEntry {
		r := &streams.RecallEntry{Query: query}
		r.Agent, r.ID = "agent", "r"
		return r
	}
	dropped, stored := read("dropped"), read("stored")
	f.recalled("demo", 7, dropped)
	f.recalled("demo", 7, stored)
	if got := f.remembered(w, 7); got != stored {
		t.Errorf("served: %+v", got)
	}
	fold := &Fold{dropped: f.dropRecalls}
	fold.Reset()
	if got := f.remembered(w, 7); got != nil {
		t.Errorf("served after the arbiter dropped it: %+v", got)
	}
}

// nats-server drops an answer to an agent after two minutes, so the front must not promise later ones.
func TestAnAnswerTimeoutAboveThatOfTheServerIsRefused(t *testing.T) {
	if _, err := StartFront(t.Context(), FrontConfig{Timeout: 2 * time.Minute}); err == nil ||
		!strings.Contains(err.Error(), "1m50s") {
		t.Errorf("got %v", err)
	}
}

// fakeOffer is an offer with unbuffered channels. So a send succeeds only while the front waits for it.
type fakeOffer struct {
	answers chan []streams.Entry
	decided chan uint64
}

func (o *fakeOffer) Answers() <-chan []streams.Entry { return o.answers }
func (o *fakeOffer) Decided() <-chan uint64          { return o.decided }

// A caller is answered only once the joint frame is in the ledger, although the front knows the entries before.
func TestACallerHearsNothingBeforeTheJointFrameIsInTheLedger(t *testing.T) {
	f := new(Front)
	ev := &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file", Args: []byte(`{}`)}
	a := streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindAct}
	digest, err := approval.ActionDigest("demo", "agent", "s", "a1", ev.Tool, ev.Args)
	if err != nil {
		t.Fatal(err)
	}
	body, err := streams.Marshal(&streams.VerdictEntry{Type: streams.TypeAction, ID: "a1", Agent: "agent", Digest: digest,
		Intake: 5, Verdict: streams.Allow})
	if err != nil {
		t.Fatal(err)
	}
	entries := []streams.Entry{
		{Stage: streams.StageIngest, Type: streams.TypeAction, Project: "demo", Seq: 9, Src: 5, Body: []byte(`{}`)},
		{Stage: streams.StageArbiter, Type: streams.TypeVerdict, Project: "demo", Seq: 9, Index: 1, Body: body}}
	o := &fakeOffer{make(chan []streams.Entry), make(chan uint64)}
	done := make(chan *streams.Reply, 1)
	go func() {
		_, rep := f.offered(t.Context(), o, new(nats.Msg), &waiter{}, a, ev)
		done <- rep
	}()
	for range 2 { // it waits again after the first
		select {
		case o.answers <- entries:
		case rep := <-done:
			t.Fatalf("answered before the frame is in the ledger: %+v", rep)
		}
	}
	o.decided <- 5
	if rep := <-done; rep.Error != nil || rep.Verdict != streams.Allow || rep.Seq != entries[1].Position() {
		t.Errorf("%+v, %+v", rep, rep.Error)
	}
}

// A proposal is offered, and its request times out. Then ingest declines the offer. The proposal must be published to
// the intake.
func TestALateDeclinedProposalIsPublished(t *testing.T) {
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{js: js, cfg: FrontConfig{Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)}}
	subject, err := streams.IntakeSubject("demo", "agent", streams.KindAct, "")
	if err != nil {
		t.Fatal(err)
	}
	o := &fakeOffer{make(chan []streams.Entry), make(chan uint64)}
	timedOut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, rep := f.offered(timedOut, o, &nats.Msg{Subject: subject, Data: []byte("{}")}, &waiter{}, streams.Address{},
		nil); rep == nil || rep.Error == nil || rep.Error.Code != streams.CodeTimeout {
		t.Fatalf("%+v", rep)
	}
	o.decided <- 0
	natstest.Eventually(t, time.Minute, "the proposal is in the intake", func() bool {
		s, err := js.Stream(t.Context(), streams.IntakeStream)
		return err == nil && s.CachedInfo().State.Msgs == 1
	})
}
