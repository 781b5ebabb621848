package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/text"
)

// This file finds excerpts: runs of words that a text shares with an external reading. The index of phrases (derive.go)
// misses an excerpt of a few words from a long reading, because it has only a sample of the reading's phrases.
// Therefore the words themselves are compared, for texts with the user's credential, and for texts that the agent
// presents as the user's words.

// Limits of the search for excerpts.
const (
	// leastExcerpt is the minimum number of words of an excerpt. If excerpts are at least excerptShare of a text, the
	// whole text counts as an excerpt.
	leastExcerpt = 8
	excerptShare = 0.5
	// maxExcerptText limits the readings that are compared word by word to a total size in bytes. Readings that share a
	// phrase with the text are compared first.
	maxExcerptText = 256 << 10
)

// excerpted marks the words of a text that are in excerpts of external readings and are not the user's own words.
type excerpted struct {
	hit  []bool    // for each word of the text, whether it is in an excerpt
	from []brought // the events of the readings
	all  bool      // the whole text counts as an excerpt
}

// wordings caches the wordings (the words, text.Wording) of readings. Each text with the user's credential is compared
// with the same latest readings, and splitting 256 KiB of them into words takes longer than the rest of the work on a
// short message.
//
// The cache does not influence decisions, because a wording depends only on the text. Only the stage's loop uses it.
type wordings struct {
	// now has the wordings that were added since old was replaced. When now is full, it becomes old, and the former old
	// is dropped.
	now, old map[string]text.Wording
	bytes    int // estimated size of now
	made     int // number of wordings that were not in the cache
}

// wordingBytes is the estimated size in bytes at which the map now is full.
const wordingBytes = 2 << 20

// of returns the wording of a text.
func (c *wordings) of(s string) text.Wording {
	if w, ok := c.now[s]; ok {
		return w
	}
	w, ok := c.old[s]
	if !ok {
		w = text.WordingOf(s)
		c.made++
	}
	if c.bytes += 128 + len(s) + 9*w.Len(); c.bytes > wordingBytes || c.now == nil {
		c.now, c.old, c.bytes = make(map[string]text.Wording), c.now, 128+len(s)+9*w.Len()
	}
	c.now[s] = w
	return w
}

// dropTexts empties the caches of texts.
func (f *Fold) dropTexts() {
	f.analyses.drop()
	f.wordings = wordings{}
}

// excerptOf compares a text with the external readings in named, which share a phrase with it, and with the agent's
// stored readings. It returns nil if there is nothing to compare.
func (f *Fold) excerptOf(st *stage.State, project, agent, content string, ft *text.Features,
	named []brought) (*excerpted, error) {
	_, any, err := st.Get(stage.Key(keyBrought, project, ""))
	if err != nil || !any {
		return nil, err
	}
	w := text.WordingOf(content)
	if w.Len() < leastExcerpt {
		return nil, nil
	}
	phrases := make(map[uint64]bool, len(ft.Phrases.Hashes))
	for _, h := range append(w.Phrases(nil), ft.Phrases.Hashes...) {
		phrases[h] = false
	}
	x := &excerpted{hit: make([]bool, w.Len())}
	left := maxExcerptText
	done := make(map[[2]string]bool)
	compare := func(by brought) error {
		if done[[2]string{by.agent, by.id}] || left <= 0 {
			return nil
		}
		done[[2]string{by.agent, by.id}] = true
		rd, err := f.reading(st, project, by.agent, by.id)
		if err != nil || rd == nil {
			return err
		}
		found := false
		for _, t := range rd.Texts {
			if left -= len(t); left < 0 {
				break
			}
			hit := make([]bool, len(x.hit))
			if !w.Mark(f.wordings.of(t), leastExcerpt, hit) {
				continue
			}
			if own, err := f.ownWords(st, project, w, hit); err != nil {
				return err
			} else if own {
				continue
			}
			found = true
			for i, h := range hit {
				x.hit[i] = x.hit[i] || h
			}
		}
		if found && len(x.from) < maxFound {
			x.from = append(x.from, by)
		}
		return nil
	}
	for _, by := range named[:min(len(named), lookedDocs)] {
		if err := compare(by); err != nil {
			return nil, err
		}
	}
	var rest []brought // latest readings that share no phrase with the text
	err = f.latest(st, project, agent, keptReadings, func(id string) error {
		by, n, err := f.common(st, project, agent, id, phrases)
		if err != nil || by.id == "" {
			return err // the reading has no external content
		}
		if n > 0 {
			return compare(by)
		}
		rest = append(rest, by)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, by := range rest {
		if err := compare(by); err != nil {
			return nil, err
		}
	}
	n := 0
	for _, h := range x.hit {
		if h {
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	x.all = float64(n) >= excerptShare*float64(w.Len())
	return x, nil
}

// ownWords reports whether at least half of the phrases of the words marked in hit are the user's or operator's own.
func (f *Fold) ownWords(st *stage.State, project string, w text.Wording, hit []bool) (bool, error) {
	phrases := w.Phrases(hit)
	own := 0
	for _, h := range phrases {
		if _, ok, err := st.Get(phraseKey(keyOwn, project, h)); err != nil {
			return false, err
		} else if ok {
			own++
		}
	}
	return len(phrases) > 0 && 2*own >= len(phrases), nil
}

// maxOwn is the maximum number of phrases of one text that are stored as the user's own, in addition to the phrases of
// its sample.
const maxOwn = 1024

// ownPhrases returns those phrases of a user's text that count as the user's own: all except those of excerpts.
func (f *Fold) ownPhrases(st *stage.State, project, agent, content string, ft *text.Features) ([]uint64, error) {
	w := text.WordingOf(content)
	all := w.Phrases(nil)
	all = append(all[:min(len(all), maxOwn)], ft.Phrases.Hashes...)
	x, err := f.excerptOf(st, project, agent, content, ft, nil)
	if err != nil || x == nil {
		return all, err
	}
	theirs := make(map[uint64]bool)
	for _, h := range w.Phrases(x.hit) {
		theirs[h] = true
	}
	own := all[:0]
	for _, h := range all {
		if !theirs[h] {
			own = append(own, h)
		}
	}
	return own, nil
}
