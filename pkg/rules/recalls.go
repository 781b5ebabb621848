package rules

import (
	"slices"
	"strings"
)

var noteRecalls = keep(orderRecalls, (*signals).noteRecall)

func init() {
	register(noteRecalls, Signal{
		Name:   "signal.recalled_external",
		Doc:    "memories of external origin that were recalled in this session",
		Key:    "session",
		Window: "session",
		Bound:  "32 a session",
		Cost:   "1",
	}, (*signals).recalledExternal)
}

// noteRecall keeps which memories were recalled in the session.
func (s *signals) noteRecall() {
	if s.in.Event.Kind != "recall" {
		return
	}
	d := dec(s.t.get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.num(), maxNotes) {
		ids = append(ids, d.str())
	}
	for _, it := range s.in.Recall.Items {
		s.use(it.ID)
		v := it.ID
		if it.External {
			v = "!" + v
		}
		if !slices.Contains(ids, v) {
			ids = append(ids, v)
		}
	}
	ids = ids[max(0, len(ids)-maxNotes):]
	var e enc
	e.num(uint64(len(ids)))
	for _, id := range ids {
		e.str(id)
	}
	s.t.put(tableSessions, s.sessionKey("r"), e)
}

func (s *signals) recalled() []string {
	d := dec(s.t.get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.num(), maxNotes) {
		ids = append(ids, d.str())
	}
	return ids
}

func (s *signals) recalledExternal() []string {
	var out []string
	for _, id := range s.recalled() {
		if v, ok := strings.CutPrefix(id, "!"); ok {
			out = append(out, v)
		}
	}
	return out
}
