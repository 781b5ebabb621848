package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func (h *house) point(do approval.Do, name string, by note.Signer) any {
	h.t.Helper()
	o := approval.NewOrder(do, "demo", h.now, time.Hour)
	o.Point = name
	return h.order(o, by)
}

func (h *house) allPoints() []Point {
	h.t.Helper()
	all, err := h.f.points(h.st, "demo")
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// TestARollbackLetsWhatStoodStandAndHidesWhatCameLater takes a restore point. Then an attacker with the user's
// credential overwrites one memory and contradicts another, and a sentinel quarantines a third. The rollback must hide
// the attacker's memories, state the overwritten one anew, and leave the contradicted and the quarantined one as they
// are.
func TestARollbackLetsWhatStoodStandAndHidesWhatCameLater(t *testing.T) {
	t.Run("through the intake", func(t *testing.T) { rollsBack(t, false) })
	t.Run("offered", func(t *testing.T) { rollsBack(t, true) })
}

func rollsBack(t *testing.T, offers bool) {
	h := newHouse(t, offline(t))
	h.keep, h.offers = true, offers
	s := h.pin()
	size := h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m1"}, Key: "size",
		Content: "My size is 43"})
	bank := h.remember(beliefs.OriginAgent, mem("m2", "The account is 12345", triple("bob", "account", "12345")))
	found := h.remember(beliefs.OriginUser, mem("m3", "The door code is 7781"))
	if e, ok := h.point(approval.TakePoint, "good", s.probe).(*streams.OrderEntry); !ok ||
		e.Check != string(approval.CheckRole) {
		t.Errorf("a probe takes a point: %+v, want a refusal", e)
	}
	if _, ok := h.point(approval.TakePoint, "good", s.alice).(*streams.PointEntry); !ok {
		t.Fatal("no point was taken")
	}
	if e, ok := h.point(approval.TakePoint, "good", s.alice).(*streams.OrderEntry); !ok ||
		e.Check != string(approval.CheckOrder) {
		t.Errorf("the same name twice: %+v", e)
	}

	size2 := h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "x1"}, Key: "size",
		Content: "My size is 12"})
	bank2 := h.remember(beliefs.OriginUser, mem("x2", "the account", triple("bob", "account", "66666")))
	h.alert(found, "quarantine")
	h.followUps()
	if a := h.belief(size).Ref.Axes; a.Truth != beliefs.Superseded {
		t.Fatalf("the overwritten memory is %+v", a)
	}
	if a := h.belief(bank).Ref.Axes; a.Truth != beliefs.Contradicted {
		t.Fatalf("the contradicted memory is %+v", a)
	}
	if e, ok := h.point(approval.Restore, "good", s.probe).(*streams.OrderEntry); !ok ||
		e.Check != string(approval.CheckRole) {
		t.Errorf("a probe rolls back: %+v, want a refusal", e)
	}
	if e, ok := h.point(approval.Restore, "bad", s.alice).(*streams.OrderEntry); !ok ||
		e.Check != string(approval.CheckOrder) {
		t.Errorf("a rollback to an unknown point: %+v, want a refusal", e)
	}
	entries := len(h.ledger)
	if _, ok := h.point(approval.Restore, "good", s.alice).(*streams.RestoreEntry); !ok {
		t.Fatal("the rollback was refused")
	}
	h.followUps()
	if len(h.ledger) <= entries+1 {
		t.Error("a rollback left no revisions in the ledger")
	}
	for _, id := range []string{size2, bank2} {
		if r := h.belief(id); r.Ref.Axes.Retrieval != beliefs.Hidden || r.Ref.Axes.Security != beliefs.Clean {
			t.Errorf("a belief that came after the point is %+v, want hidden", r.Ref.Axes)
		}
	}
	// The transition tables have no move from contradicted to unverified. So the rollback leaves this belief
	// contradicted, and counts it in Left.
	if a := h.belief(bank).Ref.Axes; a.Truth != beliefs.Contradicted {
		t.Errorf("the contradicted memory became %+v", a)
	}
	if a := h.belief(found).Ref.Axes; a.Security != beliefs.Quarantined {
		t.Errorf("the rollback cleared what a sentinel found: %+v", a)
	}
	anew := h.holder("size")
	if anew.Ref.ID == size || anew.Content != "My size is 43" || anew.Ref.Axes != (beliefs.Axes{Truth: beliefs.Supported,
		Retrieval: beliefs.Normal}) || anew.Ref.Origin != beliefs.OriginUser {
		t.Errorf("the overwritten memory is stated anew as %+v", anew)
	}
	run, err := h.f.running(h.st, "demo")
	if err != nil || !run.Last || run.Out != 2 || run.Anew != 1 || run.Left != 2 || run.Back != 0 {
		t.Errorf("the rollback counts %+v, %v", run, err)
	}
	// The rollback can itself be rolled back: hidden beliefs are restored.
	all := h.allPoints()
	if _, ok := h.point(approval.Restore, all[len(all)-1].Name, s.alice).(*streams.RestoreEntry); !ok ||
		all[len(all)-1].Why != pointRestore {
		t.Fatalf("no rollback to the point before the rollback: %+v", all)
	}
	h.followUps()
	if a := h.belief(size2).Ref.Axes; a.Truth != beliefs.Supported || a.Retrieval != beliefs.Restricted &&
		a.Retrieval != beliefs.Normal {
		t.Errorf("the second rollback does not restore the hidden memory: %+v", a)
	}
	if a := h.belief(anew.Ref.ID).Ref.Axes; a.Retrieval != beliefs.Hidden {
		t.Errorf("the second rollback does not hide the memory that was stated anew: %+v", a)
	}
}

