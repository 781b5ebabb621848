package rules

func init() {
	register(noteCarriers, Signal{
		Name:   "signal.novel",
		Doc:    "carriers of the arguments that nobody named before in the project, as kind:value",
		Key:    "carrier",
		Window: "all",
		Bound:  "as action.lineage",
		Cost:   "1 a carrier",
	}, (*signals).novel)
}

func (s *signals) novel() []string {
	var out []string
	for i := range s.met()[:min(len(s.met()), len(s.in.Content.Carriers))] {
		if m := &s.metBy[i]; m.ok && s.headOfMet(m).event == s.in.Event.ID {
			out = append(out, m.carrier)
		}
	}
	return out
}
