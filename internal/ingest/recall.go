package ingest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	admits(streams.KindRecall, (*Fold).recall)
	writesIn(streams.TypeRecall, (*Fold).applyRecall)
}

// Limits of a recall.
const (
	defaultLimit = 10
	// lookedLimit is the maximum number of hits that a recall examines in each word index: the best ones. It examines
	// at least minLooked, even if it serves few. So refused beliefs at the top do not hide the others.
	lookedLimit = 200
	minLooked   = 50
	// refusedLimit is the maximum number of refusals that the entry reports.
	refusedLimit = 20
	// maxServed is the maximum size of the served part of a read text, in bytes. Memories are served whole if there is
	// room (see recallBytes).
	maxServed = 4 << 10
)

// recall finds memories and read texts by key, filter and rank, or takes the results of another memory store. It
// applies the context policy to them. Refused results are reported with the reason. The arbiter answers a recall like
// an action.
func (f *Fold) recall(st *stage.State, m *stage.Message, head streams.EntryHead,
	ev *streams.Recall) (*stage.Admission, error) {
	a := m.Address
	e := &streams.RecallEntry{EntryHead: head, Query: ev.Query, Key: ev.Key, Filter: ev.Filter, Gate: len(ev.Candidates),
		Purpose: ev.Purpose, Limit: ev.Limit, Offset: ev.Offset, Spotlight: ev.Spotlight}
	if e.Limit == 0 {
		e.Limit = defaultLimit
	}
	if e.Gate > 0 && ev.Limit == 0 {
		e.Limit = e.Gate
	}
	if e.Purpose == "" {
		e.Purpose = beliefs.PurposePlanning
	}
	var err error
	if e.UnseenBy, e.Restored, err = f.sessionState(st, a, head, ev.After); err != nil {
		return nil, err
	}
	e.Unseen = e.UnseenBy != nil
	pol := beliefs.DefaultContext(e.Purpose)
	if p, _, err := f.policies.Active(st, streams.DoActivatePolicy); err != nil {
		return nil, err
	} else if p != nil {
		pol = p.Context(e.Purpose)
	}
	var found []match
	var read []reads
	if e.Gate > 0 {
		found, err = f.candidates(st, a, head, ev.Candidates)
	} else {
		found, read, err = f.search(st, a.Project, placesSeen(head), ev, e.Limit)
	}
	if err != nil {
		return nil, err
	}
	if err := f.serve(st, a.Project, e, pol, found, read); err != nil {
		return nil, err
	}
	return admission(streams.TypeRecall, a.Project, e)
}

// match is a result of a recall: a belief, or a text of another store.
type match struct {
	*record
	score   float64
	unknown bool // the content is not a belief of this project
	missing bool // there is no belief with the id, or the caller may not see it
	brought bool // the content came with the request
}

func (m *match) candidate() beliefs.Candidate {
	return beliefs.Candidate{Axes: m.Ref.Axes, Sensitivity: m.Ref.Sensitivity, Origin: m.Ref.Origin, At: m.last(),
		ValidFrom: m.From, ValidTo: m.To, Read: !m.Memory, Grade: m.Ref.Grade, ID: m.Ref.ID, Key: m.Ref.Key,
		Category: m.Category, Source: m.Ref.Source, Agent: m.Agent, Session: m.Session, Quality: m.Ref.Quality,
		Confidence: m.Ref.Confidence, Score: m.score}
}

// reads is a hit in a read text whose belief is not loaded yet. Read texts are served only as context. Once enough are
// served, the others need not be loaded.
type reads struct {
	in    *lexical.Index
	hit   lexical.Hit
	score float64
}

// look loads the belief of a hit. It returns nil if the belief does not match the recall's key and filter, because the
// index compares only hashes.
func (f *Fold) look(st *stage.State, project string, r reads, key string, filter *streams.RecallFilter) (*match,
	error) {
	id, err := r.in.ID(r.hit)
	if err != nil {
		return nil, err
	}
	rec, err := f.belief(st, project, id)
	if err != nil || rec == nil || !fits(rec, key, filter) {
		return nil, err
	}
	return &match{record: rec, score: r.score}, nil
}

// warm reads the beliefs of hits concurrently, so that they are cached.
func warm(st *stage.State, project string, hits []reads) {
	st.Warm(len(hits), func(i int, get func(key []byte) ([]byte, bool)) {
		if id, ok := get(hits[i].in.IDKey(hits[i].hit)); ok {
			get(stage.Key(keyBelief, project, string(id)))
		}
	})
}

