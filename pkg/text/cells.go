package text

import "strings"

// A sentence can be split over short strings of a document: over the items of a list, the cells of a table or the
// members of an object. cells joins such strings again. Most neighbouring short strings are no sentence: names, labels,
// words of a list. A cut cell is a short string that consists of a small word ("the", "to"), or begins or ends with one
// (see cutWord). Names and labels are rarely cut cells. So a cut cell shows that the strings around it are parts of a
// sentence.

const (
	cellWords = 3  // maximum number of words of a short cell
	cellBytes = 48 // maximum length of a short cell

	// cellReach is how far from a cut cell, in cells, other cells are read as parts of its sentence.
	cellReach = 3
	// A sentence has cut cells with two different small words or more. In a list of at most fewCells short strings, one
	// cut cell is enough.
	fewCells = 5
)

// cells returns [View.Cells]. It reads the segments in their order, and then the segments of each key in their order,
// as the column of a table.
func (g *segmenter) cells() string {
	if len(g.segs) < 2 {
		return ""
	}
	var out []byte
	out = g.joinCells(out, g.segs)
	if columns := g.columns(); columns != nil {
		out = g.joinCells(out, columns)
	}
	return string(out)
}

// columns returns the segments sorted by key, in the order in which the keys first occur. Between two keys is an empty
// segment. It returns nil if the segments of every key are neighbours.
func (g *segmenter) columns() []Segment {
	next := make([]int, len(g.segs)) // the next segment with the same key
	last := make(map[string]int)
	var heads []int
	mixed := false
	for i := range g.segs {
		j, known := last[g.segs[i].Key]
		if known {
			next[j] = i
			mixed = mixed || j != i-1
		} else {
			heads = append(heads, i)
		}
		last[g.segs[i].Key] = i
	}
	if !mixed {
		return nil
	}
	out := make([]Segment, 0, len(g.segs)+len(heads))
	for _, i := range heads {
		for ; ; i = next[i] {
			out = append(out, g.segs[i])
			if next[i] == 0 {
				break
			}
		}
		out = append(out, Segment{})
	}
	return out
}

// joinCells appends to out the normal form of each sentence that is split over segs, each after a recordBreak.
func (g *segmenter) joinCells(out []byte, segs []Segment) []byte {
	var b strings.Builder
	for i := 0; i < len(segs); {
		end := i
		for end < len(segs) && isShort(segs[end].Text) {
			end++
		}
		if end-i > 1 {
			out = g.joinRun(&b, out, segs[i:end])
		}
		i = end + 1
	}
	return out
}

// joinRun is like joinCells. All segments of run are short.
func (g *segmenter) joinRun(b *strings.Builder, out []byte, run []Segment) []byte {
	from, last := 0, -1 // start of the group, and its last cut cell
	var first string    // the small word of the group's first cut cell
	enough := false
	flush := func(end int) {
		if last >= 0 && (enough || len(run) <= fewCells) {
			b.Reset()
			for _, s := range run[from:end] {
				b.WriteString(s.Text)
				b.WriteByte(' ')
			}
			out = append(append(out, recordBreak), g.sc.fold(b.String())...)
		}
	}
	for i := range run {
		word := cutWord(run[i].Text)
		if word == "" {
			continue
		}
		if last >= 0 && i-last > 2*cellReach {
			flush(last + cellReach + 1)
			last = -1
		}
		if last < 0 {
			from, first, enough = max(0, i-cellReach), word, false
		}
		enough = enough || word != first
		last = i
	}
	flush(min(len(run), last+cellReach+1))
	return out
}

// isShort reports whether s may be a part of a sentence that is split over cells.
func isShort(s string) bool {
	if s == "" || len(s) > cellBytes {
		return false
	}
	words := 1
	for i := range len(s) {
		if byteClass[s[i]] == spaceByte {
			words++
		}
	}
	return words <= cellWords
}

// cutWords are words that are rarely a string of their own in a list, a table or an object. "All", "any" and "not" are
// not among them, because they are often labels or key words.
var cutWords = Set("the this that these those my your our his her their its it them me him us you an please previous " +
	"must to for from into onto with and of in on at as by or now immediately")

// openWords are words after which a phrase goes on, and that a label rarely ends with.
var openWords = Set("the this these those my your our his her their its an and or of from into previous must")

// cutWord returns the small word that shows that the cell s is a part of a sentence, or "". The word is the whole cell,
// the last word if a phrase goes on after it (see openWords), or the first word if the cell begins with a lower-case
// letter.
func cutWord(s string) string {
	i := strings.LastIndexByte(s, ' ')
	if w := shortWord(s[i+1:]); i < 0 && cutWords[w] || i >= 0 && openWords[w] {
		return w
	}
	if i < 0 || tokenClass[s[0]] != inLower {
		return ""
	}
	if w, _, _ := strings.Cut(s, " "); cutWords[shortWord(w)] {
		return w
	}
	return ""
}

// shortWord returns w in lower case, or "" if w is too long for a small word.
func shortWord(w string) string {
	if len(w) < 2 || len(w) > len("immediately") {
		return ""
	}
	return strings.ToLower(w)
}
