package ingest

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/signals"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	admits(streams.KindOut, (*Fold).outcome)
	writesIn(streams.TypeOutcome, (*Fold).applyOutcome)
}

// Limits of grounding, which compares an answer with the sources that the answer names. A source beyond a limit is not
// read and does not count as support. The entry lists its id.
const (
	// maxSources and maxSourceBytes limit the sources that one answer is compared with.
	maxSources     = 16
	maxSourceBytes = 256 << 10
	// maxReading is how much of the text of one read event is stored, in bytes: as much as text.Grounding reads of a
	// source.
	maxReading = 64 << 10
	// keptReadings is the number of read events that are stored for each agent, the latest ones. The limit is per
	// agent, so that one agent's readings cannot displace those of another.
	keptReadings = 256
)

// outcome records the result of an action. If the result is an answer, the entry also says how far the sources that it
// names support it.
func (f *Fold) outcome(st *stage.State, m *stage.Message, head streams.EntryHead,
	ev *streams.Outcome) (*stage.Admission, error) {
	a := m.Address
	e := &streams.OutcomeEntry{EntryHead: head, Outcome: beliefs.Outcome{Action: ev.Action, Status: ev.Status,
		Digest: ev.Digest}, Content: ev.Content, Sources: ev.Sources}
	if ev.Content != "" {
		e.Features = text.Analyze(ev.Content)
	}
	if len(ev.Sources) > 0 {
		s := sources{f: f, st: st, a: a, left: maxSourceBytes}
		for i, id := range ev.Sources {
			if slices.Contains(ev.Sources[:i], id) {
				continue
			}
			if err := s.take(id); err != nil {
				return nil, err
			}
		}
		g := text.Grounding(ev.Content, s.texts)
		e.Grounding, e.Missing, e.Unread = &g, s.missing, s.unread
	}
	return admission(streams.TypeOutcome, a.Project, e)
}

// sources collects the texts of the sources that an answer names.
type sources struct {
	f  *Fold
	st *stage.State
	a  streams.Address

	texts           []string
	left            int // bytes that may still be read
	missing, unread []string
}

// take adds the text of a source, as far as the limits allow. Otherwise it adds the id to unread.
func (s *sources) take(id string) error {
	if len(s.texts) == maxSources || s.left == 0 {
		s.unread = append(s.unread, id)
		return nil
	}
	t, whole, err := s.f.sourceText(s.st, s.a, id)
	if err != nil {
		return err
	}
	if t == "" {
		s.missing = append(s.missing, id)
		return nil
	}
	if len(t) > s.left {
		t, whole = cut(t, s.left), false
		s.left = 0
	}
	s.left = max(0, s.left-len(t))
	s.texts = append(s.texts, t)
	if !whole {
		s.unread = append(s.unread, id)
	}
	return nil
}

// sourceText returns the stored text for an id, and whether it is complete. The id is that of a belief of the project,
// or of an observation or recall of the agent.
func (f *Fold) sourceText(st *stage.State, a streams.Address, id string) (string, bool, error) {
	r, err := f.belief(st, a.Project, id)
	if err != nil {
		return "", false, err
	}
	if r == nil {
		rd, err := f.reading(st, a.Project, a.Agent, id)
		if err != nil || rd == nil {
			return "", false, err
		}
		return strings.Join(rd.Texts, "\n\n"), !rd.Cut, nil
	}
	return f.beliefText(st, a.Project, r)
}

// beliefText returns the stored text of a belief, and whether it is complete.
func (f *Fold) beliefText(st *stage.State, project string, r *record) (string, bool, error) {
	if r.Memory || len(r.Content) <= previewLen {
		return r.Content, true, nil
	}
	// For read content, the record has only the beginning.
	if t, ok, err := st.Get(stage.Key(keyText, project, r.Ref.ID)); err != nil {
		return "", false, err
	} else if ok {
		return string(t), len(t) < keptText-utf8.UTFMax, nil
	}
	preview := strings.TrimSuffix(r.Content, "…")
	rd, err := f.reading(st, project, r.Agent, r.Ref.Observation)
	if err != nil || rd == nil {
		return preview, false, err
	}
	for i, t := range rd.Texts {
		if strings.HasPrefix(t, preview) {
			return t, !rd.Cut || i < len(rd.Texts)-1, nil
		}
	}
	return preview, false, nil
}

// reading is the stored text of an event that the agent read.
type reading struct {
	Texts []string // the blocks
	Cut   bool     // the last text was cut, or later texts were left out
}