// serve applies the context policy to the beliefs in found, the most trusted first, and then to those in read, by rank,
// until there are enough. It sets the lists of the entry. Its list of context-only items is ordered by rank.
func (f *Fold) serve(st *stage.State, project string, e *streams.RecallEntry, pol beliefs.ContextPolicy,
	found []match, read []reads) error {
	asker := beliefs.Asker{Agent: e.Agent, Session: e.Session}
	cands := make([]beliefs.Candidate, len(found))
	by := make(map[string]*match, len(found)+e.Limit)
	for i := range found {
		cands[i] = found[i].candidate()
		cands[i].Axes = found[i].axesAt(e.Time)
		by[found[i].Ref.ID] = &found[i]
	}
	aside := make([]streams.RecallItem, 0, min(e.Limit, len(found)+len(read)))
	place := func(m *match, r beliefs.Ruling) {
		if m.missing {
			r = beliefs.Ruling{Reason: beliefs.ReasonUnknown, Text: "no belief with this id is known here"}
		}
		item := streams.RecallItem{BeliefRef: m.cited(), Score: m.score, Reason: r.Reason, Unknown: m.unknown}
		switch r.Channel {
		case beliefs.Admitted:
			if beliefs.CountsAsExternal(item.Origin, item.Grade) && !pol.Privileged {
				e.MaxExternal = pol.MaxExternal
			}
			if len(e.Admitted) == e.Limit {
				omit(e, "admitted", 1)
				return
			}
			if e.Admitted == nil {
				e.Admitted = make([]streams.RecallItem, 0, min(e.Limit, len(found)))
			}
			e.Admitted = append(e.Admitted, item)
		case beliefs.AsContext:
			item.Scope = beliefs.ContextOnly
			aside = append(aside, item)
		case beliefs.Contradiction:
			if len(e.Contradictions) == e.Limit {
				omit(e, "contradictions", 1)
				return
			}
			e.Contradictions = append(e.Contradictions, item)
		default:
			if len(e.Refused) == refusedLimit {
				omit(e, "refused", 1)
				return
			}
			e.Refused = append(e.Refused, streams.Refusal{ID: m.Ref.ID, Reason: r.Reason, Text: r.Text})
		}
	}
	for i, r := range pol.Judge(e.Time, asker, cands) {
		place(&found[i], r)
	}
	warm(st, project, read[:min(len(read), e.Limit)])
	for i, r := range read {
		ahead := 0
		for _, it := range aside {
			if it.Score >= r.score {
				ahead++
			}
		}
		if ahead >= e.Limit {
			omit(e, "context_only", len(read)-i)
			break
		}
		if !pol.ContextOnly && len(e.Refused) == refusedLimit {
			omit(e, "refused", len(read)-i)
			break
		}
		m, err := f.look(st, project, r, e.Key, &e.Filter)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		by[m.Ref.ID] = m
		c := m.candidate()
		c.Axes = m.axesAt(e.Time)
		place(m, pol.Judge(e.Time, asker, []beliefs.Candidate{c})[0])
	}
	slices.SortStableFunc(aside, func(a, b streams.RecallItem) int { return cmp.Compare(b.Score, a.Score) })
	if n := len(aside) - e.Limit; n > 0 {
		omit(e, "context_only", n)
	}
	if len(aside) > 0 {
		e.ContextOnly = aside[:min(len(aside), e.Limit)]
	}
	return f.serveTexts(st, project, e, by)
}

