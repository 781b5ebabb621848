package signals

import (
	"maps"
	"slices"
	"strings"

	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

const (
	sampleOf  = 4  // one phrase in this many is stored
	maxSample = 32 // maximum number of phrases that are stored for one content
)

var (
	partCarriers = keep(orderCarriers, (*State).noteCarriers)
	partPhrases  = keep(orderPhrases, (*State).notePhrases)
)

func init() {
	register(partCarriers|partPhrases, Signal{
		Name:   "action.lineage",
		Doc:    "first occurrence in the project of each address, host, account, path and phrase of the arguments",
		Key:    "carrier",
		Window: "all",
		Bound:  "100000 carriers, 100000 phrases",
		Cost:   "1 per carrier",
	}, (*State).lineage)
	register(partCarriers|partPhrases, Signal{"memory.lineage", "as action.lineage, for the text of a memory write",
		"carrier", "all", "as action.lineage", "1 per carrier"}, (*State).lineage)
}

// Lineage says where a value of an action or memory first occurred in the project.
type Lineage struct {
	Carried     string  `cel:"carried" doc:"email, host, url, path, iban and the like, or phrase"`
	Value       string  `cel:"value"`
	FirstOrigin string  `cel:"first_origin" doc:"origin of the first event that named it: user, system, external or agent"`
	Origin      string  `cel:"origin" doc:"origin of that event by the sender's credential, such as web, email or tool"`
	Observation string  `cel:"observation" doc:"event that named it first"`
	Source      string  `cel:"source"`
	Session     string  `cel:"session"`
	Agent       string  `cel:"agent"`
	Age         float64 `cel:"age" doc:"seconds since it was first named"`
	User        bool    `cel:"user" doc:"the user also named it, at any time, or named its owner in this session"`
	SourceNamed bool    `cel:"source_named" doc:"in this session the user named its source: a file, address or sender"`
	Document    bool    `cel:"document" doc:"the event that named it first is a document that was read"`
	Listed      bool    `cel:"listed" doc:"it is the value of a field, not only in a sentence, of a source that the user named in this session"`
	New         bool    `cel:"new" doc:"no earlier entry named it"`
	Target      bool    `cel:"target" doc:"for actions: it is in an argument that is not prose, and it is more than the host of an e-mail address or a link in a sentence that the action sends"`
}

// met is a carrier of the input, with the entry that named it first in the project.
type met struct {
	carrier string
	ref     uint32  // number of that entry's origin; only if ok
	ok      bool    // an earlier entry named the carrier
	head    *origin // nil until it is read
}

// originOfMet returns the carrier's origin.
func (s *State) originOfMet(m *met) *origin {
	if m.head == nil {
		m.head = s.originOf(m.ref)
	}
	return m.head
}

// noteCarriers stores each carrier's first origin. If the first origin is an action that is held, it does not count:
// the next content or action with the carrier becomes the first origin.
func (s *State) noteCarriers() {
	in := s.In
	if !s.hasContent() && in.Event.Kind != "action" {
		return
	}
	b := s.t.Index()
	if b == nil {
		return
	}
	user := in.Event.Origin == "user" && !s.extern && in.Event.Kind == "observation"
	s.metBy, s.metRead = slices.Grow(s.metBy[:0], len(in.carried)), true
	b.Prefetch(index.PostCarriers, in.carriedBy)
	for i, c := range in.carried {
		h := in.carriedBy[i]
		ref, ok := b.Get(index.PostCarriers, h)
		switch {
		case !ok:
			ref = s.ownOrigin(b)
			if user {
				ref |= index.NamedByUser
			}
			ref = b.Put(index.PostCarriers, h, ref)
		case user && ref&index.NamedByUser == 0:
			ref = b.Put(index.PostCarriers, h, ref|index.NamedByUser)
		}
		if ok && s.isHeld(ref) {
			ref = b.Replace(h, s.ownOrigin(b)|ref&index.NamedByUser)
		}
		s.metBy = append(s.metBy, met{carrier: c, ref: ref, ok: true})
	}
}

// met returns the carriers of the input, each with its first origin in the project.
func (s *State) met() []met {
	if !s.metRead {
		s.metRead = true
		for i, c := range s.In.carried {
			ref, ok := s.t.Find(index.PostCarriers, s.In.carriedBy[i])
			s.metBy = append(s.metBy, met{carrier: c, ref: ref, ok: ok})
		}
	}
	return s.metBy
}

// maxProper is the maximum number of proper names that are stored for a content.
const maxProper = 24

// properNames returns each sequence of two to four capitalized words in a text, in the form "name:a b".
func properNames(text string) []string {
	var out, run []string
	add := func(words []string) {
		if n := len(words); n >= 2 && n <= 4 && len(out) < maxProper {
			if v := "name:" + strings.ToLower(strings.Join(words, " ")); !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	flush := func() {
		add(run)
		if len(run) > 2 {
			add(run[1:]) // leave out the first word, which may be capitalized only because it begins a sentence
		}
		run = run[:0]
	}
	for line := range strings.Lines(streams.Clip(text, 4<<10)) {
		for w := range strings.FieldsSeq(line) {
			if w[0] >= 'a' && w[0] <= 'z' { // most words
				if len(run) > 0 {
					flush()
				}
				continue
			}
			bare := namesEnd.trim(w)
			capital := len(bare) > 1 && bare[0] >= 'A' && bare[0] <= 'Z'
			if !capital || w[0] != bare[0] {
				flush()
			}
			if capital {
				run = append(run, bare)
			}
			if len(bare) == 0 || w[len(w)-1] != bare[len(bare)-1] {
				flush()
			}
		}
		flush()
	}
	return out
}

// sampled returns the phrases of a text that are stored. A phrase's own hash decides whether it is stored, so that an
// extract of the text has the same stored phrases.
func sampled(p text.Phrases) []uint64 {
	var out []uint64
	for _, h := range p.Hashes {
		if h%sampleOf == 0 && len(out) < maxSample {
			out = append(out, h)
		}
	}
	return out
}

// notePhrases stores for each sampled phrase the first external content that had it.
func (s *State) notePhrases() {
	if !s.hasExternalContent() {
		return
	}
	b := s.t.Index()
	if b == nil {
		return
	}
	b.Prefetch(index.PostPhrases, s.In.sample)
	for _, h := range s.In.sample {
		if _, ok := b.Get(index.PostPhrases, h); !ok {
			b.Put(index.PostPhrases, h, s.ownOrigin(b))
		}
	}
}

func (s *State) lineage() []*Lineage {
	in := s.In
	var out []*Lineage
	var all []Lineage
	for i := range s.met() {
		m := &s.metBy[i]
		if !m.ok {
			continue
		}
		kind, value, _ := strings.Cut(m.carrier, ":")
		r := s.originOfMet(m)
		if out == nil {
			out, all = make([]*Lineage, 0, len(s.metBy)), make([]Lineage, len(s.metBy))
		}
		l := &all[i]
		*l = Lineage{
			Carried:     kind,
			Value:       value,
			Origin:      r.origin,
			FirstOrigin: r.origin,
			Observation: r.event,
			Source:      r.src,
			Session:     r.session,
			Agent:       r.agent,
			Age:         s.since(r.at),
			User:        m.ref&index.NamedByUser != 0 || in.byUser(m.carrier),
			SourceNamed: r.userNamed,
			Document:    r.document,
			Listed:      slices.Contains(in.intent.Listed, m.carrier),
			New:         r.event == in.Event.ID,
			Target:      in.isTarget(kind, value),
		}
		if r.external {
			l.FirstOrigin = "external"
		}
		out = append(out, l)
	}
	// Report a phrase only if the same external content has at least a third of the input's phrases.
	var hits map[string]int
	var first map[string]*Lineage
	mine := in.sample
	b := s.t.Index()
	if b == nil {
		return out
	}
	b.Prefetch(index.PostPhrases, mine)
	for _, h := range mine {
		ref, ok := b.Get(index.PostPhrases, h)
		if !ok || s.noted && ref == s.ownRef {
			continue
		}
		r := s.originOf(ref)
		if r.event == in.Event.ID {
			continue
		}
		if hits == nil {
			hits, first = make(map[string]int), make(map[string]*Lineage)
		}
		if hits[r.event]++; first[r.event] == nil {
			first[r.event] = &Lineage{
				Carried:     "phrase",
				FirstOrigin: "external",
				Origin:      "external",
				Observation: r.event,
				Source:      r.src,
				Session:     r.session,
				Age:         s.since(r.at),
				Document:    r.document,
			}
		}
	}
	if hits == nil {
		return out
	}
	for _, ev := range slices.Sorted(maps.Keys(hits)) {
		if hits[ev] >= 2 && 3*hits[ev] >= len(mine) {
			l := first[ev]
			l.Value = streams.Clip(in.Content.Text, 80)
			out = append(out, l)
		}
	}
	return out
}