func (h *house) holder(key string) *record {
	h.t.Helper()
	id, ok, err := h.st.Get(nameKey("demo", beliefs.Namespace{}, key))
	if err != nil || !ok {
		h.t.Fatalf("nothing holds %s: %v", key, err)
	}
	return h.belief(string(id))
}

// TestBlockedWritesPushNoRestorePointOut floods a project with sessions, imports and compactions whose writes are all
// refused. They must cause no restore point. Then it sends 200 compactions whose writes are accepted.
func TestBlockedWritesPushNoRestorePointOut(t *testing.T) {
	h := newHouse(t, offline(t))
	session := func(i int, phase string) {
		h.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: fmt.Sprint(phase, i),
			Session: fmt.Sprint("s", i)}, Phase: phase})
	}
	session(0, "start")
	if all := h.allPoints(); len(all) != 0 {
		t.Fatalf("a point before anything was believed: %+v", all)
	}
	h.remember(beliefs.OriginUser, mem("m0", "My size is 43"))
	session(1, "start")
	first := h.allPoints()
	if len(first) != 1 || first[0].Why != pointSession {
		t.Fatalf("the start of a session takes the points %+v", first)
	}
	for i := 2; i < 200; i++ {
		session(i, "start")
		for j, m := range []*streams.Memory{{Channel: streams.ChannelCompaction, Content: "a summary"},
			{Channel: streams.ChannelImport, Content: "an import"}} {
			m.ID, m.Session = fmt.Sprint("x", i, "-", j), fmt.Sprint("s", i)
			h.verdict(h.write(beliefs.OriginAgent, m), streams.Deny)
		}
		h.followUps()
	}
	if all := h.allPoints(); len(all) != 1 || all[0] != first[0] {
		t.Errorf("refused writes took points: %+v", all)
	}
	// Accepted writes cause restore points. The project then has the maximum number of points, the oldest among them,
	// and some from the first hundred writes.
	for i := 200; i < 400; i++ {
		m := &streams.Memory{Head: streams.Head{ID: fmt.Sprint("y", i), Session: fmt.Sprint("s", i)},
			Channel: streams.ChannelCompaction, Content: fmt.Sprint("a summary ", i)}
		h.verdict(h.write(beliefs.OriginAgent, m), streams.Allow)
	}
	all := h.allPoints()
	if len(all) != maxAuto || all[0] != first[0] {
		t.Errorf("%d points, the first of them %+v", len(all), all[0])
	}
	spread := 0
	for _, p := range all {
		if p.Intake < all[len(all)-1].Intake-100 { // of the 200 writes
			spread++
		}
	}
	if spread < 3 {
		t.Errorf("only %d points are of the older hundred writes", spread)
	}
	for _, why := range []string{pointBatch, pointCompaction, pointSession} {
		h := newHouse(t, offline(t))
		h.remember(beliefs.OriginUser, mem("m0", "My size is 43"))
		switch why {
		case pointBatch:
			for i := range 3 {
				h.remember(beliefs.OriginDocument, mem(fmt.Sprint("d", i), fmt.Sprint("fact ", i)))
			}
		case pointCompaction:
			h.remember(beliefs.OriginAgent, &streams.Memory{Head: streams.Head{ID: "c"}, Channel: streams.ChannelCompaction,
				Content: "a summary"})
		case pointSession:
			h.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: "s", Session: "s"}, Phase: "start"})
		}
		if all := h.allPoints(); len(all) != 1 || all[0].Why != why || !strings.HasPrefix(all[0].Name, "before-"+why) {
			t.Errorf("before a %s, the points are %+v", why, all)
		}
	}
}

