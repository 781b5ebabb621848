package signals

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

var partBeliefs = keep(orderBeliefs, (*State).noteBeliefs)

func init() {
	register(partBeliefs|partRecalls, Signal{
		Name: "signal.sleepers",
		Doc: "memories of other sessions, over a day old, that this action cites for the first time, " +
			"or that its session recalled and that contain an address or value of the action that the user did not name",
		Key:    "belief",
		Window: "all",
		Bound:  "50000 beliefs",
		Cost:   "1 per belief",
	}, (*State).sleepers)
}

// noteBeliefs records the time at which a memory was written, or at which an action cited memories.
func (s *State) noteBeliefs() {
	switch s.In.Event.Kind {
	case "memory":
		s.noteBelief()
	case "action":
		for _, b := range s.In.Action.Beliefs {
			s.use(b.ID)
		}
	}
}

// tableBeliefs has, for each memory, the times at which it was written and first used.
var tableBeliefs = index.NewTable(6, "beliefs", 50_000)

// Sleeper is a memory that is used for the first time more than a day after it was written.
type Sleeper struct {
	Belief   string  `cel:"belief"`
	Dormant  float64 `cel:"dormant" doc:"seconds between writing the memory and its first use"`
	Origin   string  `cel:"origin"`
	External bool    `cel:"external"`
	Graded   bool    `cel:"graded" doc:"the memory has only words of the user or reasoning of the agent"`
	Own      bool    `cel:"own" doc:"the agent wrote the memory, whatever it derives from"`
	Session  string  `cel:"session" doc:"session in which the memory was written"`
}

// beliefRec is a record of tableBeliefs. If it was read, its fields use the store's memory.
type beliefRec struct {
	written time.Time
	origin  []byte
	extern  bool
	graded  bool // it has no external content
	own     bool // the agent wrote it
	session []byte
	used    time.Time // time of the first recall or citation; zero if the memory has not been used
	usedBy  []byte    // session of the first use
	// words has the encoded hashes of the memory's words and carriers. known is set if these hashes were stored;
	// records of earlier versions lack them.
	words index.Decoder
	known bool
}

func (r *beliefRec) bytes(e index.Encoder) index.Encoder {
	e.Num(uint64(r.written.UnixNano()))
	if r.used.IsZero() {
		e.Num(0)
	} else {
		e.Num(uint64(r.used.UnixNano()))
	}
	flags := uint64(0)
	if r.extern {
		flags |= 1
	}
	if r.graded {
		flags |= 2
	}
	if r.own {
		flags |= 4
	}
	e.Num(flags)
	e.Bytes(r.origin)
	e.Bytes(r.session)
	e.Bytes(r.usedBy)
	if r.known {
		e.Num(1)
		e = append(e, r.words...)
	}
	return e
}

func readBelief(b []byte) (r beliefRec) {
	d := index.Decoder(b)
	r.written = time.Unix(0, int64(d.Num())).UTC()
	if n := d.Num(); n > 0 {
		r.used = time.Unix(0, int64(n)).UTC()
	}
	flags := d.Num()
	r.extern, r.graded, r.own = flags&1 != 0, flags&2 != 0, flags&4 != 0
	r.origin, r.session, r.usedBy = d.Raw(), d.Raw(), d.Raw()
	if r.known = d.Num() == 1; r.known {
		r.words = d
	}
	return r
}

func (s *State) noteBelief() {
	in := s.In
	id := in.Memory.Belief.ID
	if id == "" || s.t.Get(tableBeliefs, s.t.NameKey(id)) != nil {
		return
	}
	r := beliefRec{
		written: in.Event.Time,
		origin:  []byte(cmp.Or(in.Memory.Inherited, in.Memory.Origin)),
		extern:  in.Memory.External,
		graded:  in.graded,
		own:     in.Memory.Origin == string(beliefs.OriginAgent),
		session: []byte(in.Event.Session),
		known:   true,
	}
	packed := index.Encoder(s.t.Text[:0])
	packed.Hashes(in.words)
	s.t.Text, r.words = packed, index.Decoder(packed)
	s.t.Put(tableBeliefs, s.t.NameKey(id), s.t.Give(r.bytes(s.t.Take())))
}

// sleepAfter is the minimum time between the writing of a memory and its first use. A memory that is used earlier is no
// sleeper.
const sleepAfter = 24 * time.Hour

// sleepText is how many bytes at the beginning of a memory are compared with actions.
const sleepText = 512