func (f *Fold) reading(st *stage.State, project, agent, id string) (*reading, error) {
	v, ok, err := st.Get(stage.Key(keyReading, project, agent, id))
	if err != nil || !ok {
		return nil, err
	}
	return readReading(v)
}

// noteReading stores the texts that an event showed to the agent. It removes the agent's oldest reading if there are
// more than keptReadings.
func (f *Fold) noteReading(st *stage.State, project string, h *streams.EntryHead, texts []string) error {
	rd := reading{}
	left := maxReading
	for _, t := range texts {
		if t == "" {
			continue
		}
		if left == 0 {
			rd.Cut = true
			break
		}
		if len(t) > left {
			t, rd.Cut = cut(t, left), true
		}
		left -= len(t)
		if rd.Texts = append(rd.Texts, t); rd.Cut {
			break
		}
	}
	if len(rd.Texts) == 0 {
		return nil
	}
	counter := stage.Key(keyReadings, project, h.Agent, "")
	v, ok, err := st.Get(counter)
	if err != nil {
		return err
	}
	var n uint64
	if ok && len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	slot := readingSlot(project, h.Agent, n)
	old, ok, err := st.Get(slot)
	if err != nil {
		return err
	}
	if ok {
		if err := st.Delete(stage.Key(keyReading, project, h.Agent, string(old))); err != nil {
			return err
		}
		if err := st.Delete(stage.Key(keyPhrases, project, h.Agent, string(old))); err != nil {
			return err
		}
	}
	if err := st.Give(slot, []byte(h.ID)); err != nil {
		return err
	}
	if err := st.Give(counter, binary.BigEndian.AppendUint64(nil, n+1)); err != nil {
		return err
	}
	return st.Give(stage.Key(keyReading, project, h.Agent, h.ID), rd.short())
}

// readingSlot returns the key of the n-th event that an agent read. Event n+keptReadings has the same key and replaces
// event n.
func readingSlot(project, agent string, n uint64) []byte {
	return stage.Key(keyReadings, project, agent,
		string(binary.BigEndian.AppendUint16([]byte{'#'}, uint16(n%keptReadings))))
}

// applyOutcome stores the content of an executed call's result as a foreign text that the agent read.
func (f *Fold) applyOutcome(st *stage.State, project string, e *streams.OutcomeEntry) error {
	if !e.Ran() || e.Content == "" {
		return nil
	}
	if err := f.noteHeard(st, project, &e.EntryHead, false, true); err != nil {
		return err
	}
	var shown streams.Shown
	add(&shown, &e.Features, signals.Instructs(e.Features.Views(e.Content), e.Features.HasHidden(), nil))
	if err := addShown(st, project, &e.EntryHead, shown); err != nil {
		return err
	}
	if err := f.noteReading(st, project, &e.EntryHead, []string{e.Content}); err != nil {
		return err
	}
	by := brought{e.Agent, e.ID, beliefs.OriginTool}
	if ok, err := f.indexed(st, project, &e.Features); err != nil {
		return err
	} else if !ok {
		if err := f.noteExternal(st, project, by, &e.Features); err != nil {
			return err
		}
	}
	return f.notePhrases(st, project, by, []*text.Features{&e.Features})
}

// applyRecall stores the texts that a recall returned as texts that the agent read. Recalls return the same texts again
// and again, so their analyses are cached.
func (f *Fold) applyRecall(st *stage.State, project string, e *streams.RecallEntry) error {
	var texts []string
	var foreign []*text.Features
	var shown streams.Shown
	weakest := beliefs.OriginAgent
	for _, items := range [][]streams.RecallItem{e.Admitted, e.ContextOnly, e.Contradictions} {
		for _, it := range items {
			texts = append(texts, it.Content)
			strange, external := it.Unknown || !trusted(&it.BeliefRef), it.Origin.External()
			if !strange && !external {
				continue
			}
			a := f.analyses.of(it.Content)
			if strange {
				add(&shown, &a.features, external && a.instructs)
			}
			if external {
				foreign, weakest = append(foreign, &a.features), beliefs.Weakest(weakest, it.Origin)
			}
		}
	}
	if err := f.hearRecall(st, project, e); err != nil {
		return err
	}
	if err := addShown(st, project, &e.EntryHead, shown); err != nil {
		return err
	}
	if err := f.noteReading(st, project, &e.EntryHead, texts); err != nil || len(foreign) == 0 {
		return err
	}
	return f.notePhrases(st, project, brought{e.Agent, e.ID, weakest}, foreign)
}

// cut returns the first n bytes of s, or a few fewer so that no character is cut.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
