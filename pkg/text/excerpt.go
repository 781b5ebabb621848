package text

// Wording is the sequence of all words of a text, folded as in [Normalize], function words
// included. It finds passages that two texts share word for word.
type Wording struct {
	words   []uint64
	content []bool // content[i] is set if word i is not a function word
}

// maxWording is the number of bytes of a text that [WordingOf] reads.
const maxWording = 64 << 10

// WordingOf returns the words of the first 64 KiB of a text.
func WordingOf(s string) Wording {
	sc := newScratch()
	defer sc.free()
	var h Hidden
	normal := sc.fold(sc.clean(cutText(s, maxWording), &h))
	var w Wording
	for i := 0; i < len(normal); {
		full, next := scanWord(normal, i)
		if next == i {
			if normal[i] == '\\' && i+1 < len(normal) && (normal[i+1] == 'n' || normal[i+1] == 'r' || normal[i+1] == 't') {
				next++ // an escaped line end in quoted JSON
			}
			i = next + 1
			continue
		}
		w.words = append(w.words, full)
		w.content = append(w.content, next-i > maxStopWord || !stopWords.has(full))
		i = next
	}
	return w
}

// Len is the number of words.
func (w Wording) Len() int { return len(w.words) }

// Mark sets hit[i] if word i of w is part of a run of `least` or more consecutive words that the wording `in` contains
// too. It reports whether there is such a run. hit must have one element per word of w. The time is linear in both
// texts.
func (w Wording) Mark(in Wording, least int, hit []bool) bool {
	if least < 1 || len(w.words) < least || len(in.words) < least {
		return false
	}
	mine := make(map[uint64][]int32, len(w.words))
	grams(w.words, least, func(at int, h uint64) { mine[h] = append(mine[h], int32(at)) })
	found := false
	grams(in.words, least, func(_ int, h uint64) {
		at, ok := mine[h]
		if !ok {
			return
		}
		found = true
		delete(mine, h)
		for _, from := range at {
			for i := range least {
				hit[int(from)+i] = true
			}
		}
	})
	return found
}

// grams calls fn with the position and hash of each run of n words.
func grams(words []uint64, n int, fn func(at int, hash uint64)) {
	const base = 0x9e3779b97f4a7c15 // odd, so no power of it is 0 modulo 2^64: each word of a run changes the hash
	first, sum := uint64(1), uint64(0)
	for range n - 1 {
		first *= base
	}
	for i, x := range words {
		if i >= n {
			sum -= words[i-n] * first
		}
		if sum = sum*base + x; i >= n-1 {
			fn(i-n+1, sum)
		}
	}
}

// Phrases returns all phrases of the words that are marked in hit (see Mark), or of all words if hit is nil. A run of
// fewer than three content words has no phrase.
func (w Wording) Phrases(hit []bool) (out []uint64) {
	var run []uint64
	end := func() {
		if len(run) >= phraseWords {
			out = appendPhrases(out, run)
		}
		run = run[:0]
	}
	for i, x := range w.words {
		if len(hit) > 0 && !hit[i] {
			end()
		} else if w.content[i] {
			run = append(run, x)
		}
	}
	end()
	return out
}