// TestWhateverHappenedARollbackServesNothingThatWasNotServed runs random histories around a restore point. After a
// rollback, no belief is served that arrived later or was not served at the point, and no finding of a sentinel since
// the point is removed. Beliefs that the transition tables allow to restore are as they were at the point, including
// their evidence.
func TestWhateverHappenedARollbackServesNothingThatWasNotServed(t *testing.T) {
	first := newHouse(t, stage.NewMemState(0))
	signers := first.pin()
	base := first.st
	served := func(a beliefs.Axes) bool {
		return a.Retrieval == beliefs.Normal && a.Truth == beliefs.Supported && a.Security == beliefs.Clean
	}
	proptest.CheckLess(t, func(rt *rapid.T) {
		f := New(Config{})
		f.policies, f.trust = first.f.policies, first.f.trust
		l := &life{house: &house{t: t, f: f, st: base.Clone(), now: epoch, keep: true}, signers: signers, base: base,
			final: map[string]bool{}}
		l.offers = rapid.Bool().Draw(rt, "offers")
		some := func(what string) {
			for range rapid.IntRange(1, 6).Draw(rt, what) {
				l.step(rt)
			}
			l.followUps()
		}
		some("before")
		if _, ok := l.point(approval.TakePoint, "here", signers.alice).(*streams.PointEntry); !ok {
			rt.Fatal("no point")
		}
		then := l.standings()
		some("after")
		last := l.standings()
		if _, ok := l.point(approval.Restore, "here", signers.alice).(*streams.RestoreEntry); !ok {
			rt.Fatal("no rollback")
		}
		l.followUps()
		for id, r := range l.standings() {
			was, ok := then[id]
			now := r.Ref.Axes
			anew := len(r.Parents) == 1 && then[r.Parents[0].ID].Ref.ID != "" && id == beliefID("anew", "demo",
				r.Parents[0].ID, lastOrder(l)) // restated
			if anew {
				if !served(then[r.Parents[0].ID].Ref.Axes) && served(now) {
					rt.Fatalf("a belief that was not served at the point is stated anew and served: %+v", r)
				}
				continue
			}
			if !ok {
				if now.Retrieval == beliefs.Normal || now.Retrieval == beliefs.Restricted {
					rt.Fatalf("a belief that came after the point is %+v, want hidden", now)
				}
				continue
			}
			if now.Security < last[id].Ref.Axes.Security {
				rt.Fatalf("%s was %s and is %s", id, last[id].Ref.Axes.Security, now.Security)
			}
			if served(now) && !served(was.Ref.Axes) {
				rt.Fatalf("%s is served: %+v, was %+v", id, now, was.Ref.Axes)
			}
			if now.Security == was.Ref.Axes.Security && now.Truth == was.Ref.Axes.Truth &&
				now.Freshness == was.Ref.Axes.Freshness && was.Ref.Axes.Retrieval != beliefs.PrivilegedOnly &&
				now.Retrieval != was.Ref.Axes.Retrieval &&
				now.Security == beliefs.Clean && (was.Ref.Axes.Retrieval != beliefs.Normal || now.Truth == beliefs.Supported) {
				rt.Fatalf("%s is %+v and could be %+v", id, now, was.Ref.Axes)
			}
			if now.Truth == beliefs.Supported && was.Ref.Axes.Truth != beliefs.Supported {
				if now.Retrieval == beliefs.Normal || !r.Evidence.Strongest(beliefs.Supports).MaySupport() {
					rt.Fatalf("%s was confirmed since and is %+v on %+v", id, now, r.Evidence)
				}
				continue // no move leads back from supported
			}
			if !last[id].same(was) && !r.asItWas().restsAlike(was.asItWas()) {
				rt.Fatalf("%s rests on something else than it did: %+v, was %+v", id, r.asItWas(), was.asItWas())
			}
		}
		l.crash(rt)
	})
}

