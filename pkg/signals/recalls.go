package signals

import (
	"slices"
	"strings"

	"lazaret/pkg/signals/index"
)

var partRecalls = keep(orderRecalls, (*State).noteRecall)

func init() {
	register(partRecalls, Signal{
		Name:   "signal.recalled_external",
		Doc:    "memories of external origin that were recalled in this session",
		Key:    "session",
		Window: "session",
		Bound:  "32 per session",
		Cost:   "1",
	}, (*State).recalledExternal)
}

// noteRecall stores the memories that were recalled in the session. External content that the recall served then counts
// as read in the session.
func (s *State) noteRecall() {
	if s.In.Event.Kind != "recall" {
		return
	}
	d := index.Decoder(s.t.Get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.Num(), index.MaxDirectives) {
		ids = append(ids, d.Str())
	}
	for _, it := range s.In.Recall.Items {
		s.use(it.ID)
		v := it.ID
		if it.External {
			v = "!" + v
			for _, id := range s.notesOf(it.ID, nil) {
				s.noteHere(notesRecalled, id)
			}
		}
		if !slices.Contains(ids, v) {
			ids = append(ids, v)
		}
	}
	ids = ids[max(0, len(ids)-index.MaxDirectives):]
	var e index.Encoder
	e.Num(uint64(len(ids)))
	for _, id := range ids {
		e.Str(id)
	}
	s.t.Put(tableSessions, s.sessionKey("r"), e)
}

func (s *State) recalled() []string {
	d := index.Decoder(s.t.Get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.Num(), index.MaxDirectives) {
		ids = append(ids, d.Str())
	}
	return ids
}

func (s *State) recalledExternal() []string {
	var out []string
	for _, id := range s.recalled() {
		if v, ok := strings.CutPrefix(id, "!"); ok {
			out = append(out, v)
		}
	}
	return out
}
