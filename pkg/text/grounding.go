package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of [Grounding], in bytes. An answer of an agent is a few KiB, a tool
// result rarely above 64; the product of the two bounds the cost.
const (
	maxAnswer = 16 << 10
	maxSource = 64 << 10 // of each: a bound on all together would let one source push out another
)

// How sentences are compared. The values were set by hand on the examples of
// the tests, in English, German, French and Japanese; none is from the
// literature.
const (
	maxSentence  = 48   // terms; a longer sentence is judged in parts
	windowFactor = 4    // terms of the source that one term of a sentence may come from: an extract leaves that much out
	minWindow    = 40   // terms, some three sentences
	nearTerms    = 6    // terms between a figure and what it belongs to
	negatedTerms = 3    // terms that a negation reaches
	stemRunes    = 6    // approve, approved and approval are the same in these
	noRecall     = 0.15 // of unrelated texts of one language
	fullRecall   = 0.9  // a word that was exchanged is still a paraphrase
	contradicted = 0.3  // at most, for a sentence against hard evidence
)

// Weights of terms in the recall of a sentence.
const (
	weightShort = 1 // up to three letters: function words of any language, mostly
	weightWord  = 2
	weightName  = 4 // capitalised inside a sentence
	weightHard  = 4
)

// Grounding returns from 0 to 1 how far the wording of an answer is supported
// by its sources: 1 for what stands in them, around 0.7 and more for a
// paraphrase in mostly the same words, near 0 for something else. An empty
// answer is 1, any other without a source 0.
//
// Each sentence of the answer is held against every stretch of every source, of
// four times its terms and 40 at least. Its score is the share of its
// terms (content words by their stems, figures, names) that stand in the best
// stretch. Two things are hard evidence, and put it to 0.3 at most: a figure,
// or a part of an address or another carrier, that is not in the stretch near
// other words of the sentence; and a negation of what the sentence of the source
// with most of its terms says plainly, or the other way round. The score of the answer is the mean of its sentences by their
// length in bytes; sentences without any terms ("It is.") count for nothing.
//
// The order of the sources is of no importance, and one more never lowers the
// score. Of the answer 16 KiB are read, and the rest counts as unsupported; of
// each source 64 KiB. The cost grows with the sources, and with those times the
// sentences of the answer.
//
// It compares words and knows no meaning: a synonym counts as missing, figures
// that changed places or one sentence made of two sources are not seen for what
// they are, and words of negation are known for a few languages. A high score
// says that the words come from the sources, not that these are true.
func Grounding(answer string, sources []string) float64 {
	sc := newScratch()
	defer sc.free()
	g := grounds{ids: map[uint64]int32{}}
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
		score += float64(float64(s.bytes) * s.best) // not fused, which some machines do
	}
	if total == 0 {
		return 1
	}
	return score / total
}

// cutText returns the first n bytes of s, or fewer if it would otherwise cut a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:charStart(s, n)]
}

// grounds is the state of one call of [Grounding].
type grounds struct {
	sentences []sentence
	ids       map[uint64]int32 // of the keys of the answer
	slots     []int32          // by id, the place of a key in one sentence; -1 outside of support
	found     []occurrence     // of those keys in one source, in order
	all, hits []occurrence     // those of one sentence, by their place in it; hits are those that count
}

// sentence is one of the answer, or a part of a long one.
type sentence struct {
	bytes int
	terms int      // not more than maxSentence
	want  []wanted // each key once
	total int      // weight of all
	best  float64  // score in the sources so far
}

type wanted struct {
	id             int32
	weight         int
	hard           bool
	plain, negated bool // how the sentence says it; both is possible
	negation       int  // which one of the sentence negates it
}

type occurrence struct {
	pos      int32 // in terms
	id       int32
	sentence int32 // of the source
	negated  bool
}

// split makes the sentences of the terms of an answer.
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
}

// locate records the positions of the answer's keys in a source.
func (g *grounds) locate(terms []term) {
	g.found = g.found[:0]
	for i, t := range terms {
		if id, ok := g.ids[t.stem]; ok {
			g.found = append(g.found, occurrence{int32(i), id, int32(t.sentence), t.negated})
		}
		if t.exact == t.stem {
			continue
		}
		if id, ok := g.ids[t.exact]; ok {
			g.found = append(g.found, occurrence{int32(i), id, int32(t.sentence), t.negated})
		}
	}
}

