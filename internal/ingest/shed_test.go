package ingest

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// turnDown lets ingest reject an observation because the intake has too many messages. Earlier messages may not be
// decided yet. seq is the observation's place in the intake.
func (h *house) turnDown(seq uint64, body string) *streams.RejectedEntry {
	h.t.Helper()
	m := &stage.Message{Seq: seq, Time: h.now, Data: []byte(body), Subject: "lz.in.0.demo.agent.obs.web",
		Address: streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindObs, Origin: beliefs.OriginWeb}}
	why := h.f.Shed(m, "too much waits")
	m.Data = nil
	a, err := h.f.Reject(h.st, m, why)
	if err != nil {
		h.t.Fatal(err)
	}
	h.own(a, seq)
	return a.Decided.(*streams.RejectedEntry)
}

// An observation is turned down before earlier messages of its agent are decided. Then actions of its session must be
// marked as unseen. An equal observation and a session start that come earlier in the intake do not end that. If the
// observation is sent again later, or the session is started later, that ends it.
func TestAnObservationThatIsTurnedDownIsUnseenUntilItIsSentAgain(t *testing.T) {
	const body = `{"content":"{\"session\":\"t\"}","args":{"session":"t"},"id":"o1","session":"s"}`
	h := newHouse(t, offline(t))
	act := func() *streams.Unseen {
		return h.say(streams.KindAct, "", &streams.Action{Head: streams.Head{Session: "s",
			ID: fmt.Sprint("a", h.seq)}, Tool: "read_file"}).(*streams.ActionEntry).UnseenBy
	}
	obs := func() any {
		return h.put(&stage.Message{Address: streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindObs,
			Origin: beliefs.OriginWeb}, Data: []byte(body)})
	}
	begin := func() {
		h.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: fmt.Sprint("s", h.seq), Session: "s"},
			Phase: "start"})
	}
	r := h.turnDown(9, body)
	if r.Code != streams.CodeAgentFull || r.ID != "o1" || r.Session != "s" || !r.Unseen || r.Raw != nil ||
		r.Size != len(body) || r.Digest != streams.Digest([]byte(body)) {
		t.Fatalf("the rejection is %+v", r)
	}
	h.turnDown(10, `no JSON`) // of the agent as a whole
	for range maxHoles + 2 {
		h.turnDown(11, strings.Replace(body, "o1", "o2", 1))
	}
	begin()
	if _, ok := obs().(*streams.ObservationEntry); !ok {
		t.Fatal("the first copy is not recorded")
	}
	if u := act(); u == nil || u.ID != "o1" {
		t.Errorf("an equal observation from an earlier place ended the mark of the session: %+v", u)
	}
	h.seq = 11
	if _, ok := obs().(*streams.RepeatEntry); !ok {
		t.Fatal("the second copy is no repeat")
	}
	if u := act(); u == nil || u.ID != "o2" {
		t.Errorf("the others that were turned down are %+v", u)
	}
	begin()
	if u := act(); u != nil {
		t.Errorf("a session that starts later is not clean: %+v", u)
	}
}
