package ceiling

import (
	"cmp"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// The limits of the marks of one project. If a mark does not fit, every text of the project gets the mark's label. If
// labels of positions are dropped, every entry up to the highest dropped position gets the highest dropped label.
const (
	maxNames   = 1 << 17 // ids of memories and beliefs
	maxWords   = 1 << 14 // contents with few words
	maxTexts   = 1 << 14 // contents with phrases
	maxPhrases = 1 << 18 // phrases of those contents
	maxSharing = 64      // contents with the same phrase; beyond it, every text with the phrase gets the label
	maxRecent  = 1 << 17 // labeled positions, and ids of labeled entries, in each of two generations
)

// maxLength is the maximum number of bytes of a content with few words that are searched for in other texts.
const maxLength = 64

// marks has the marks of one project whose sensitivity is above internal.
type marks struct {
	seqs    recent[uint64]                 // labels of entries
	recent  recent[string]                 // ids of labeled entries
	names   map[string]beliefs.Sensitivity // ids of beliefs and memories
	words   map[beliefs.Sensitivity]*prefixes
	texts   []marked
	phrases map[uint64][]int               // hash of a phrase → indexes in texts
	shared  map[uint64]beliefs.Sensitivity // hash of a phrase of many contents
	listed  int                            // number of indexes in phrases
	all     beliefs.Sensitivity            // label of every text, because a limit was reached
}

type marked struct {
	as      beliefs.Sensitivity
	phrases int
}

func newMarks(whole bool) *marks {
	return &marks{seqs: recent[uint64]{whole: whole}, recent: recent[string]{whole: whole},
		names: make(map[string]beliefs.Sensitivity), words: make(map[beliefs.Sensitivity]*prefixes),
		phrases: make(map[uint64][]int), shared: make(map[uint64]beliefs.Sensitivity)}
}

// recent maps keys to labels. Unless Labels.Whole is set, it drops the older half of its keys when it is full.
type recent[K cmp.Ordered] struct {
	now, before map[K]beliefs.Sensitivity
	whole       bool
	lost        beliefs.Sensitivity // highest label that was dropped
	upTo        K                   // highest key that was dropped
}

func (r *recent[K]) put(k K, as beliefs.Sensitivity) {
	if len(r.now) >= maxRecent && !r.whole {
		for k, as := range r.before {
			r.lost, r.upTo = r.lost.Join(as), max(r.upTo, k)
		}
		r.before, r.now = r.now, nil
	}
	if r.now == nil {
		r.now = make(map[K]beliefs.Sensitivity)
	}
	r.now[k] = r.get(k).Join(as)
}

func (r *recent[K]) get(k K) beliefs.Sensitivity { return r.now[k].Join(r.before[k]) }

// at labels the entry at a position.
func (m *marks) at(seq uint64) beliefs.Sensitivity {
	as := m.seqs.get(seq)
	if 0 < seq && seq <= m.seqs.upTo {
		as = as.Join(m.seqs.lost)
	}
	return as
}

// prefixes is a sorted set of strings. No string in it begins with another.
type prefixes struct {
	sorted []string
	begins [1 << 10]uint64 // set of hashes of the first minBytes bytes of the strings
}

func begin(s string) uint {
	return uint(s[0])*0x9e37 ^ uint(s[1])*0x79b9<<2 ^ uint(s[2])*0x85eb<<1 ^ uint(s[3])*0xca6b ^ uint(s[4])*0xc2b3<<3
}

// add adds a string of at least minBytes bytes, unless the string begins with a string of the set.
func (p *prefixes) add(s string) {
	i, found := slices.BinarySearch(p.sorted, s)
	if found || i > 0 && strings.HasPrefix(s, p.sorted[i-1]) {
		return
	}
	end := i
	for end < len(p.sorted) && strings.HasPrefix(p.sorted[end], s) {
		end++
	}
	p.sorted = slices.Replace(p.sorted, i, end, s)
	h := begin(s) % (64 << 10)
	p.begins[h/64] |= 1 << (h % 64)
}

// in reports whether a text contains one of the strings. At each position of the text it compares only one string: the
// greatest string that is not greater than the rest of the text. No other string can match there, because no string
// begins with another.
func (p *prefixes) in(s string) bool {
	for i := range len(s) - minBytes + 1 {
		h := begin(s[i:]) % (64 << 10)
		if p.begins[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		at, found := slices.BinarySearch(p.sorted, s[i:])
		if found || at > 0 && strings.HasPrefix(s[i:], p.sorted[at-1]) {
			return true
		}
	}
	return false
}

// mark stores a memory: the ids of the memory and its event, and its words.
func (m *marks) mark(d declared) {
	for _, id := range d.ids {
		if _, ok := m.names[id]; !ok && len(m.names) >= maxNames {
			m.all = m.all.Join(d.as)
			break
		}
		m.names[id] = m.names[id].Join(d.as)
	}
	if d.as.Within(m.all) {
		return // every text has this label
	}
	norm := text.Normalize(d.content)
	if len(norm) < minBytes {
		return
	}
	f := text.Analyze(d.content)
	hashes := f.Phrases.Hashes
	if f.Words < fewWords || len(hashes) == 0 {
		p := m.words[d.as]
		if p == nil {
			p = new(prefixes)
			m.words[d.as] = p
		}
		if p.add(norm[:min(len(norm), maxLength)]); len(p.sorted) > maxWords {
			m.all = m.all.Join(d.as)
		}
		return
	}
	if m.stored(marked{d.as, len(hashes)}, hashes) {
		return
	}
	if len(m.texts) >= maxTexts || m.listed+len(hashes) > maxPhrases {
		m.all = m.all.Join(d.as)
		return
	}
	m.texts = append(m.texts, marked{d.as, len(hashes)})
	for _, h := range hashes {
		if len(m.phrases[h]) >= maxSharing {
			m.shared[h] = m.shared[h].Join(d.as)
			continue
		}
		m.phrases[h] = append(m.phrases[h], len(m.texts)-1)
		m.listed++
	}
}

// stored reports whether a content with the same phrases and label is stored.
func (m *marks) stored(t marked, hashes []uint64) bool {
	for _, i := range m.phrases[hashes[0]] {
		if m.texts[i] == t && !slices.ContainsFunc(hashes, func(h uint64) bool {
			at := m.phrases[h]
			return len(at) < maxSharing && !slices.Contains(at, i)
		}) {
			return true
		}
	}
	return false
}

func (m *marks) of(e Entry, p *parsed) beliefs.Sensitivity {
	as := p.most
	if m == nil {
		return as
	}
	if !e.Ingest {
		as = as.Join(m.at(e.Src))
	}
	as = as.Join(m.at(e.Seq))
	for _, s := range p.strings {
		as = as.Join(m.name(s))
		if _, id, ok := strings.Cut(s, ":"); ok { // a step of a path, such as belief:ID
			as = as.Join(m.name(id))
			if _, id, ok = strings.Cut(id, "/"); ok { // a step such as observation:AGENT/ID
				as = as.Join(m.name(id))
			}
		}
	}
	return as.Join(m.says(strings.Join(p.strings, "\n")))
}

func (m *marks) name(id string) beliefs.Sensitivity { return m.names[id].Join(m.recent.get(id)) }

// says returns the label of a text by the marked contents that it contains.
func (m *marks) says(s string) (as beliefs.Sensitivity) {
	if m == nil {
		return as
	}
	as = m.all.Join(m.recent.lost)
	if len(m.words) > 0 {
		norm := text.Normalize(s)
		for x, p := range m.words {
			if !x.Within(as) && p.in(norm) {
				as = x
			}
		}
	}
	if len(m.texts) == 0 || beliefs.Secret.Within(as) {
		return as
	}
	hits := make(map[int]int)
	for _, h := range text.Analyze(s).Phrases.Hashes {
		as = as.Join(m.shared[h])
		for _, i := range m.phrases[h] {
			hits[i]++
		}
	}
	for i, n := range hits {
		if t := m.texts[i]; n >= common || n*quarter >= t.phrases {
			as = as.Join(t.as)
		}
	}
	return as
}
