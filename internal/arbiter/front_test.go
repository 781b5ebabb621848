package arbiter

import (
	"strings"
	"testing"

	"lazaret/streams"
)

// An earlier version wrote recalls as entries with whole memories, which may be larger than a
// message.
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

// The entry of a joint decision that was dropped has the sequence of the next one. Its recall must not be
// served with the verdict on the next one.
func TestTheRecallOfADroppedDecisionIsNotServed(t *testing.T) {
	f := &Front{waiting: make(map[caller][]*waiter)}
	w, ok := f.await(caller{"demo", "agent", "r"})
	if !ok {
		t.Fatal("it does not wait")
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
