package ingest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// This file finds the undeclared parents of a text: the readings (texts that an agent was shown) from which it was
// taken. Examples are a memory that the agent wrote after reading a page, and a user's message that was pasted from a
// page.
//
// An index has a sample of the phrases of all external content of a project, and its distinctive carriers. For the
// latest readings of each agent, the state has all phrases. The index also has the phrases and carriers that the user
// or the operator wrote first. A page that repeats these later does not make them external.
//
// The comparison is by wording, so it does not find a complete paraphrase. But a paraphrase counts as the model's
// inference, which supports nothing either.

// Limits of the index and of a lookup.
const (
	// Of the phrases of a content, one in sampleOf is indexed, but at least sampleLeast and at most sampleMost. These
	// are the phrases with the lowest hashes. So if a text contains a part of the content, the samples of both contain
	// the same phrases of that part.
	sampleLeast = 12
	sampleOf    = 4
	sampleMost  = 256
	// lookedDocs is the maximum number of contents that are compared phrase by phrase because a phrase of the text
	// leads to them in the index. lookedBack is the number of the agent's latest readings that are always compared.
	lookedDocs = 8
	lookedBack = 32
	// maxFound is the maximum number of undeclared parents of a text.
	maxFound = 8
)

// How much a text must share with external content to count as derived. For a text of an agent, little is enough:
// counting it as derived only makes it as untrusted as its source. A text with the user's credential counts as derived
// only if it is a paste.
const (
	// An agent's text of any length is derived if it shares agentPhrases phrases, each of three content words.
	// Otherwise it must share two phrases, and also shortShare of all phrases of a text with at most shortText phrases,
	// or longShare of those of a longer text.
	agentPhrases = 3
	shortText    = 4
	shortShare   = 0.5
	longShare    = 0.3
	// A user's text is a paste if it shares pastePhrases phrases with external content. It is also a paste if it shares
	// leastPaste phrases, and these are at least pasteShare of all its phrases.
	pastePhrases = 8
	leastPaste   = 4
	wholePaste   = 2 // a text with at least so many phrases is also a paste if external content has all of them
	pasteShare   = 0.5
)

// phraseKey returns the key of a phrase in a table. space is the first byte of the table's keys. h is the phrase's
// hash.
func phraseKey(space byte, project string, h uint64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	return append(stage.Key(space, project, "p"), b[2:]...)
}

func carrierKey(space byte, project, c string) []byte {
	return stage.Key(space, project, "c"+c)
}

// distinctive returns those carriers of a text that two texts rarely share by chance.
func distinctive(f *text.Features) []string {
	var out []string
	for _, c := range f.Carriers {
		if c.Kind.Traits().Distinctive {
			out = append(out, string(c.Kind)+":"+c.Value)
		}
	}
	return out
}

// sample returns those phrases of a content that are indexed.
func sample(p text.Phrases) []uint64 {
	k := min(max(sampleLeast, len(p.Hashes)/sampleOf), sampleMost)
	if len(p.Hashes) <= k {
		return p.Hashes
	}
	// The hashes were already selected for low values. Mixing them makes this selection uniform.
	mix := func(h uint64) uint64 { return (h * 0x9e3779b97f4a7c15) >> 16 }
	hs := slices.Clone(p.Hashes)
	slices.SortFunc(hs, func(a, b uint64) int { return cmp.Compare(mix(a), mix(b)) })
	return hs[:k]
}

// brought is the event that brought a content into the project, with the content's origin.
type brought struct {
	agent, id string
	origin    beliefs.Origin
}

func (b brought) bytes() []byte {
	return []byte(b.agent + "\x00" + b.id + "\x00" + string(b.origin))
}

// broughtKey returns the key of a project's n-th brought record. The tables of phrases and carriers refer to it by its
// number, which saves space, because one content has about a dozen records in these tables.
func broughtKey(project string, n uint64) []byte {
	return stage.Key(keyBrought, project, string(binary.BigEndian.AppendUint64([]byte{'#'}, n)))
}

// number stores b under a new number, and returns that number as the tables store it.
func (b brought) number(st *stage.State, project string) ([]byte, error) {
	counter := stage.Key(keyBrought, project, "")
	v, _, err := st.Get(counter)
	if err != nil {
		return nil, err
	}
	n, _ := binary.Uvarint(v)
	if err := st.Set(broughtKey(project, n), b.bytes()); err != nil {
		return nil, err
	}
	return binary.AppendUvarint(nil, n), st.Set(counter, binary.AppendUvarint(nil, n+1))
}

// whoBrought returns the event that brought a phrase or carrier into the project. v is the value in the table of
// phrases or of carriers.
func whoBrought(st *stage.State, project string, v []byte) (brought, error) {
	n, _ := binary.Uvarint(v)
	v, ok, err := st.Get(broughtKey(project, n))
	if err == nil && !ok {
		err = fmt.Errorf("project %s: the state has no origin for content %d: remove the state folder, it is "+
			"rebuilt from the ledger", project, n)
	}
	return readBrought(v), err
}