// memoryWords returns the sorted hashes of a memory's words and carriers.
func memoryWords(view string, carriers []uint32) []uint32 {
	words := slices.Grow(slices.Clone(carriers), sleepText/6)
	for w := range strings.FieldsFuncSeq(streams.Clip(view, sleepText), notWord) {
		words = append(words, stemHash(w))
	}
	return distinct(words)
}

// use records that the input uses a belief. If this is the belief's first use, and comes late, use returns the belief
// as a sleeper.
func (s *State) use(id string) *Sleeper {
	for i := range s.usedBy {
		if u := &s.usedBy[i]; u.id == id {
			return u.sleeper
		}
	}
	u := used{id, s.firstUse(id)}
	if len(s.usedBy) < index.MaxDistinct {
		s.usedBy = append(s.usedBy, u)
	}
	return u.sleeper
}

// used is a belief that the present input uses, and the sleeper that it is, if any.
type used struct {
	id      string
	sleeper *Sleeper
}

func (s *State) firstUse(id string) *Sleeper {
	b := s.t.Get(tableBeliefs, s.t.NameKey(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	first := r.used.IsZero()
	if first {
		r.used, r.usedBy = s.In.Event.Time, []byte(s.In.Event.Session)
	}
	var out *Sleeper
	if string(r.usedBy) == s.In.Event.Session {
		out = r.sleeper(id, s.In, r.used)
	}
	if first {
		s.t.Put(tableBeliefs, s.t.NameKey(id), s.t.Give(r.bytes(s.t.Take())))
	}
	return out
}

// sleeper returns the memory as a Sleeper if another session wrote it more than a day before it was used. Otherwise it
// returns nil.
func (r *beliefRec) sleeper(id string, in *Input, used time.Time) *Sleeper {
	if string(r.session) == in.Event.Session || used.Sub(r.written) < sleepAfter {
		return nil
	}
	return &Sleeper{
		Belief:   id,
		Dormant:  used.Sub(r.written).Seconds(),
		Origin:   string(r.origin),
		External: r.extern,
		Graded:   r.graded,
		Own:      r.own,
		Session:  string(r.session),
	}
}

// recalledSleeper returns a memory that was recalled in this session as a Sleeper, or nil. It returns the memory only
// if the action shares a value with it that the user did not name, or if the memory's words were not stored.
func (s *State) recalledSleeper(id string) *Sleeper {
	b := s.t.Get(tableBeliefs, s.t.NameKey(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	if r.known && !s.shares(r.words.Hashes()) {
		return nil
	}
	return r.sleeper(id, s.In, s.In.Event.Time)
}

// shares reports whether the words of a memory have something in common with the action that did not come from the
// user: an address that no user of the project named, or another value that the user of the session did not name. For
// an action without values, a thing in the tool's name counts, unless the user asked for the action.
func (s *State) shares(words []uint32) bool {
	in, c := s.In, s.In.call
	for i, x := range in.Content.Carriers {
		if hasHash(words, in.carriers[i]) && !in.byUser(x) && !s.byUserBefore(i) {
			return true
		}
	}
	for i := range c.Values {
		v := &c.Values[i]
		if !v.In(words) || slices.Contains(in.intent.Values, v.Path) {
			continue
		}
		if n := s.carrierOf(v); n < 0 || !s.byUserBefore(n) {
			return true
		}
	}
	return len(c.Values) == 0 && !in.intent.Asked && count(words, c.Things) > 0
}

// byUserBefore reports whether a user of the project named carrier i of the action, in any session.
func (s *State) byUserBefore(i int) bool {
	m := &s.met()[i]
	return m.ok && (m.ref&index.NamedByUser != 0 || s.originOfMet(m).origin == string(beliefs.OriginUser))
}

func (s *State) sleepers() []*Sleeper {
	var out []*Sleeper
	var seen map[string]bool
	add := func(id string, sl *Sleeper) {
		if sl == nil || seen[id] {
			return
		}
		if seen == nil {
			seen = make(map[string]bool)
		}
		seen[id] = true
		out = append(out, sl)
	}
	for _, b := range s.In.Action.Beliefs {
		add(b.ID, s.use(b.ID))
	}
	if s.In.call == nil {
		return out
	}
	for _, id := range s.recalled() {
		id = strings.TrimPrefix(id, "!")
		add(id, s.recalledSleeper(id))
	}
	return out
}
