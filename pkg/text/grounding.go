package text

import (
	"slices"
	"strings"
)

// Limits of [Grounding], in bytes. An agent's answer has a few KiB, and a tool result rarely more than 64 KiB. The cost
// grows with the product of the two limits.
const (
	maxAnswer = 16 << 10
	maxSource = 64 << 10 // for each source; if all sources shared a limit, one could displace another
)

// Parameters of the comparison of sentences. They were set by hand on the examples of the tests, in
// English, German, French and Japanese. None is from the literature.
const (
	maxSentence  = 48   // terms; a longer sentence is judged in parts
	windowFactor = 4    // terms of the source in a window, for each term of the sentence; an extract may skip that many
	minWindow    = 40   // terms; about three sentences
	nearTerms    = 6    // a figure belongs to a word that is at most this many terms away
	negatedTerms = 3    // terms that a negation affects
	stemRunes    = 6    // the number of runes of a stem: approve, approved and approval have six in common
	noRecall     = 0.15 // recall of unrelated texts of one language
	fullRecall   = 0.9  // recall of a paraphrase with a replaced word
	contradicted = 0.3  // maximum score of a sentence if there is hard evidence against it (see Grounding)
)

// The weight of a term when the share of a sentence that a source has (its recall) is computed.
const (
	weightShort = 1 // up to three letters: a function word in most languages
	weightWord  = 2
	weightName  = 4 // capitalized inside a sentence
	weightHard  = 4
)

// Grounding returns how far the wording of an answer is supported by its sources, from 0 to 1. It is 1 for text that
// the sources contain, about 0.7 or more for a paraphrase in mostly the same words, and near 0 for unrelated text. An
// empty answer gives 1. Any other answer without sources gives 0.
//
// Each sentence of the answer is compared with every window of every source. A window has four times the terms of the
// sentence, and at least 40. The score of the sentence is the share of its terms (stems of content words, figures,
// names) that the best window has. Two kinds of hard evidence limit the score to 0.3. The first is a figure, or a part
// of a carrier such as an address, that the window lacks or has only far from the other words of the sentence. The
// second is a contradiction: the sentence negates what the most similar sentence of the source states, or states what
// that sentence negates. The score of the answer is the mean over its sentences, weighted by their length in bytes.
// Sentences without terms ("It is.") do not count.
//
// The order of the sources does not matter, and an additional source never lowers the score. Grounding reads 16 KiB of
// the answer and counts the rest as unsupported. It reads 64 KiB of each source. The cost grows with the size of the
// sources times the number of sentences of the answer, unless an early window has all terms of a sentence that the
// source has.
//
// Grounding compares words, not meaning. A synonym counts as missing. It does not detect swapped figures or a sentence
// that joins two sources. It knows the negations of a few languages only. A high score says that the words come from
// the sources, not that the sources are true.
func Grounding(answer string, sources []string) float64 { return new(grounds).compare(answer, sources) }

// compare returns the result of Grounding. It may be called once.
func (g *grounds) compare(answer string, sources []string) float64 {
	sc := newScratch()
	defer sc.free()
	g.ids = map[uint64]int32{}
	var ignored Hidden
	clean := sc.clean(cutText(answer, maxAnswer), &ignored)
	if strings.TrimSpace(clean) == "" && len(answer) <= maxAnswer {
		return 1
	}
	if len(sources) == 0 {
		return 0
	}
	var r termReader
	r.read(sc, clean)
	r.harden(sc.marks(clean))
	g.split(r.terms)
	for _, source := range sources {
		r.read(sc, sc.clean(cutText(source, maxSource), &ignored))
		g.locate(r.terms)
		for i := range g.sentences {
			g.support(&g.sentences[i])
		}
	}
	total, score := float64(max(0, len(answer)-maxAnswer)), 0.0
	for _, s := range g.sentences {
		total += float64(s.bytes)
		score += float64(float64(s.bytes) * s.best) // the conversion prevents a fused multiply-add
	}
	if total == 0 {
		return 1
	}
	return score / total
}

// cutText returns the first n bytes of s. It returns fewer bytes if byte n would be inside a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:charStart(s, n)]
}

