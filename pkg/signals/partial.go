package signals

func init() {
	register(AllParts, Signal{
		Name:   "signal.partial",
		Doc:    "tables out of which keys have fallen: what a signal says of old keys is then a lower bound",
		Key:    "project",
		Window: "all",
		Bound:  "16",
		Cost:   "0",
	}, func(s *State) []string { return s.t.Partial() })
}
