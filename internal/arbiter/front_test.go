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
