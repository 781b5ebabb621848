package console

import (
	"maps"
	"slices"

	"lazaret/streams"
)

// erase removes the rows of those entries that a statement orders to erase. If the statement is about a whole project,
// it also removes the counts of the project's rules. All other counts include the erased entries until the next start.
// A count contains no text. The caller holds mu.
func (x *index) erase(e *streams.Entry) {
	if !x.erased.Add(e) {
		return
	}
	gone := func(at uint64) bool { return x.erased.Covers(e.Project, at) }
	row := func(project string, at uint64) bool { return project == e.Project && gone(at) }
	maps.DeleteFunc(x.events, func(at uint64, ev event) bool { return row(ev.project, at) })
	maps.DeleteFunc(x.byEvent, func(k [3]string, at uint64) bool { return row(k[0], at) })
	x.alerts = slices.DeleteFunc(slices.Clone(x.alerts), func(a alertRow) bool { return row(a.Project, a.At) })
	x.eraseHolds(row)
	maps.DeleteFunc(x.incident, func(_ [2]string, i incidentRow) bool { return row(i.Project, i.At) })
	maps.DeleteFunc(x.silences, func(_ [2]string, s silenceRow) bool { return row(s.Project, s.At) })
	x.eraseTools(row)
	for k, s := range x.sessions {
		if s.Project != e.Project {
			continue
		}
		n := len(s.positions)
		s.positions = slices.DeleteFunc(s.positions, gone)
		if n > 0 && len(s.positions) == 0 {
			delete(x.sessions, k)
		}
	}
	if e.Type == streams.TypeForgotten {
		maps.DeleteFunc(x.rules, func(k [2]string, _ *ruleCount) bool { return k[0] == e.Project })
	}
}

// eraseHolds removes the holds of erased proposals. A proposal and its verdicts are always erased together.
func (x *index) eraseHolds(row func(project string, at uint64) bool) {
	gone := func(h *holdRow) bool { return row(h.Project, h.At) || row(h.Project, h.Verdict.Proposal) }
	maps.DeleteFunc(x.holds, func(_ [2]string, h *holdRow) bool { return gone(h) })
	maps.DeleteFunc(x.held, func(_ uint64, h *holdRow) bool { return gone(h) })
	x.closed = slices.DeleteFunc(x.closed, gone)
}

// eraseTools removes erased lists of tools. It removes a request to accept a list if the request is erased, or if no
// list of its server is left.
func (x *index) eraseTools(row func(project string, at uint64) bool) {
	for k, r := range x.catalogues {
		gone := func(o offeredList) bool { return row(r.Project, o.At) }
		if r.Offers = slices.DeleteFunc(r.Offers, gone); len(r.Offers) == 0 {
			delete(x.catalogues, k)
		}
		if gone(r.Accepted) {
			r.Accepted.At = 0
		}
	}
	maps.DeleteFunc(x.asks, func(at uint64, a ask) bool { return row(a.row.Project, at) || len(a.row.Offers) == 0 })
}
