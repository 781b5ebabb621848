package text

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Phrases is a sample of the phrases of a content, in order of appearance. A phrase is the hash of
// three consecutive content words; words such as "the" and "to" are left out. A text with few
// phrases is sampled completely. In a longer text, the sample has at least one of every Window
// consecutive phrases, so that an extract of Window+2 content words is always recognized.
type Phrases struct {
	Window int     `json:"w,omitzero"` // 1: every phrase is in the sample
	Hashes Uint48s `json:"h,omitempty"`
}

// Uint48s is a list of 48-bit hashes. Its text form is base64 of six bytes each, little-endian.
type Uint48s []uint64

const (
	phraseWords  = 3
	wholePhrases = 24   // phrases up to which the sample is complete
	smallWindow  = 3    // keeps every second phrase on average, and at least one in any five consecutive content words
	maxPhrases   = 4096 // the window grows until the sample of one text has at most about half of this number
	mask48       = 1<<48 - 1
)

// In returns the share of p's phrases that are in q, from 0 to 1.
func (p Phrases) In(q Phrases) float64 {
	mine := p.Hashes
	if q.Window > p.Window {
		// Sample p as sparsely as q. With a window, about one phrase in (Window+1)/2 remains.
		window := q.Window
		if p.Window > 1 {
			window = max(1, 2*q.Window/(p.Window+1))
		}
		mine = winnow(nil, mine, window)
	}
	if len(mine) == 0 || len(q.Hashes) == 0 {
		return 0
	}
	theirs := make(map[uint64]struct{}, len(q.Hashes))
	for _, h := range q.Hashes {
		theirs[h] = struct{}{}
	}
	common := 0
	for _, h := range mine {
		if _, ok := theirs[h]; ok {
			common++
		}
	}
	return float64(common) / float64(len(mine))
}

// phraseSet collects the phrases of a content and of the parts of it that were decoded.
type phraseSet struct {
	window int
	hashes []uint64
	all    []uint64 // phrases of one text, before sampling
	seen   map[uint64]struct{}
	full   bool
}

func (p *phraseSet) reset() {
	p.window, p.full = 0, false
	p.hashes = p.hashes[:0]
	if p.seen == nil || len(p.seen) > 512 {
		p.seen = map[uint64]struct{}{} // a new map, because the time to clear the old one grows with its capacity
	}
	clear(p.seen)
}

// add samples the phrases of one text, given by its content words.
func (p *phraseSet) add(words []uint64) {
	p.all = appendPhrases(p.all[:0], words)
	window := 1
	if len(p.all) > wholePhrases {
		window = smallWindow
		if 2*len(p.all)/(window+1) > maxPhrases/2 {
			p.all = distinct(p.all) // filler that is repeated must not make the sample of the other phrases smaller
		}
		for 2*len(p.all)/(window+1) > maxPhrases/2 {
			window *= 2
		}
	}
	p.window = max(p.window, window)
	from := len(p.hashes)
	p.hashes = winnow(p.hashes, p.all, window)
	kept := p.hashes[:from]
	for _, h := range p.hashes[from:] {
		if _, ok := p.seen[h]; ok {
			continue
		}
		if len(kept) == maxPhrases {
			p.full = true
			break
		}
		p.seen[h] = struct{}{}
		kept = append(kept, h)
	}
	p.hashes = kept
}

// distinct removes later occurrences, in place.
func distinct(hashes []uint64) []uint64 {
	seen := make(map[uint64]struct{}, len(hashes)/2)
	kept := hashes[:0]
	for _, h := range hashes {
		if _, ok := seen[h]; !ok {
			seen[h] = struct{}{}
			kept = append(kept, h)
		}
	}
	return kept
}

func (p *phraseSet) list() Phrases {
	if len(p.hashes) == 0 {
		return Phrases{}
	}
	return Phrases{Window: p.window, Hashes: append(Uint48s(nil), p.hashes...)}
}

// appendPhrases appends the phrases of a text. A text with fewer than three content words is one
// phrase.
func appendPhrases(out, words []uint64) []uint64 {
	if len(words) == 0 {
		return out
	}
	if len(words) < phraseWords {
		h := uint64(len(words))
		for _, w := range words {
			h = join(h, w)
		}
		return append(out, h&mask48)
	}
	for i := range len(words) - phraseWords + 1 {
		h := join(join(words[i], words[i+1]), words[i+2])
		out = append(out, h&mask48)
	}
	return out
}

// join returns a hash of an ordered pair.
func join(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return hi ^ lo ^ bits.RotateLeft64(a, 17)
}

// winnow appends the lowest hash of every window of consecutive hashes. It appends a position only once, even if it is
// the lowest of several windows. If there are fewer hashes than a window has, it appends the lowest of all. It searches
// for the minimum again only when the previous minimum leaves the window.
func winnow(out, hashes []uint64, window int) []uint64 {
	if window <= 1 || len(hashes) <= window {
		if window > 1 && len(hashes) > 0 {
			least := hashes[0]
			for _, h := range hashes[1:] {
				least = min(least, h)
			}
			return append(out, least)
		}
		return append(out, hashes...)
	}
	least := -1
	for end := window; end <= len(hashes); end++ {
		start := end - window
		last := end - 1
		switch {
		case least < start:
			least = start
			for i := start + 1; i < end; i++ {
				if hashes[i] <= hashes[least] {
					least = i
				}
			}
		case hashes[last] <= hashes[least]:
			least = last
		default:
			continue
		}
		out = append(out, hashes[least])
	}
	return out
}