// serveTexts sets the texts of the served items. It drops items for which there is no room.
func (f *Fold) serveTexts(st *stage.State, project string, e *streams.RecallEntry, by map[string]*match) error {
	// The items of later lists are dropped first.
	lists := []*[]streams.RecallItem{&e.Admitted, &e.Contradictions, &e.ContextOnly}
	var all []serving
	for _, list := range lists {
		if err := f.keepIntact(st, project, e, list, by); err != nil {
			return err
		}
		all = slices.Grow(all, len(*list))
		for i := range *list {
			it := &(*list)[i]
			s, err := f.serving(st, project, it, by[it.ID], e.Offset)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
	}
	fit, short, err := share(all, recallBytes)
	if err != nil {
		return err
	}
	e.More = short || fit < len(all)
	for i, list := range lists {
		n := min(len(*list), fit)
		if left := len(*list) - n; left > 0 {
			omit(e, [...]string{"admitted", "contradictions", "context_only"}[i], left)
		}
		all, fit = all[len(*list):], fit-n
		if *list = (*list)[:n:n]; n == 0 {
			*list = nil
		}
	}
	return nil
}

// serving returns an item with that part of its text, from offset on, that may be served.
func (f *Fold) serving(st *stage.State, project string, it *streams.RecallItem, m *match, offset int) (s serving,
	err error) {
	if m.unknown || m.Memory {
		s = serving{item: it, text: after(m.Content, offset), size: len(m.Content), brought: m.brought}
		if s.digest = m.Digest; !m.unknown && s.digest == "" {
			s.digest = streams.Digest([]byte(m.Content))
		}
		s.item.Partial = offset > 0
		return s, nil
	}
	t, whole, err := f.beliefText(st, project, m.record)
	if err != nil {
		return s, err
	}
	s = serving{item: it, text: cut(after(t, offset), maxServed)}
	s.item.Partial = !whole || len(s.text) < len(t)
	if whole {
		s.size = len(t)
	}
	return s, nil
}

// omit counts n matching results that were left out of one list of the entry, named channel.
func omit(e *streams.RecallEntry, channel string, n int) {
	if e.Omitted == nil {
		e.Omitted = map[string]int{}
	}
	e.Omitted[channel] += n
}

// search returns the matching memories of some places, the most trusted class first and by rank within a class, and the
// matching read texts, by rank.
func (f *Fold) search(st *stage.State, project string, places []string, ev *streams.Recall, limit int) (found []match,
	read []reads, err error) {
	q := lexical.Query{Words: lexical.Words(ev.Query), Labels: filterLabels(ev), Limit: min(max(3*limit, minLooked),
		lookedLimit)}
	q.Near = lexical.Near(q.Words)
	if ev.Query != "" && len(q.Words) == 0 {
		return nil, nil, nil // the query has only function words, which nearly every text has
	}
	for _, s := range shelves {
		var in []match
		for _, place := range places {
			// Hits in read texts are added to the list read. Hits in memories are loaded at once.
			all, have := read, len(read)
			if s.memory {
				all, have = nil, 0
			}
			all, err := searchShelf(st, project, place, s, q, all)
			if err != nil {
				return nil, nil, err
			}
			for i := range all[have:] {
				r := &all[have+i]
				if r.score = float64(r.hit.Score) / 1000; len(q.Words) == 0 {
					r.score = -1
				}
			}
			if !s.memory {
				read = all
				continue
			}
			warm(st, project, all)
			for _, r := range all {
				if m, err := f.look(st, project, r, ev.Key, &ev.Filter); err != nil {
					return nil, nil, err
				} else if m != nil {
					in = append(in, *m)
				}
			}
		}
		slices.SortStableFunc(in, func(a, b match) int { return cmp.Compare(b.score, a.score) })
		found = append(found, in...)
	}
	slices.SortStableFunc(read, func(a, b reads) int { return cmp.Compare(b.score, a.score) })
	return found, read, nil
}

// candidates returns the results of another memory store as matches. Content that is also a belief here is judged by
// that belief. Other content counts as external.
func (f *Fold) candidates(st *stage.State, a streams.Address, head streams.EntryHead,
	cs []streams.GateCandidate) ([]match, error) {
	var out []match
	have := make(map[string]bool, len(cs))
	for _, c := range cs {
		m := match{score: -1}
		if c.Score != nil {
			m.score = *c.Score
		}
		var err error
		if c.ID != "" {
			m.record, err = f.belief(st, a.Project, c.ID)
			if err == nil && (m.record == nil || !seenFrom(head, m.record)) {
				m.record, m.missing = &record{Ref: streams.BeliefRef{ID: c.ID}}, true
			}
		} else {
			m.brought = true
			m.record, err = f.byContent(st, a.Project, head, c.Content)
			if err == nil && m.record == nil {
				m.record, m.unknown = unknown(a, head, c), true
			}
		}
		if err != nil {
			return nil, err
		}
		if !have[m.Ref.ID] {
			have[m.Ref.ID] = true
			out = append(out, m)
		}
	}
	// The most trusted first; within a class, in the order of the other store.
	slices.SortStableFunc(out, func(a, b match) int { return cmp.Compare(classOf(a.Ref.Origin), classOf(b.Ref.Origin)) })
	return out, nil
}

// byContent returns the belief with a content, or nil. Of several, it prefers one with a finding by a sentinel or a
// person, and otherwise the most trusted one.
func (f *Fold) byContent(st *stage.State, project string, head streams.EntryHead, content string) (best *record,
	err error) {
	sum := sha256.Sum256([]byte(content))
	q := lexical.Query{Labels: []text.Term{text.Label("sum", hex.EncodeToString(sum[:]))}, Limit: lookedLimit}
	better := func(r *record) bool {
		if best == nil || best.Ref.Axes.Security != r.Ref.Axes.Security {
			return best == nil || r.Ref.Axes.Security > best.Ref.Axes.Security
		}
		return best.Ref.Axes.Truth != beliefs.Supported && r.Ref.Axes.Truth == beliefs.Supported || !best.Memory && r.Memory
	}
	for _, s := range shelves {
		for _, place := range placesSeen(head) {
			hits, err := searchShelf(st, project, place, s, q, nil)
			if err != nil {
				return nil, err
			}
			for _, h := range hits {
				id, err := h.in.ID(h.hit)
				if err != nil {
					return nil, err
				}
				r, err := f.belief(st, project, id)
				if err != nil {
					return nil, err
				}
				if r != nil && better(r) {
					best = r
				}
			}
		}
	}
	return best, nil
}

// unknown returns a record for content that is not a belief of the project. It is not stored. Its id is a hash of the
// content.
func unknown(a streams.Address, head streams.EntryHead, c streams.GateCandidate) *record {
	sum := sha256.Sum256([]byte(c.Content))
	ad := beliefs.EvidenceSet{{Observation: head.ID, Quality: beliefs.ExternalDocument, Source: c.Source,
		At: head.Time}}.Adopt()
	return &record{At: head.Time, Content: c.Content, Memory: true, Agent: a.Agent, Session: head.Session,
		Ref: streams.BeliefRef{ID: beliefID("unknown", a.Project, string(sum[:])), Kind: beliefs.Content, Axes: ad.Axes,
			Scope: ad.Scope, Quality: ad.Quality,
			Origin: beliefs.OriginDocument, Confidence: ad.Confidence, Source: c.Source, Observation: head.ID}}
}
