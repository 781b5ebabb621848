package signals

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// tableCounts has declared counts and distinct counts, and tableSteps declared sequences. tableSwaps has the sequences
// that an action changed, with their values before, until the action's verdict.
var (
	tableCounts = index.NewTable(0, "counts", 20_000)
	tableSteps  = index.NewTable(1, "sequences", 20_000)
	tableSwaps  = index.NewTable(9, "swaps", 5_000)
)

// Activation provides the values of the names in an expression.
type Activation interface {
	ResolveName(name string) (value any, ok bool)
}

// Expr is a compiled expression of a declared signal. The State's activation gives the values of its names.
type Expr interface {
	// IsTrue reports whether a condition is true. If the evaluation fails, it returns false.
	IsTrue(Activation) bool
	// AppendText appends the value of a text expression to buf. If the evaluation fails, ok is false.
	AppendText(act Activation, buf []byte) (out []byte, ok bool)
}

// MaxSteps is the maximum number of steps of a sequence.
const MaxSteps = 8

// Declared is a signal that a pack declares: a count of events, a count of different values in events, or a sequence of
// steps.
type Declared struct {
	Name     string
	On       map[string]bool // kinds of events that it uses
	Key      Expr            // expression for a text; events with different texts are counted separately
	When     Expr            // condition for an event to count; nil: every event counts
	Value    Expr            // a text, for distinct values
	Window   time.Duration   // maximum age of counted events
	Max      int             // largest count; the oldest events beyond it are dropped
	Distinct bool
	Steps    []Step // steps of a sequence
}

// Step is a step of a sequence.
type Step struct {
	On     []string // kinds of events that can be this step
	When   Expr
	Within time.Duration // maximum time since the step before; 0: no maximum
}

// paced reports whether some step has a maximum time since the step before. Each chain, which is the progress of a
// sequence, then also stores the time of its last event. Such chains have other keys, because their stored form
// differs.
func (d *Declared) paced() bool {
	return slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Within > 0 })
}

// counted is the new value of a declared signal that this input has changed.
type counted struct {
	by *Declared
	n  int64
}

// tableKey returns the key of the signal's counts or steps. If the key's expression fails, ok is false. The key is
// valid until the next key is made.
func (d *Declared) tableKey(s *State) (key []byte, ok bool) {
	t := s.t
	// The expression may read signals, and that makes other keys. So evaluate it first.
	t.Text, ok = d.Key.AppendText(s.act, t.Text[:0])
	end := byte(0)
	if d.paced() {
		end = 1
	}
	t.Name = append(append(append(t.Name[:0], d.Name...), end), t.Text...)
	return t.Name, ok
}

// Note counts the event of this input if its kind is in On, or records it as a step. If an expression fails, the event
// does not count. A rule that reads the signal gets the error itself and handles it by its on_error.
func (d *Declared) Note(s *State) {
	if d.Steps != nil {
		d.noteStep(s)
		return
	}
	if d.When != nil && !d.When.IsTrue(s.act) {
		return
	}
	k, ok := d.tableKey(s)
	if !ok {
		return
	}
	var h uint32
	if d.Distinct {
		v, ok := d.Value.AppendText(s.act, s.t.Text[:0])
		if s.t.Text = v; !ok {
			return
		}
		h = hash32(string(v))
	}
	now := s.In.Event.Time.UnixNano()
	kept := s.t.Take()
	for b := s.t.Get(tableCounts, k); len(b) >= 12; b = b[12:] {
		if old := int64(binary.BigEndian.Uint64(b)); now-old < int64(d.Window) &&
			!(d.Distinct && binary.BigEndian.Uint32(b[8:]) == h) {
			kept = append(kept, b[:12]...)
		}
	}
	kept = binary.BigEndian.AppendUint64(kept, uint64(now))
	kept = binary.BigEndian.AppendUint32(kept, h)
	kept = kept[max(0, len(kept)-12*d.Max):]
	if s.counts < len(s.counted) {
		s.counted[s.counts] = counted{d, int64(len(kept) / 12)}
		s.counts++
	}
	s.t.Put(tableCounts, k, s.t.Give(kept))
}

// chain is the progress of a sequence: the events of the steps so far, with the times of the first and the last of
// these events.
type chain struct {
	since  int64
	last   int64 // of paced sequences only
	n      int
	events index.Decoder // encoded
	more   bool          // the last of the n events is this input's event, and events does not have it
}

func (c *chain) has(event string) bool {
	for d := c.events; len(d) > 0; {
		if string(d.Raw()) == event {
			return true
		}
	}
	return false
}

