package rules

// Accept folds in that an action of tool streams.ApproveTools was allowed: what
// it showed is what the tools of its server are compared with from then on.
func (ev *Evaluator) Accept(st Store, project, agent, id string) error {
	if ev.only&noteTools == 0 {
		return nil
	}
	t := openTables(st, project)
	accepted := readOffer(t.get(tableTools, t.named(keyProposed, agent, "\x00", id)))
	if accepted == nil {
		return t.err
	}
	now := make(map[string]string)
	if o := readOffer(t.get(tableTools, t.named(keyOffered, accepted.server))); o != nil {
		for i, name := range o.names {
			now[name] = o.prints[i]
		}
	}
	for i, name := range accepted.names {
		t.put(tableTools, t.named(accepted.server, "\x00", name), []byte(accepted.prints[i]))
		var e enc
		e.str(accepted.server)
		if p, ok := now[name]; ok && p != accepted.prints[i] {
			e.num(1) // it has changed again
		} else {
			e.num(0)
		}
		t.put(tableTools, t.named("\x01", name), e)
	}
	return t.close()
}
