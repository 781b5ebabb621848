package signals

func init() {
	register(partCarriers, Signal{
		Name:   "signal.novel",
		Doc:    "carriers of the arguments that are new in the project, as kind:value",
		Key:    "carrier",
		Window: "all",
		Bound:  "as action.lineage",
		Cost:   "1 per carrier",
	}, (*State).novel)
}

func (s *State) novel() []string {
	var out []string
	for i := range s.met()[:min(len(s.met()), len(s.In.Content.Carriers))] {
		if m := &s.metBy[i]; m.ok && s.originOfMet(m).event == s.In.Event.ID {
			out = append(out, m.carrier)
		}
	}
	return out
}
