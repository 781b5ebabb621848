package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// term is a content word or a figure of a text.
type term struct {
	exact, stem uint64 // hashes of the word in lower case and of its stem
	start, end  int    // byte range in the clean text
	sentence    int
	hard        bool // a figure or a part of a carrier
	name        bool // capitalized inside a sentence
	short       bool
	negated     bool
	negation    int // number of the negation that affects it
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

// termReader extracts the terms of a text. The same reader reads several texts, one after the other.
type termReader struct {
	sc       *scratch
	s        string
	terms    []term
	sentence int
	initial  bool // at the first word of a sentence
	clause   int  // index in terms of the first term of the current clause
	reach    int  // terms that the last negation still affects
	dangling bool // the last negation has affected no term yet
	negated  int  // number of negations so far
	marks    int  // end of the last run of marks that end sentences, and of closing quotes and brackets
	ends     bool // this run ends a sentence
}

// read replaces r.terms with the terms of a clean text.
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

// harden marks terms inside carriers as hard, which means that a source must have them. Terms of a command are not
// marked, because a command contains ordinary words. Carriers inside the command are marked by their own spans.
func (r *termReader) harden(marks []Span) {
	slices.SortFunc(marks, func(a, b Span) int { return a.Start - b.Start })
	end, n := 0, 0 // end is the furthest end of the spans that begin before the term
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

// negation makes the next terms of the clause negated. If another negation follows before a term, the two cancel each
// other ("not without").
func (r *termReader) negation() {
	r.initial = false
	if r.dangling {
		r.reach, r.dangling = 0, false
		return
	}
	r.reach, r.dangling = negatedTerms, true
	r.negated++
}

// endClause ends the effect of a negation. A negation without terms after it affects the terms
// before it ("genehmigt wurde es nicht").
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

// punctuation handles the punctuation mark c. The text after it begins at byte next.
func (r *termReader) punctuation(c rune, next int) {
	switch c {
	case ',', ';', ':', '(', ')', '、':
		r.endClause()
	case '。', '।', '؟', '۔', '።':
		r.endSentence()
	case '.', '!', '?':
		if next > r.marks { // it is the first mark of its run; a run may be as long as the text
			rest := strings.TrimLeft(r.s[next:], ".!?\"')]»”’")
			after, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \t\r\n"))
			r.marks = len(r.s) - len(rest)
			r.ends = rest == "" || unspaced(after) || isSpace(rest[0]) && !unicode.IsLower(after)
		}
		if r.ends {
			r.endSentence()
		}
	case '\n':
		// A single line break may only wrap a line. An empty line or a bullet after the line break ends the sentence.
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
	r.add(term{exact: hashText("=", strings.ToLower(written)), stem: hashText("", string(stem(folded))), start: start,
		end: i, hard: digits, name: !r.initial && unicode.IsUpper(first), short: utf8.RuneCount(folded) <= 3})
	return i
}

func dropApostrophes(word []byte) []byte {
	return slices.DeleteFunc(word, func(c byte) bool { return c == '\'' })
}

// pairs reads text of a script that has no spaces between words, from byte i. Each pair of adjacent characters becomes
// a term, because single characters are too frequent to tell texts apart. It returns the end of the text in that
// script.
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

// figure reads the number at byte i, adds it as a term, and returns the position after it. All notations
// of a number make the same term: 1,234.50 and 1.234,5.
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

// plainFigure returns a number in a common notation: no thousands separators, a decimal point, no
// trailing zeros. 1,234.50 and 1.234,5 both become 1234.5. Without a comma, a point before three
// digits is a decimal point.
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
	if strings.Count(s, ".") == 1 && strings.IndexByte(s, '.') >= len(s)-3 { // 1.50, but not 1.500
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if trimmed := strings.TrimLeft(s, "0"); trimmed != "" && trimmed[0] != '.' {
		return trimmed
	}
	return "0" + strings.TrimLeft(s, "0")
}

// stem returns an approximate stem of a folded word: it removes frequent English endings and keeps
// six characters.
func stem(word []byte) []byte {
	w := withoutEnding(word)
	at := 0
	for n := 0; n < stemRunes && at < len(w); n++ {
		_, size := utf8.DecodeRune(w[at:])
		at += size
	}
	return w[:at]
}

// withoutEnding removes frequent English endings from a folded word.
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
			w = w[:n-1] // a doubled consonant, as in planned
		}
		break
	}
	if n := len(w); n > 3 && (w[n-1] == 'e' || w[n-1] == 'y') {
		w = w[:n-1]
	}
	if n := len(w); n > 3 && w[n-1] == 'i' {
		w = w[:n-1] // companies: the singular ends in y
	}
	return w
}

// hashText returns the FNV-1a hash of class and s. The last step mixes the bits as in scanWord.
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

// negations has the negations in the form of foldedSet, without apostrophes. Those of scripts without spaces have one
// or two characters.
var negations = foldedSet(`
no not never none nobody nothing neither nor without cannot cant dont doesnt didnt isnt arent wasnt werent wont wouldnt
couldnt shouldnt hasnt havent hadnt mustnt
nicht nichts kein keine keinen keinem keiner keines nie niemals niemand ohne nein
pas jamais aucun aucune sans ningun ninguna ninguno nunca sin senza mai não nao sem niet geen nooit ikke aldrig inte
не нет ни никогда без 不 没 沒 未 无 無 ない せん`)

// clauseWords end the effect of a negation, as in "not on Monday but on Tuesday".
var clauseWords = foldedSet("but sondern sino mais но")

func foldedSet(words string) map[string]bool { return set(Normalize(words)) }

// numberWords are the numbers that people often write as words. "one" is left out because it is
// rarely a number.
var numberWords = map[string]string{
	"zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"ten":    "10",
	"eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60",
	"seventy": "70",
	"eighty":  "80", "ninety": "90",
}
