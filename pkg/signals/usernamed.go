package signals

func init() {
	register(0, Signal{
		Name: "signal.user_named",
		Doc: "the user's own words in this session ask for what the tool does and name every receiver of the action, " +
			"or, without receivers, every carrier of the arguments",
		Key:    "session",
		Window: "session",
		Bound:  "4000 words",
		Cost:   "0",
	}, (*State).userNamed)
}

// userNamed reports whether the user asked for the tool's effect and named all receivers. If the action has no
// receivers, the user must instead have named all carriers in its arguments.
func (s *State) userNamed() bool {
	if !s.In.intent.Asked {
		return false
	}
	some := false
	s.In.targets(func(int) bool { some = true; return false })
	if some {
		return s.In.targetsNamed()
	}
	for _, c := range s.In.Content.Carriers {
		if !s.In.byUser(c) {
			return false
		}
	}
	return true
}
