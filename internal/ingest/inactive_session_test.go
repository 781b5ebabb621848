package ingest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// in publishes a message of the user in a session.
func (x *expirer) in(session, id, content string) {
	x.t.Helper()
	x.say(streams.KindObs, beliefs.OriginUser, &streams.Observation{Head: streams.Head{ID: id, Session: session},
		Content: content})
}

func (x *expirer) act(session, id string) *streams.ActionEntry {
	x.t.Helper()
	e, ok := x.say(streams.KindAct, beliefs.OriginAgent, &streams.Action{Head: streams.Head{ID: id, Session: session},
		Tool: "send_email", Args: []byte(`{"to":"bob@example.com","subject":"the parcel is delayed"}`)}).(*streams.ActionEntry)
	if !ok {
		x.t.Fatalf("the action %s is no action", id)
	}
	return e
}

// holds returns how often the state has a text.
func (x *expirer) holds(text string) (n int) {
	x.t.Helper()
	if err := x.st.Scan(nil, func(_, v []byte) (bool, error) {
		if bytes.Contains(v, []byte(text)) {
			n++
		}
		return true, nil
	}); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// An expiry drops the words of users of silent sessions. If such a session has an action later, the action's entry must
// say that the user's words have expired, until the session is started again. Sessions that were active after the
// horizon, and sessions of a project under legal hold, must keep the words.
func TestAnExpiryDropsTheWordsOfSilentSessions(t *testing.T) {
	const words = "Please send the parcel of Zuzana Quimby to the office and tell Bob."
	begin := func(t *testing.T) *expirer {
		x, _ := newExpirer(t)
		for i := range 30 {
			x.in(fmt.Sprint("old", i), fmt.Sprint("u", i), words)
		}
		x.in("active", "ua", words)
		x.act("old1", "a0")
		x.now = x.now.Add(48 * time.Hour)
		x.act("active", "a1")
		if n := x.holds("Zuzana Quimby"); n < 31 {
			t.Fatalf("the state has the words %d times before", n)
		}
		return x
	}
	all := func(x *expirer) {
		for x.step() {
		}
	}
	t.Run("silent", func(t *testing.T) {
		x := begin(t)
		before := x.act("old3", "b0") // it speaks again before the order
		if before.Intent == nil || before.Unseen {
			t.Fatalf("before: %+v", before)
		}
		horizon := x.now.Add(-24 * time.Hour)
		x.expire(horizon)
		all(x)
		if ok, err := hasKey(x.st, stage.Key(keySaid, "demo", "agent", "old2", "")); err != nil || ok {
			t.Errorf("the words of the user are still there, %v", err)
		}
		for _, s := range []string{"active", "old3"} {
			e := x.act(s, "c"+s)
			if e.Unseen || e.Intent == nil {
				t.Errorf("session %s has lost the words of its user: %+v", s, e)
			}
			if ok, err := hasKey(x.st, saidKey("demo", "agent", s, 0)); err != nil || !ok {
				t.Errorf("%s lacks the words of its user, %v", s, err)
			}
		}
		e := x.act("old2", "c1")
		if e.UnseenBy == nil || e.UnseenBy.Scope != streams.UnseenExpired || !e.Unseen {
			t.Errorf("a session that comes back: %+v", e.UnseenBy)
		}
		if e.Intent == nil || e.Intent.Strange == "" {
			t.Errorf("a change that the user did not ask for counts as asked for: %+v", e.Intent)
		}
		x.in("old2", "c2", "Please send it to the office and tell Bob.")
		if e := x.act("old2", "c3"); !e.Unseen {
			t.Error("new words of the user end the hold, without a new start of the session")
		}
		x.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: "s", Session: "old2"}, Phase: "start"})
		x.in("old2", "c4", words)
		if e := x.act("old2", "c5"); e.Unseen || e.Intent == nil {
			t.Errorf("after its start: %+v", e)
		}
		if e := x.act("new", "c6"); e.Unseen {
			t.Error("a new session is held")
		}
	})
	t.Run("under legal hold", func(t *testing.T) {
		x := begin(t)
		x.order(streams.Custody{Do: streams.DoHold, Project: "demo"})
		x.expire(x.now)
		all(x)
		if e := x.act("old2", "c"); e.Unseen || e.Intent == nil {
			t.Errorf("under legal hold, the session has lost the words of its user: %+v", e)
		}
	})
	t.Run("with the steps of an earlier version", func(t *testing.T) {
		x := begin(t)
		x.expire(x.now)
		for i := 0; ; i++ {
			if ok, err := hasKey(x.st, expiryKey); err != nil || !ok {
				break
			}
			if i == 100 {
				t.Fatal("the expiry does not end")
			}
			if err := x.f.expireStep(x.st, &streams.ExpiryStep{Looks: expiryLooks, Drops: expiryDrops,
				Bytes: expiryBytes}); err != nil {
				t.Fatal(err)
			}
		}
		if e := x.act("old2", "c"); e.Unseen || e.Intent == nil {
			t.Errorf("steps of an earlier version dropped the words of the user: %+v", e)
		}
	})
	t.Run("of a state without times", func(t *testing.T) {
		x := begin(t)
		if err := x.st.DropPrefix([]byte{keyActive}); err != nil {
			t.Fatal(err)
		}
		if err := dateSessions(x.st); err != nil {
			t.Fatal(err)
		}
		x.expire(x.now.Add(-time.Hour))
		all(x)
		if e := x.act("old2", "c"); e.Unseen {
			t.Error("a session of unknown age has lost the words of its user")
		}
		x.now = x.now.Add(48 * time.Hour)
		x.act("active", "d")
		x.expire(x.now.Add(-time.Hour))
		all(x)
		if e := x.act("old4", "e"); !e.Unseen {
			t.Error("a session whose age was unknown is never dropped")
		}
	})
}