func lastOrder(l *life) string {
	run, err := l.f.running(l.st, "demo")
	if err != nil {
		l.t.Fatal(err)
	}
	return run.Order
}

func (r record) same(was record) bool { return r.asItWas().same(was.asItWas()) }

// restsAlike compares everything except the axes and the successor.
func (a *asItWas) restsAlike(b *asItWas) bool {
	x, y := *a, *b
	x.Axes, y.Axes, x.Successor, y.Successor = beliefs.Axes{}, beliefs.Axes{}, "", ""
	return x.same(&y)
}

// Memory writes are offered directly, without the intake, before and after a restore point. A rollback to the point
// must keep the earlier ones and hide the later one.
func TestARestorePointHasTheOfferedWritesBeforeIt(t *testing.T) {
	h := newHouse(t, offline(t))
	h.offers = true
	s := h.pin()
	session := func(id string) {
		h.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: id, Session: id}, Phase: "start"})
	}
	session("s0")
	before := []string{h.remember(beliefs.OriginUser, mem("m0", "My size is 43")),
		h.remember(beliefs.OriginUser, mem("m1", "The door code is 7781"))}
	session("s1") // takes a point
	after := h.remember(beliefs.OriginUser, mem("m2", "The gate code is 1234"))
	points := h.allPoints()
	if len(points) != 1 || points[0].Why != pointSession {
		t.Fatalf("the points are %+v, want one of a session", points)
	}
	if e, ok := h.point(approval.Restore, points[0].Name, s.alice).(*streams.RestoreEntry); !ok {
		t.Fatalf("the rollback was refused: %+v", e)
	}
	h.followUps()
	for _, id := range before {
		if a := h.belief(id).Ref.Axes; a.Retrieval != beliefs.Normal {
			t.Errorf("a write before the point is %+v", a)
		}
	}
	if a := h.belief(after).Ref.Axes; a.Retrieval != beliefs.Hidden {
		t.Errorf("a write after the point is %+v", a)
	}
}

// A burst of writes is offered directly, without the intake, and causes points. Each point's name must be valid in a
// NATS subject, because orders name it there. Most of the earlier points must remain.
func TestPointsBeforeOfferedWritesAreNamedAndThinnedLikeOthers(t *testing.T) {
	h := newHouse(t, offline(t))
	h.pin()
	session := func(i int) {
		h.say(streams.KindSession, "", &streams.Session{Head: streams.Head{ID: fmt.Sprint("start", i),
			Session: fmt.Sprint("day", i)}, Phase: "start"})
		h.remember(beliefs.OriginUser, mem(fmt.Sprint("m", i), fmt.Sprintf("The door code of house %d is %d", i, 1000+i)))
	}
	for i := range 20 {
		session(i)
	}
	earlier := h.allPoints()
	h.offers = true
	for i := range 40 {
		h.remember(beliefs.OriginWeb, &streams.Memory{Head: streams.Head{ID: fmt.Sprint("x", i),
			Session: fmt.Sprint("s", i%2)}, Content: fmt.Sprintf("Offer %d of the day", i)})
	}
	left, offered := 0, 0
	for _, p := range h.allPoints() {
		if !streams.ValidID(p.Name) {
			t.Errorf("point %q has no legal name", p.Name)
		}
		if position.Compare(p.Intake, earlier[len(earlier)-1].Intake) > 0 {
			offered++
		} else {
			left++
		}
	}
	if offered == 0 || left < 12 {
		t.Errorf("%d of %d points are left beside %d of a burst", left, len(earlier), offered)
	}
}