// grounds is the state of one call of [Grounding].
type grounds struct {
	sentences []sentence
	ids       map[uint64]int32 // ids of the keys of the answer
	slots     []int32          // by id: index of the key in the sentence that support compares now; -1 for other keys
	found     []occurrence     // occurrences of the answer's keys in the current source, in order
	all, hits []occurrence     // occurrences of the current sentence's keys; hits are those that count
	count     []int            // by id: number of occurrences in found
	windows   int              // number of windows that were compared, of all sentences and sources
}

// sentence is a sentence of the answer, or a part of a long one.
type sentence struct {
	bytes int
	terms int      // at most maxSentence
	want  []wanted // each key once
	total int      // total weight
	best  float64  // best score in the sources so far
}

type wanted struct {
	id             int32
	weight         int
	hard           bool
	plain, negated bool // the sentence states the term, or negates it; both can be set
	negation       int  // number, within the sentence, of the negation that affects the term
}

type occurrence struct {
	pos      int32 // position in terms
	id       int32
	sentence int32 // sentence number in the source
	negated  bool
}

// split divides the terms of an answer into sentences.
func (g *grounds) split(terms []term) {
	for len(terms) > 0 {
		n := 1
		for n < len(terms) && n < maxSentence && terms[n].sentence == terms[0].sentence {
			n++
		}
		s := sentence{bytes: terms[n-1].end - terms[0].start, terms: n}
		negations, last := 0, 0
		for _, t := range terms[:n] {
			if t.negated && t.negation != last {
				negations, last = negations+1, t.negation
			}
			key, w := t.stem, wanted{weight: t.weight(), hard: t.hard}
			if t.hard {
				key = t.exact
			}
			id, ok := g.ids[key]
			if !ok {
				id = int32(len(g.ids))
				g.ids[key] = id
			}
			w.id = id
			k := slices.IndexFunc(s.want, func(have wanted) bool { return have.id == id })
			if k < 0 {
				k = len(s.want)
				s.want = append(s.want, w)
				s.total += w.weight
			}
			if t.negated {
				s.want[k].negated, s.want[k].negation = true, negations
			} else {
				s.want[k].plain = true
			}
		}
		g.sentences = append(g.sentences, s)
		terms = terms[n:]
	}
	g.slots = make([]int32, len(g.ids))
	for i := range g.slots {
		g.slots[i] = -1
	}
	g.count = make([]int, len(g.ids))
}

// locate sets g.found to the occurrences of the answer's keys in a source.
func (g *grounds) locate(terms []term) {
	g.found = g.found[:0]
	clear(g.count)
	add := func(i int, t *term, key uint64) {
		if id, ok := g.ids[key]; ok {
			g.found = append(g.found, occurrence{int32(i), id, int32(t.sentence), t.negated})
			g.count[id]++
		}
	}
	for i := range terms {
		t := &terms[i]
		if add(i, t, t.stem); t.exact != t.stem {
			add(i, t, t.exact)
		}
	}
}

// window counts how often each term of a sentence occurs in a part of a source, separately for stated and for negated
// occurrences.
type window struct {
	left, right int // range of hits
	counts      [maxSentence][2]int32
	weight      int // weight of the terms that occur
	hard        int // number of hard terms that occur
}

// move makes the window cover the terms of the source at positions from <= i < to. Neither bound may decrease from one
// call to the next.
func (w *window) move(hits []occurrence, s *sentence, from, to int32) {
	for ; w.right < len(hits) && hits[w.right].pos < to; w.right++ {
		w.change(hits[w.right], s, 1)
	}
	for ; w.left < w.right && hits[w.left].pos < from; w.left++ {
		w.change(hits[w.left], s, -1)
	}
}

func (w *window) change(o occurrence, s *sentence, by int32) {
	c := &w.counts[o.id]
	before := c[0] + c[1]
	if o.negated {
		c[1] += by
	} else {
		c[0] += by
	}
	sign := 0 // +1 if the term now occurs in the window, -1 if it no longer does
	switch after := c[0] + c[1]; {
	case before == 0:
		sign = 1
	case after == 0:
		sign = -1
	}
	w.weight += sign * s.want[o.id].weight
	if s.want[o.id].hard {
		w.hard += sign
	}
}