// words splits a normalized text and returns the hashes of its content words, and of all its words. If there are too
// few content words to form a phrase, content has all words. The results are valid until the next call.
func (sc *scratch) words(normal []byte) (content, all []uint64) {
	content, all = sc.contentWords[:0], sc.allWords[:0]
	for i := 0; i < len(normal); {
		h, next := scanWord(normal, i)
		if next == i {
			// Escaped line ends in quoted JSON separate words too.
			if normal[i] == '\\' && i+1 < len(normal) && (normal[i+1] == 'n' || normal[i+1] == 'r' || normal[i+1] == 't') {
				next++
			}
			i = next + 1
			continue
		}
		all = append(all, h)
		if next-i > maxStopWord || !stopWords.has(h) {
			content = append(content, h)
		}
		i = next
	}
	sc.contentWords, sc.allWords = content, all
	if len(content) < phraseWords && len(content) < len(all) {
		content = all
	}
	return content, all
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// scanWord returns the hash and the end of the word at byte i of a normalized text. It returns i as
// the end if there is no word. A word is a run of letters, digits and marks, without apostrophes.
// In scripts without spaces each character is a word.
func scanWord(normal []byte, i int) (uint64, int) {
	h := uint64(fnvOffset)
	start := i
	for i < len(normal) {
		c := normal[i]
		if c < utf8.RuneSelf {
			if isAlnum(c) {
				h = (h ^ uint64(c)) * fnvPrime
				i++
				continue
			}
			if c == '\'' && i > start && i+1 < len(normal) && isAlnum(normal[i+1]) {
				i++
				continue
			}
			break
		}
		r, size := utf8.DecodeRune(normal[i:])
		unspacedRune := unspaced(r)
		if unspacedRune && i > start || !unspacedRune && notOfWord(r) {
			break
		}
		for _, c := range normal[i : i+size] {
			h = (h ^ uint64(c)) * fnvPrime
		}
		i += size
		if unspacedRune {
			break
		}
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32, i
}

// unspaced reports whether r belongs to a script that has no spaces between words.
func unspaced(r rune) bool {
	return r >= 0xe00 && (r <= 0xeff || r >= 0x1000 && r <= 0x109f || r >= 0x1780 && r <= 0x17ff ||
		r >= 0x3040 && r <= 0x30ff || r >= 0x3400 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff ||
		r >= 0x20000 && r <= 0x3ffff) &&
		unicode.IsLetter(r)
}

// stopWords are function words. They do not make a phrase distinctive, so they are not content words. Negations do not
// belong to them.
var stopWords = newWordSet(`
a about after all also am an and any are as at be because been before being but by can could did do
does for from had has have he her here hers him his how i if in into is it its just may me might more
most must my of on once one only or other our ours out over own per she should so some such than that
the their them then there these they this those through to too up us very was we were what when where
which while who whom why will with would you your yours`)

const maxStopWord = 7 // bytes of the longest stop word

// wordSet is a small open hash set.
type wordSet [512]uint64

func newWordSet(words string) *wordSet {
	var set wordSet
	for _, w := range strings.Fields(words) {
		h, _ := scanWord([]byte(w), 0)
		i := h % uint64(len(set))
		for set[i] != 0 {
			i = (i + 1) % uint64(len(set))
		}
		set[i] = h
	}
	return &set
}

func (s *wordSet) has(h uint64) bool {
	for i := h % uint64(len(s)); s[i] != 0; i = (i + 1) % uint64(len(s)) {
		if s[i] == h {
			return true
		}
	}
	return false
}

// MarshalText implements [encoding.TextMarshaler].
func (u Uint48s) MarshalText() ([]byte, error) { return u.AppendText(nil) }

// AppendText implements [encoding.TextAppender].
func (u Uint48s) AppendText(b []byte) ([]byte, error) {
	b = slices.Grow(b, 8*len(u))
	for ; len(u) > 0; u = u[min(len(u), 32):] {
		// 32 hashes of 6 bytes, a multiple of three, as base64 needs; 2 more bytes for AppendUint64
		var some [6*32 + 2]byte
		raw := some[:0]
		for _, h := range u[:min(len(u), 32)] {
			raw = binary.LittleEndian.AppendUint64(raw, h)[:len(raw)+6]
		}
		b = base64.RawStdEncoding.AppendEncode(b, raw)
	}
	return b, nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *Uint48s) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("phrase hashes: %w", err)
	}
	if len(raw)%6 != 0 {
		return fmt.Errorf("phrase hashes: %d bytes are not a multiple of 6", len(raw))
	}
	out := make(Uint48s, len(raw)/6)
	for i := range out {
		var b [8]byte
		copy(b[:], raw[6*i:6*i+6])
		out[i] = binary.LittleEndian.Uint64(b[:])
	}
	*u = out
	return nil
}