// window counts how often each term of a sentence occurs in a stretch of a source, plain and
// negated.
type window struct {
	left, right int // of the hits
	counts      [maxSentence][2]int32
	weight      int // of the terms that are there
	hard        int // hard ones among them
}

// move sets the window to the source's terms from <= i < to. Neither bound may be lower than
// in the previous call.
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
	sign := 0 // whether the term came or went
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

// contradicts reports whether the window negates what the sentence says
// plainly, or the other way round. A negation of the sentence is in order if
// any of its terms is negated here too: word order may put it before others. For
// negations that only the window has, there is no telling which terms belong to
// one; they count if they are more than those in common.
func (w *window) contradicts(s *sentence) bool {
	var agreed, opposed [maxSentence + 1]bool // by negation of the sentence
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

// support raises the score of a sentence to that of the best window of the
// source that was located last.
func (g *grounds) support(s *sentence) {
	if s.best == 1 {
		return
	}
	hard := g.collect(s)
	var w window
	best := 0.0
	size := int32(max(minWindow, windowFactor*s.terms))
	for _, o := range g.hits {
		w.move(g.hits, s, o.pos-size+1, o.pos+1)
		score := min(1, max(0, (float64(w.weight)/float64(s.total)-noRecall)/(fullRecall-noRecall)))
		if w.hard < hard {
			score = min(score, contradicted)
		}
		best = max(best, score)
	}
	if best > contradicted && best > s.best && g.contradicts(s) {
		best = contradicted
	}
	s.best = max(s.best, best)
}

// contradicts reports whether the sentence of the source that has most of s
// says the opposite. Other sentences use the same words of other things: only
// one that has just as much can make up for it.
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

// collect makes g.hits the occurrences of the terms of a sentence, without hard
// ones that stand alone, and returns how many hard terms the sentence has.
func (g *grounds) collect(s *sentence) (hard int) {
	for k, w := range s.want {
		g.slots[w.id] = int32(k)
		if w.hard {
			hard++
		}
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
	return hard
}

// accompanied reports whether another term stands near the i-th occurrence.
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

// term is a word of a text that says something, or a figure.
type term struct {
	exact, stem uint64 // keys: as written but for case, and as it is compared
	start, end  int    // bytes in the clean text
	sentence    int
	hard        bool // a figure, or a part of a carrier
	name        bool // a capital inside a sentence
	short       bool
	negated     bool
	negation    int // the number of the one that negates it
}

func (t term) weight() int {
	switch {
	case t.hard:
		return weightHard
	case t.name:
		return weightName
	case t.short:
		return weightShort
	}
	return weightWord
}

// termReader reads the terms of one text after another.
type termReader struct {
	sc       *scratch
	s        string
	terms    []term
	sentence int
	initial  bool // no word of the sentence was read yet
	clause   int  // the first term of the clause
	reach    int  // terms that the negation before still reaches
	dangling bool // it has reached none yet
	negated  int  // negations so far
}

// read replaces r.terms with those of a clean text.
func (r *termReader) read(sc *scratch, clean string) {
	*r = termReader{sc: sc, s: clean, terms: r.terms[:0], initial: true}
	for i := 0; i < len(clean); {
		c, size := utf8.DecodeRuneInString(clean[i:])
		switch {
		case c >= '0' && c <= '9':
			i = r.figure(i)
		case unspaced(c):
			i = r.pairs(i)
		case !notOfWord(c):
			i = r.word(i)
		default:
			r.punctuation(c, i+size)
			i += size
		}
	}
	r.endClause()
}

// harden makes hard what stands in carriers. A command has ordinary words in
// it, and what is wrong in one shows in its other carriers.
func (r *termReader) harden(marks []Span) {
	slices.SortFunc(marks, func(a, b Span) int { return a.Start - b.Start })
	end, n := 0, 0 // the furthest end of the marks that begin before a term
	for i := range r.terms {
		for ; n < len(marks) && marks[n].Start <= r.terms[i].start; n++ {
			if marks[n].Kind != string(Command) {
				end = max(end, marks[n].End)
			}
		}
		if r.terms[i].end <= end {
			r.terms[i].hard = true
		}
	}
}

func (r *termReader) add(t term) {
	t.sentence = r.sentence
	if r.reach > 0 {
		t.negated, t.negation, r.dangling = true, r.negated, false
		r.reach--
	}
	r.terms = append(r.terms, t)
	r.initial = false
}

// negation makes the next terms of the clause negated ones; two in a row are
// none ("not without").
func (r *termReader) negation() {
	r.initial = false
	if r.dangling {
		r.reach, r.dangling = 0, false
		return
	}
	r.reach, r.dangling = negatedTerms, true
	r.negated++
}

// endClause ends the reach of a negation; one with nothing after it negates
// what is before it ("genehmigt wurde es nicht").
func (r *termReader) endClause() {
	if r.dangling {
		for i := max(r.clause, len(r.terms)-negatedTerms); i < len(r.terms); i++ {
			r.terms[i].negated, r.terms[i].negation = !r.terms[i].negated, r.negated
		}
	}
	r.clause, r.reach, r.dangling = len(r.terms), 0, false
}

func (r *termReader) endSentence() {
	r.endClause()
	r.sentence++
	r.initial = true
}

// punctuation looks at c, which ends at byte next.
func (r *termReader) punctuation(c rune, next int) {
	switch c {
	case ',', ';', ':', '(', ')', '、':
		r.endClause()
	case '。', '।', '؟', '۔', '።':
		r.endSentence()
	case '.', '!', '?':
		rest := strings.TrimLeft(r.s[next:], ".!?\"')]»”’")
		after, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \t\r\n"))
		if rest == "" || unspaced(after) || isSpace(rest[0]) && !unicode.IsLower(after) {
			r.endSentence()
		}
	case '\n':
		// A line may be wrapped; an empty one and a bullet begin something new.
		rest := strings.TrimLeft(r.s[next:], " \t\r")
		if rest != "" && strings.IndexByte("\n-*#|>", rest[0]) >= 0 {
			r.endSentence()
		}
	}
}

func isSpace(c byte) bool { return byteClass[c] == spaceByte }

// word reads the word at byte i and returns its end.
func (r *termReader) word(i int) int {
	start, digits := i, false
	for i < len(r.s) {
		c, size := utf8.DecodeRuneInString(r.s[i:])
		if (c == '\'' || c == '’') && i+size < len(r.s) {
			if next, _ := utf8.DecodeRuneInString(r.s[i+size:]); unicode.IsLetter(next) && !unspaced(next) {
				i += size
				continue
			}
		}
		if notOfWord(c) || unspaced(c) {
			break
		}
		digits = digits || unicode.IsDigit(c)
		i += size
	}
	written := r.s[start:i]
	folded := dropApostrophes(r.sc.fold(written))
	hash, _ := scanWord(folded, 0)
	switch {
	case negations[string(folded)]:
		r.negation()
		return i
	case clauseWords[string(folded)]:
		r.endClause()
		return i
	case stopWords.has(hash):
		r.initial = false
		return i
	}
	if figure, ok := numberWords[string(folded)]; ok {
		key := hashText("#", figure)
		r.add(term{exact: key, stem: key, start: start, end: i, hard: true})
		return i
	}
	first, _ := utf8.DecodeRuneInString(written)
	r.add(term{
		exact: hashText("=", strings.ToLower(written)), stem: hashText("", string(stem(folded))),
		start: start, end: i,
		hard: digits, name: !r.initial && unicode.IsUpper(first), short: utf8.RuneCount(folded) <= 3,
	})
	return i
}

func dropApostrophes(word []byte) []byte {
	return slices.DeleteFunc(word, func(c byte) bool { return c == '\'' })
}

// pairs reads a run of a script without spaces from byte i, in pairs of
// characters that overlap: one alone is too common to tell texts apart.
func (r *termReader) pairs(i int) int {
	start := i
	prev, from := "", 0
	for i < len(r.s) {
		c, size := utf8.DecodeRuneInString(r.s[i:])
		if !unspaced(c) {
			break
		}
		this := r.s[i : i+size]
		if prev != "" {
			r.pair(prev+this, from, i+size)
		}
		if negations[this] {
			r.negation()
		}
		prev, from = this, i
		i += size
	}
	if from == start {
		r.pair(prev, start, i)
	}
	return i
}

func (r *termReader) pair(s string, start, end int) {
	if negations[s] {
		r.negation()
	}
	key := hashText("", s)
	r.add(term{exact: key, stem: key, start: start, end: end})
}

// figure reads the number at byte i and returns its end. Numbers that people
// write in different ways have one key.
func (r *termReader) figure(i int) int {
	start := i
	for i < len(r.s) && (isDigit(r.s[i]) || strings.IndexByte(".,'", r.s[i]) >= 0 && i+1 < len(r.s) && isDigit(r.s[i+1])) {
		i++
	}
	sign := "#"
	if start > 0 && r.s[start-1] == '-' && (start == 1 || isSpace(r.s[start-2]) || r.s[start-2] == '(') {
		sign = "#-"
	}
	key := hashText(sign, plainFigure(r.s[start:i]))
	r.add(term{exact: key, stem: key, start: start, end: i, hard: true})
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// plainFigure writes a number without separators of thousands, with a decimal
// point, and without zeros that say nothing: 1,234.50 and 1.234,5 are 1234.5.
// A point before three digits is a decimal one if there is no comma.
func plainFigure(s string) string {
	point, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ',')
	s = strings.ReplaceAll(s, "'", "")
	switch {
	case point >= 0 && comma > point:
		s = strings.Replace(strings.ReplaceAll(s, ".", ""), ",", ".", 1)
	case comma >= 0 && (point >= 0 || len(s)-comma == 4 || strings.Count(s, ",") > 1):
		s = strings.ReplaceAll(s, ",", "")
	case comma >= 0:
		s = strings.Replace(s, ",", ".", 1)
	}
	if strings.Count(s, ".") == 1 && strings.IndexByte(s, '.') >= len(s)-3 { // 1.50, and not 1.500
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if trimmed := strings.TrimLeft(s, "0"); trimmed != "" && trimmed[0] != '.' {
		return trimmed
	}
	return "0" + strings.TrimLeft(s, "0")
}

// stem returns what a folded word has in common with its other forms, roughly:
// it takes the commonest English endings off and keeps six characters.
func stem(word []byte) []byte {
	w := withoutEnding(word)
	at := 0
	for n := 0; n < stemRunes && at < len(w); n++ {
		_, size := utf8.DecodeRune(w[at:])
		at += size
	}
	return w[:at]
}

// withoutEnding takes the commonest English endings off a folded word.
func withoutEnding(w []byte) []byte {
	if n := len(w); n > 3 && w[n-1] == 's' && w[n-2] != 's' && w[n-2] != 'u' && w[n-2] != 'i' {
		w = w[:n-1]
	}
	for _, ending := range [...]string{"ing", "ed"} {
		n := len(w) - len(ending)
		if n < 3 || string(w[n:]) != ending {
			continue
		}
		w = w[:n]
		if w[n-1] == w[n-2] && w[n-1] != 'l' && w[n-1] != 's' {
			w = w[:n-1] // planned
		}
		break
	}
	if n := len(w); n > 3 && (w[n-1] == 'e' || w[n-1] == 'y') {
		w = w[:n-1]
	}
	if n := len(w); n > 3 && w[n-1] == 'i' {
		w = w[:n-1] // companies, whose singular lost its y
	}
	return w
}

// hashText is FNV-1a with the finish of scanWord, over a class and a text.
func hashText(class, s string) uint64 {
	h := uint64(fnvOffset)
	for _, part := range [2]string{class, s} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * fnvPrime
		}
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// negations are folded and without apostrophes; of scripts without spaces, one
// character or two.
var negations = foldedSet(`
no not never none nobody nothing neither nor without cannot cant dont doesnt didnt isnt arent wasnt werent wont wouldnt couldnt
shouldnt hasnt havent hadnt mustnt
nicht nichts kein keine keinen keinem keiner keines nie niemals niemand ohne nein
pas jamais aucun aucune sans ningun ninguna ninguno nunca sin senza mai não nao sem niet geen nooit ikke aldrig inte
не нет ни никогда без 不 没 沒 未 无 無 ない せん`)

// clauseWords end the reach of a negation: "not on Monday but on Tuesday".
var clauseWords = foldedSet("but sondern sino mais но")

func foldedSet(words string) map[string]bool { return set(Normalize(words)) }

// numberWords are the numbers that are usually spelled out, without "one",
// which seldom is a number.
var numberWords = map[string]string{
	"zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"ten":    "10",
	"eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60",
	"seventy": "70",
	"eighty":  "80", "ninety": "90",
}