// contradicts reports whether the window negates terms that the sentence states, or states terms that the sentence
// negates.
//
// If the sentence negates several terms at once, and the window negates one of them too, the others are no
// contradiction: word order may attach the same negation to other terms. For terms that the window negates and the
// sentence does not, it is unknown which of them belong to one negation. Therefore these terms are a contradiction only
// if they are more than the terms that both negate.
func (w *window) contradicts(s *sentence) bool {
	var agreed, opposed [maxSentence + 1]bool // by number of the sentence's negation
	common, only := 0, 0
	for k, want := range s.want {
		switch c := w.counts[k]; {
		case c[0]+c[1] == 0:
		case want.negated && c[1] > 0:
			common++
			agreed[want.negation] = true
		case want.plain && c[0] > 0:
		case want.plain:
			only++
		default:
			opposed[want.negation] = true
		}
	}
	for n := range opposed {
		if opposed[n] && !agreed[n] {
			return true
		}
	}
	return only > common
}

// support compares a sentence with each window of the source that was passed to locate last. If the best window gives a
// higher score than the sentence has, the sentence gets this score. The comparison ends as soon as no window can give
// more.
func (g *grounds) support(s *sentence) {
	if s.best == 1 {
		return
	}
	hard, most := 0, window{} // most is like a window that has the whole source
	for _, w := range s.want {
		if w.hard {
			hard++
		}
		if g.count[w.id] > 0 {
			if most.weight += w.weight; w.hard {
				most.hard++
			}
		}
	}
	limit := most.score(s, hard)
	if limit <= s.best {
		return
	}
	g.collect(s)
	var w window
	best := 0.0
	size := int32(max(minWindow, windowFactor*s.terms))
	for _, o := range g.hits {
		g.windows++
		w.move(g.hits, s, o.pos-size+1, o.pos+1)
		if best = max(best, w.score(s, hard)); best == limit {
			break
		}
	}
	if best > contradicted && best > s.best && g.contradicts(s) {
		best = contradicted
	}
	s.best = max(s.best, best)
}

// score returns the score of a sentence with `hard` hard terms in a window. It never falls if the window has more
// terms.
func (w *window) score(s *sentence, hard int) float64 {
	score := min(1, max(0, (float64(w.weight)/float64(s.total)-noRecall)/(fullRecall-noRecall)))
	if w.hard < hard {
		score = min(score, contradicted)
	}
	return score
}

// contradicts reports whether the most similar sentence of the source says the opposite of s. Less similar sentences do
// not count: they use the same words about other things. If several sentences are equally similar and one of them does
// not contradict s, the result is false.
func (g *grounds) contradicts(s *sentence) bool {
	most, opposite := 0, false
	for i := 0; i < len(g.hits); {
		var w window
		for from := g.hits[i].sentence; i < len(g.hits) && g.hits[i].sentence == from; i++ {
			w.change(g.hits[i], s, 1)
		}
		switch {
		case w.weight > most:
			most, opposite = w.weight, w.contradicts(s)
		case w.weight == most && opposite:
			opposite = w.contradicts(s)
		}
	}
	return opposite
}

// collect sets g.hits to the occurrences of the terms of a sentence in the source. It leaves out hard terms (figures
// and parts of carriers) that have no other term of the sentence nearby.
func (g *grounds) collect(s *sentence) {
	for k, w := range s.want {
		g.slots[w.id] = int32(k)
	}
	all := g.all[:0]
	for _, o := range g.found {
		if k := g.slots[o.id]; k >= 0 {
			all = append(all, occurrence{o.pos, k, o.sentence, o.negated})
		}
	}
	for _, w := range s.want {
		g.slots[w.id] = -1
	}
	g.all, g.hits = all, g.hits[:0]
	for i, o := range all {
		if !s.want[o.id].hard || len(s.want) == 1 || accompanied(all, i) {
			g.hits = append(g.hits, o)
		}
	}
}

// accompanied reports whether another term of the sentence occurs near the i-th occurrence.
func accompanied(all []occurrence, i int) bool {
	for j := i - 1; j >= 0 && all[i].pos-all[j].pos <= nearTerms; j-- {
		if all[j].id != all[i].id {
			return true
		}
	}
	for j := i + 1; j < len(all) && all[j].pos-all[i].pos <= nearTerms; j++ {
		if all[j].id != all[i].id {
			return true
		}
	}
	return false
}
