package signals

func init() {
	register(AllParts, Signal{
		Name:   "signal.partial",
		Doc:    "tables that have dropped old keys: a signal that reads them is then a lower bound",
		Key:    "project",
		Window: "all",
		Bound:  "16",
		Cost:   "0",
	}, func(s *State) []string { return s.t.Partial() })
}
