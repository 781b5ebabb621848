package ingest

import (
	"fmt"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// In virtual time a repeat may come after time has passed: it is a repeat, and
// what is new and lies in the past is refused.
func TestARepeatOfAnEarlierTimeIsARepeat(t *testing.T) {
	h := newHouse(t, offline(t))
	say := func(id string, at time.Time) any {
		return h.put(&stage.Message{Address: streams.Address{Project: "syn-p", Agent: "agent", Kind: streams.KindObs, Origin: beliefs.OriginWeb},
			Data: fmt.Appendf(nil, `{"id":%q,"time":%q,"content":"x"}`, id, at.Format(time.RFC3339Nano))})
	}
	early := epoch.Add(time.Hour)
	say("a", early)
	say("b", early.Add(time.Hour))
	rep, ok := say("a", early).(*streams.RepeatEntry)
	if !ok || rep.Differs || !rep.Time.Equal(early.Add(time.Hour)) {
		t.Errorf("the repeat is %+v", rep)
	}
	if rej, ok := say("c", early).(*streams.RejectedEntry); !ok || rej.Code != streams.CodeTimeTravel {
		t.Errorf("an event of the past is %+v", rej)
	}
}
