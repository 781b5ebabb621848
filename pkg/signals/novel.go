package signals

import (
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// tableHeld has the held actions. A held action was not executed. So if only held actions have named a carrier, the
// carrier is still new. Once an action is allowed, it is removed from the table.
var tableHeld = index.NewTable(10, "held", 5_000)

func init() {
	register(partCarriers, Signal{
		Name:   "signal.novel",
		Doc:    "carriers of the arguments that are new in the project, or that only held actions had before, as kind:value",
		Key:    "carrier",
		Window: "all",
		Bound:  "as action.lineage",
		Cost:   "1 per carrier",
	}, (*State).novel)
}

func (s *State) novel() []string {
	var out []string
	for i := range s.met()[:min(len(s.met()), len(s.In.Content.Carriers))] {
		if m := &s.metBy[i]; m.ok && s.isNovel(s.originOfMet(m)) {
			out = append(out, m.carrier)
		}
	}
	return out
}

func (s *State) isNovel(o *origin) bool {
	return o.event == s.In.Event.ID ||
		o.origin == "agent" && len(s.t.Get(tableHeld, swapKey(s.t, o.agent, o.session, o.event))) > 0
}

// isHeld reports whether the origin with the given ref is an action that is held, and not the present input.
func (s *State) isHeld(ref uint32) bool {
	d := index.Decoder(s.t.Origin(ref))
	d.Num() // flags
	d.Num() // time
	if string(d.Raw()) != "agent" || string(d.Raw()) == s.In.Event.ID {
		return false
	}
	return s.isNovel(readOrigin(s.t.Origin(ref)))
}

// NoteHeld records that a rule asks for the action to be held.
func (s *State) NoteHeld() {
	if s.noted {
		noteHeld(s.t, s.In.Event.Agent, s.In.Event.Session, s.In.Event.ID, streams.Hold)
	}
}

// noteHeld records the verdict on an action.
func noteHeld(t *index.Tables, agent, session, id string, v streams.Verdict) {
	k := swapKey(t, agent, session, id)
	switch was := len(t.Get(tableHeld, k)) > 0; {
	case v != streams.Allow && !was:
		t.Put(tableHeld, k, []byte{1})
	case v == streams.Allow && was:
		t.Put(tableHeld, k, nil)
	}
}