func readBrought(v []byte) brought {
	agent, rest, _ := strings.Cut(string(v), "\x00")
	id, origin, _ := strings.Cut(rest, "\x00")
	return brought{agent, id, beliefs.Origin(origin)}
}

// noteExternal adds the phrases and carriers of an external content to the index.
func (f *Fold) noteExternal(st *stage.State, project string, by brought, ft *text.Features) error {
	return f.noteForeign(st, project, by, sample(ft.Phrases), distinctive(ft))
}

// noteForeign adds phrases and carriers to the index of external content.
func (f *Fold) noteForeign(st *stage.State, project string, by brought, phrases []uint64, carriers []string) error {
	if len(phrases)+len(carriers) == 0 {
		return nil
	}
	v, err := by.number(st, project)
	if err != nil {
		return err
	}
	for _, h := range phrases {
		if err := st.Give(phraseKey(keyExternal, project, h), v); err != nil {
			return err
		}
	}
	for _, c := range carriers {
		if err := st.Give(carrierKey(keyExternal, project, c), v); err != nil {
			return err
		}
	}
	return nil
}

// indexed reports whether all phrases and carriers of a content are in the index of external content. This may be
// false for a content that was seen before: if the agent wrote the content first, it was not external then, and was
// not indexed.
func (f *Fold) indexed(st *stage.State, project string, ft *text.Features) (bool, error) {
	for _, h := range sample(ft.Phrases) {
		if _, ok, err := st.Get(phraseKey(keyExternal, project, h)); err != nil || !ok {
			return false, err
		}
	}
	for _, c := range distinctive(ft) {
		if _, ok, err := st.Get(carrierKey(keyExternal, project, c)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// noteOwn stores phrases and carriers as the user's or operator's own, except those that external content had earlier.
func (f *Fold) noteOwn(st *stage.State, project, agent, content string, ft *text.Features) error {
	phrases, err := f.ownPhrases(st, project, agent, content, ft)
	if err != nil {
		return err
	}
	for _, h := range phrases {
		if _, ok, err := st.Get(phraseKey(keyExternal, project, h)); err != nil {
			return err
		} else if ok {
			continue
		}
		if err := st.Set(phraseKey(keyOwn, project, h), nil); err != nil {
			return err
		}
	}
	for _, c := range distinctive(ft) {
		if err := st.Set(carrierKey(keyOwn, project, c), nil); err != nil {
			return err
		}
	}
	return nil
}

// notePhrases stores all phrases of a reading. They are removed together with the reading.
func (f *Fold) notePhrases(st *stage.State, project string, by brought, fts []*text.Features) error {
	size := len(by.agent) + len(by.id) + len(by.origin) + 3
	for _, ft := range fts {
		size += 6 * len(ft.Phrases.Hashes)
	}
	v := append(append(make([]byte, 0, size), by.bytes()...), 0)
	n := len(v)
	for _, ft := range fts {
		for _, h := range ft.Phrases.Hashes {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], h)
			v = append(v, b[2:]...)
		}
	}
	if len(v) == n {
		return nil
	}
	return st.Give(stage.Key(keyPhrases, project, by.agent, by.id), v)
}

// derivation is the part of a text that external content has too.
type derivation struct {
	parents []streams.Parent
	phrases int     // number of the text's phrases that are in external content
	share   float64 // these phrases as a share of all the text's phrases
	carried bool    // the text has a carrier that external content named first
	excerpt bool    // at least half of its words are in excerpts of readings, see excerptOf
}

// any reports whether the text shares anything with external content.
func (d *derivation) any() bool { return d.phrases > 0 || d.carried || d.excerpt }

// written reports whether a text that an agent wrote counts as derived.
func (d *derivation) written(ft *text.Features) bool {
	n := len(ft.Phrases.Hashes)
	switch {
	case d.carried, d.excerpt, d.phrases >= agentPhrases:
		return true
	case n == 1:
		return d.phrases == 1 && ft.Words >= 4
	case n <= shortText:
		return d.phrases >= 2 && d.share >= shortShare
	}
	return d.phrases >= 2 && d.share >= longShare
}

// pasted reports whether a text with the user's credential counts as a paste.
func (d *derivation) pasted() bool {
	return d.excerpt || d.phrases >= pastePhrases || d.phrases >= leastPaste && d.share >= pasteShare ||
		d.phrases >= wholePaste && d.share >= 1
}

// weakest returns the least trusted of o and the origins of the parents.
func (d *derivation) weakest(o beliefs.Origin) beliefs.Origin {
	for _, p := range d.parents {
		o = beliefs.Weakest(o, p.Origin)
	}
	return o
}

// derive compares a text with the external content of a project. The parents that it finds are in the order of how much
// they share. If content is not empty, its words are also compared with readings word by word.
func (f *Fold) derive(st *stage.State, project, agent, content string, ft *text.Features) (*derivation, error) {
	d := new(derivation)
	open := make(map[uint64]bool, len(ft.Phrases.Hashes)) // phrase that is not the user's own → is it external
	hits := make(map[brought]int)
	for _, h := range ft.Phrases.Hashes {
		if _, ok, err := st.Get(phraseKey(keyOwn, project, h)); err != nil {
			return nil, err
		} else if ok {
			continue
		}
		v, ok, err := st.Get(phraseKey(keyExternal, project, h))
		if err != nil {
			return nil, err
		}
		open[h] = ok
		if ok {
			by, err := whoBrought(st, project, v)
			if err != nil {
				return nil, err
			}
			hits[by]++
		}
	}
	named := make([]brought, 0, len(hits))
	for by := range hits {
		named = append(named, by)
	}
	less := func(a, b brought) int {
		return cmp.Or(cmp.Compare(hits[b], hits[a]), cmp.Compare(a.agent, b.agent), cmp.Compare(a.id, b.id),
			cmp.Compare(a.origin, b.origin))
	}
	slices.SortFunc(named, less)
	if content != "" {
		x, err := f.excerptOf(st, project, agent, content, ft, named)
		if err != nil {
			return nil, err
		}
		if x != nil {
			d.excerpt = x.all
			for _, by := range x.from {
				hits[by] = max(hits[by], 1)
			}
		}
	}
	looked := make(map[[2]string]bool)
	compare := func(agent, id string) error {
		if looked[[2]string{agent, id}] || len(open) == 0 {
			return nil
		}
		looked[[2]string{agent, id}] = true
		by, n, err := f.common(st, project, agent, id, open)
		if n > 0 {
			hits[by] = max(hits[by], n)
		}
		return err
	}
	for _, by := range named[:min(len(named), lookedDocs)] {
		if err := compare(by.agent, by.id); err != nil {
			return nil, err
		}
	}
	if len(open) > 0 {
		if err := f.latest(st, project, agent, lookedBack, func(id string) error { return compare(agent, id) }); err != nil {
			return nil, err
		}
	}
	for _, met := range open {
		if met {
			d.phrases++
		}
	}
	if n := len(ft.Phrases.Hashes); n > 0 {
		d.share = float64(d.phrases) / float64(n)
	}
	named = named[:0]
	for by := range hits {
		named = append(named, by)
	}
	slices.SortFunc(named, less)
	for _, by := range named[:min(len(named), maxFound)] {
		d.parents = append(d.parents, streams.Parent{ID: by.id, Agent: by.agent, Origin: by.origin, Phrases: hits[by],
			Share: float64(hits[by]) / float64(len(ft.Phrases.Hashes))})
	}
	return d, f.carriedIn(st, project, ft, d)
}

// carriedIn adds to d those carriers of a text that external content named first, and that the user did not name.
func (f *Fold) carriedIn(st *stage.State, project string, ft *text.Features, d *derivation) error {
	for _, c := range distinctive(ft) {
		if _, ok, err := st.Get(carrierKey(keyOwn, project, c)); err != nil {
			return err
		} else if ok {
			continue
		}
		v, ok, err := st.Get(carrierKey(keyExternal, project, c))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		d.carried = true
		by, err := whoBrought(st, project, v)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(d.parents, func(p streams.Parent) bool {
			return p.ID == by.id && p.Agent == by.agent
		}); i >= 0 {
			d.parents[i].Carrier = c
		} else if len(d.parents) < maxFound {
			d.parents = append(d.parents, streams.Parent{ID: by.id, Agent: by.agent, Origin: by.origin, Carrier: c})
		}
	}
	return nil
}

// common counts those phrases in want that a reading has, and sets their values in want to true.
func (f *Fold) common(st *stage.State, project, agent, id string, want map[uint64]bool) (by brought, n int, err error) {
	v, ok, err := st.Get(stage.Key(keyPhrases, project, agent, id))
	if err != nil || !ok {
		return by, 0, err
	}
	for i, zeros := 0, 0; i < len(v); i++ {
		if v[i] != 0 {
			continue
		}
		if zeros++; zeros == 3 {
			by, v = readBrought(v[:i]), v[i+1:]
			break
		}
	}
	seen := make(map[uint64]bool)
	for ; len(v) >= 6; v = v[6:] {
		h := uint64(binary.BigEndian.Uint16(v))<<32 | uint64(binary.BigEndian.Uint32(v[2:]))
		if _, ok := want[h]; ok && !seen[h] {
			seen[h], want[h] = true, true
			n++
		}
	}
	return by, n, nil
}

// latest calls fn with the ids of the last events that an agent read, at most most, the latest first.
func (f *Fold) latest(st *stage.State, project, agent string, most uint64, fn func(id string) error) error {
	v, ok, err := st.Get(stage.Key(keyReadings, project, agent, ""))
	if err != nil || !ok || len(v) != 8 {
		return err
	}
	n := binary.BigEndian.Uint64(v)
	for i := n; i > 0 && n-i < most; i-- {
		id, ok, err := st.Get(readingSlot(project, agent, i-1))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := fn(string(id)); err != nil {
			return err
		}
	}
	return nil
}