// noteStep records an event as a step of a sequence. For each step, the latest chain that ends with this step is
// stored. So other events between the steps do not end a chain.
func (d *Declared) noteStep(s *State) {
	var matched [MaxSteps]bool
	some := false
	for i := range d.Steps {
		if st := &d.Steps[i]; slices.Contains(st.On, s.In.Event.Kind) && st.When.IsTrue(s.act) {
			matched[i], some = true, true
		}
	}
	if !some {
		return
	}
	k, ok := d.tableKey(s)
	if !ok {
		return
	}
	// The decoded chains share memory with the stored value, so encode the new value in other memory.
	var memory [MaxSteps]chain
	chains, paced := memory[:len(d.Steps)], d.paced()
	old := s.t.Get(tableSteps, k)
	dc := index.Decoder(old)
	for i := range chains {
		c := &chains[i]
		c.since = int64(dc.Num())
		if paced {
			c.last = int64(dc.Num())
		}
		c.n = int(min(dc.Num(), MaxSteps))
		c.events = dc
		for range c.n {
			dc.Raw()
		}
		c.events = c.events[:len(c.events)-len(dc)]
	}
	now, id, changed := s.In.Event.Time.UnixNano(), s.In.Event.ID, false
	// Go through the steps in reverse order, so that one event does not become two steps of a chain.
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if !matched[i] {
			continue
		}
		c := chain{since: now}
		if i > 0 {
			within := int64(d.Steps[i].Within)
			if c = chains[i-1]; c.n == 0 || c.n == MaxSteps || now-c.since >= int64(d.Window) || c.has(id) ||
				within > 0 && now-c.last > within {
				continue
			}
		}
		c.n, c.more, c.last = c.n+1, true, now
		chains[i], changed = c, true
		if i == len(d.Steps)-1 {
			if s.done == nil {
				s.done = make(map[string][]string)
			}
			var events []string
			for d := c.events; len(d) > 0; {
				events = append(events, d.Str())
			}
			s.done[d.Name] = append(events, id)
		}
	}
	if !changed {
		return
	}
	e := index.Encoder(s.t.Take())
	for i := range chains {
		c := &chains[i]
		e.Num(uint64(c.since))
		if paced {
			e.Num(uint64(c.last))
		}
		e.Num(uint64(c.n))
		if e = append(e, c.events...); c.more {
			e.Str(id)
		}
	}
	if s.In.Event.Kind == string(streams.TypeAction) {
		s.swaps.Bytes(k)
		s.swaps.Bytes(old)
		s.swaps.Bytes(e)
	}
	s.t.Put(tableSteps, k, s.t.Give(e))
}

// swapKey returns the key in tableSwaps under which the changes by an action are stored.
func swapKey(t *index.Tables, agent, session, id string) []byte {
	return t.NameKey(agent, "\x00", session, "\x00", id)
}

// NoteSequences stores, for Heard, which sequences this action has changed, and their values before.
func (s *State) NoteSequences() {
	if len(s.swaps) == 0 {
		return
	}
	e := index.Encoder(s.t.Take())
	e.Num(1) // the action's steps count; see Heard
	e = append(e, s.swaps...)
	s.t.Put(tableSwaps, swapKey(s.t, s.In.Event.Agent, s.In.Event.Session, s.In.Event.ID), s.t.Give(e))
}

// Read returns the value of the signal for the input. If an expression of the signal fails, it returns an error.
func (d *Declared) Read(s *State) any {
	if d.Steps != nil {
		return s.done[d.Name]
	}
	for _, c := range s.counted[:s.counts] {
		if c.by == d {
			return c.n
		}
	}
	k, ok := d.tableKey(s)
	if !ok {
		return fmt.Errorf("the expression `key` of signal %s cannot be evaluated", d.Name)
	}
	now, n := s.In.Event.Time.UnixNano(), int64(0)
	for b := s.t.Get(tableCounts, k); len(b) >= 12; b = b[12:] {
		if now-int64(binary.BigEndian.Uint64(b)) < int64(d.Window) {
			n++
		}
	}
	return n
}

// Heard updates sequences with the verdict on an action. A held action was not executed, so it must not count as a
// step. Unless the verdict is allow, Heard therefore restores the sequences that the action changed, except those that
// changed again since. If a later verdict allows the action, Heard records the action's steps again.
func Heard(st index.Store, project string, v *streams.VerdictEntry) error {
	t := index.Open(st, project)
	noteHeld(t, v.Agent, v.Session, v.ID, v.Verdict)
	at := slices.Clone(swapKey(t, v.Agent, v.Session, v.ID))
	d := index.Decoder(slices.Clone(t.Get(tableSwaps, at)))
	counts := d.Num() == 1
	if len(d) == 0 || counts == (v.Verdict == streams.Allow) {
		return t.Close()
	}
	var e index.Encoder
	if e.Num(0); !counts {
		e = index.Encoder{}
		e.Num(1)
	}
	for len(d) > 0 {
		key, was, is := d.Raw(), d.Raw(), d.Raw()
		if bytes.Equal(t.Get(tableSteps, key), is) {
			t.Put(tableSteps, key, was)
		}
		e.Bytes(key)
		e.Bytes(is)
		e.Bytes(was)
	}
	t.Put(tableSwaps, at, e)
	return t.Close()
}
