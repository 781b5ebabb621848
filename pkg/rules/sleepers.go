package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lazaret/streams"
)

var noteBeliefs = keep(orderBeliefs, (*signals).noteBeliefs)

func init() {
	register(noteBeliefs|noteRecalls, Signal{
		Name: "signal.sleepers",
		Doc: "memories of other sessions, over a day old, that this action cites for the first time, " +
			"or that were recalled in its session and hold an address or a value of it that the user did not name",
		Key:    "belief",
		Window: "all",
		Bound:  "50000 beliefs",
		Cost:   "1 a belief",
	}, (*signals).sleepers)
}

// noteBeliefs keeps when memories were written and when actions cited them.
func (s *signals) noteBeliefs() {
	switch s.in.Event.Kind {
	case "memory":
		s.noteBelief()
	case "action":
		for _, b := range s.in.Action.Beliefs {
			s.use(b.ID)
		}
	}
}

// tableBeliefs holds when memories were written and first used.
var tableBeliefs = newTable(6, "beliefs", 50_000)

// Sleeper is a memory that comes to use for the first time long after it was
// written.
type Sleeper struct {
	Belief   string  `cel:"belief"`
	Dormant  float64 `cel:"dormant" doc:"seconds between its writing and its first use"`
	Origin   string  `cel:"origin"`
	External bool    `cel:"external"`
	Session  string  `cel:"session" doc:"in which it was written"`
}

type beliefRec struct {
	written time.Time
	origin  string
	extern  bool
	session string
	used    time.Time // first recall or citation; zero when there was none
	usedBy  string    // its session
	// words are those of the memory, carriers included; known says that they were kept.
	words []uint32
	known bool
}

func (r *beliefRec) bytes(e enc) enc {
	e.num(uint64(r.written.UnixNano()))
	if r.used.IsZero() {
		e.num(0)
	} else {
		e.num(uint64(r.used.UnixNano()))
	}
	if r.extern {
		e.num(1)
	} else {
		e.num(0)
	}
	e.str(r.origin)
	e.str(r.session)
	e.str(r.usedBy)
	if r.known {
		e.num(1)
		e.hashes(r.words)
	}
	return e
}

func readBelief(b []byte) *beliefRec {
	d := dec(b)
	r := &beliefRec{written: time.Unix(0, int64(d.num())).UTC()}
	if n := d.num(); n > 0 {
		r.used = time.Unix(0, int64(n)).UTC()
	}
	r.extern = d.num() == 1
	r.origin, r.session, r.usedBy = d.str(), d.str(), d.str()
	if r.known = d.num() == 1; r.known {
		r.words = d.hashes()
	}
	return r
}

func (s *signals) noteBelief() {
	in := s.in
	id := in.Memory.Belief.ID
	if id == "" || s.t.get(tableBeliefs, s.t.named(id)) != nil {
		return
	}
	r := beliefRec{written: in.Event.Time, origin: cmp.Or(in.Memory.Inherited, in.Memory.Origin), extern: in.Memory.External, session: in.Event.Session, known: true}
	if len(in.Content.Views) > 0 {
		words := append(s.t.words[:0], in.carriers...)
		for w := range strings.FieldsFuncSeq(streams.Clip(in.Content.Views[0], sleepText), notWord) {
			words = append(words, hash32(stem(w)))
		}
		s.t.words = words
		r.words = distinct(words)
	}
	s.t.put(tableBeliefs, s.t.named(id), s.t.give(r.bytes(s.t.take())))
}

// sleepAfter is how long a memory has to have been unused to be a sleeper.
const sleepAfter = 24 * time.Hour

// sleepText is how much of a memory is compared with actions, in bytes.
const sleepText = 512

// use notes the first use of a belief, and reports it if it came late.
func (s *signals) use(id string) *Sleeper {
	for i := range s.usedBy {
		if u := &s.usedBy[i]; u.id == id {
			return u.sleeper
		}
	}
	u := used{id, s.firstUse(id)}
	if len(s.usedBy) < maxSeen {
		s.usedBy = append(s.usedBy, u)
	}
	return u.sleeper
}

// used is a belief that this input uses.
type used struct {
	id      string
	sleeper *Sleeper
}

func (s *signals) firstUse(id string) *Sleeper {
	b := s.t.get(tableBeliefs, s.t.named(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	if r.used.IsZero() {
		r.used, r.usedBy = s.in.Event.Time, s.in.Event.Session
		s.t.put(tableBeliefs, s.t.named(id), s.t.give(r.bytes(s.t.take())))
	}
	if r.usedBy != s.in.Event.Session {
		return nil
	}
	return r.sleeper(id, s.in, r.used)
}

// sleeper is the memory if it comes from another session and was written more than
// a day before.
func (r *beliefRec) sleeper(id string, in *Input, used time.Time) *Sleeper {
	if r.session == in.Event.Session || used.Sub(r.written) < sleepAfter {
		return nil
	}
	return &Sleeper{Belief: id, Dormant: used.Sub(r.written).Seconds(), Origin: r.origin, External: r.extern, Session: r.session}
}

// recalledSleeper is a memory that was recalled in this session, however often
// before, if the action shares something with it that is not the user's.
func (s *signals) recalledSleeper(id string) *Sleeper {
	b := s.t.get(tableBeliefs, s.t.named(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	if r.known && !s.in.shares(r.words) {
		return nil
	}
	return r.sleeper(id, s.in, s.in.Event.Time)
}

// shares reports whether words hold an address or a value of the action that the
// user did not name; where the action has neither, whether they hold a thing of the
// tool's name and the user did not ask for it.
func (in *Input) shares(words []uint32) bool {
	c := in.call
	for i, x := range in.Content.Carriers {
		if hasHash(words, in.carriers[i]) && !in.byUser(x) {
			return true
		}
	}
	for i := range c.Values {
		if v := &c.Values[i]; v.In(words) && !slices.Contains(in.intent.Values, v.Path) {
			return true
		}
	}
	return len(c.Values) == 0 && !in.intent.Asked && count(words, c.Things) > 0
}

func (s *signals) sleepers() []*Sleeper {
	var out []*Sleeper
	seen := make(map[string]bool)
	add := func(id string, sl *Sleeper) {
		if sl != nil && !seen[id] {
			seen[id] = true
			out = append(out, sl)
		}
	}
	for _, b := range s.in.Action.Beliefs {
		add(b.ID, s.use(b.ID))
	}
	if s.in.call == nil {
		return out
	}
	for _, id := range s.recalled() {
		id = strings.TrimPrefix(id, "!")
		add(id, s.recalledSleeper(id))
	}
	return out
}
