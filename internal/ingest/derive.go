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

// This file finds the undeclared parents of a text, for example of a memory that the agent wrote
// after reading a page, or of a user's message that was pasted from one.
//
// For all external content of a project, an index stores a sample of its phrases and its
// distinctive carriers. For the latest readings of each agent it stores all phrases. It also stores
// the phrases and carriers that the user or the operator wrote first. These remain the user's: a page
// that repeats the user's words does not make them external.
//
// The comparison is by wording. It does not find a complete paraphrase. Such a text counts as the
// model's inference, which supports nothing either.

// Limits of the index and of a lookup.
const (
	// A content has one phrase in sampleOf indexed, but at least sampleLeast and at most
	// sampleMost. The phrases with the lowest hashes are taken, so that an extract has the same
	// ones.
	sampleLeast = 12
	sampleOf    = 4
	sampleMost  = 256
	// lookedDocs is the maximum number of contents from index hits that are compared phrase by
	// phrase. lookedBack is the number of the agent's latest readings that are always compared.
	lookedDocs = 8
	lookedBack = 32
	// maxFound is the maximum number of undeclared parents of a text.
	maxFound = 8
)

// How much a text must share with external content to count as derived. For an agent's text little
// is enough, because the text is at most as trusted as its source. A text with the user's
// credential counts only if it is a paste.
const (
	// An agent's text is derived if it shares agentPhrases phrases of three content words each,
	// whatever its length. Otherwise it needs two shared phrases and shortShare of the phrases of a
	// short text, or longShare of those of a longer one.
	agentPhrases = 3
	shortText    = 4
	shortShare   = 0.5
	longShare    = 0.3
	// A user's text is a paste if external content has pastePhrases of its phrases, or half of its
	// phrases and at least leastPaste.
	pastePhrases = 8
	leastPaste   = 4
	wholePaste   = 2 // phrases that are enough if external content has all phrases of the text
	pasteShare   = 0.5
)

// phraseKey returns the key of a phrase in a table.
func phraseKey(space byte, project string, h uint64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	return append(stage.Key(space, project, "p"), b[2:]...)
}

func carrierKey(space byte, project, c string) []byte {
	return stage.Key(space, project, "c"+c)
}

// distinctive returns the carriers of a text that two texts rarely share by chance.
func distinctive(f *text.Features) []string {
	var out []string
	for _, c := range f.Carriers {
		if c.Kind.Traits().Distinctive {
			out = append(out, string(c.Kind)+":"+c.Value)
		}
	}
	return out
}

// sample returns the phrases of a content that are indexed.
func sample(p text.Phrases) []uint64 {
	k := min(max(sampleLeast, len(p.Hashes)/sampleOf), sampleMost)
	if len(p.Hashes) <= k {
		return p.Hashes
	}
	// The hashes were selected for low values. Mixing them makes the selection uniform.
	mix := func(h uint64) uint64 { return (h * 0x9e3779b97f4a7c15) >> 16 }
	hs := slices.Clone(p.Hashes)
	slices.SortFunc(hs, func(a, b uint64) int { return cmp.Compare(mix(a), mix(b)) })
	return hs[:k]
}

// brought names the event that brought an indexed content into the project, and the content's
// origin.
type brought struct {
	agent, id string
	origin    beliefs.Origin
}

func (b brought) bytes() []byte {
	return []byte(b.agent + "\x00" + b.id + "\x00" + string(b.origin))
}

// broughtKey returns the key of the n-th origin. The tables of phrases and carriers refer to an
// origin by its number, because one content has about a dozen entries in them.
func broughtKey(project string, n uint64) []byte {
	return stage.Key(keyBrought, project, string(binary.BigEndian.AppendUint64([]byte{'#'}, n)))
}

// number stores an origin, and returns the value that refers to it.
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

// whoBrought returns the origin that a value in a table refers to.
func whoBrought(st *stage.State, project string, v []byte) (brought, error) {
	n, _ := binary.Uvarint(v)
	v, ok, err := st.Get(broughtKey(project, n))
	if err == nil && !ok {
		err = fmt.Errorf("project %s: the state has no origin for content %d: remove the state folder, it is "+
			"rebuilt from the ledger",
			project, n)
	}
	return readBrought(v), err
}

func readBrought(v []byte) brought {
	agent, rest, _ := strings.Cut(string(v), "\x00")
	id, origin, _ := strings.Cut(rest, "\x00")
	return brought{agent, id, beliefs.Origin(origin)}
}

// noteExternal indexes the phrases and carriers of external content.
func (f *Fold) noteExternal(st *stage.State, project string, by brought, ft *text.Features) error {
	phrases, carriers := sample(ft.Phrases), distinctive(ft)
	if len(phrases)+len(carriers) == 0 {
		return nil
	}
	v, err := by.number(st, project)
	if err != nil {
		return err
	}
	for _, h := range phrases {
		if err := st.Give(phraseKey(keyForeign, project, h), v); err != nil {
			return err
		}
	}
	for _, c := range carriers {
		if err := st.Give(carrierKey(keyForeign, project, c), v); err != nil {
			return err
		}
	}
	return nil
}

// indexed reports whether all phrases and carriers of a content are in the index of external
// content. That may be false for a known content, because the agent may have written it before.
func (f *Fold) indexed(st *stage.State, project string, ft *text.Features) (bool, error) {
	for _, h := range sample(ft.Phrases) {
		if _, ok, err := st.Get(phraseKey(keyForeign, project, h)); err != nil || !ok {
			return false, err
		}
	}
	for _, c := range distinctive(ft) {
		if _, ok, err := st.Get(carrierKey(keyForeign, project, c)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// noteOwn stores phrases and carriers as the user's or operator's own, except those that external
// content had first.
func (f *Fold) noteOwn(st *stage.State, project, agent, content string, ft *text.Features) error {
	phrases, err := f.ownPhrases(st, project, agent, content, ft)
	if err != nil {
		return err
	}
	for _, h := range phrases {
		if _, ok, err := st.Get(phraseKey(keyForeign, project, h)); err != nil {
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

// notePhrases stores all phrases of a reading, for as long as the reading itself is stored.
func (f *Fold) notePhrases(st *stage.State, project string, by brought, fts []*text.Features) error {
	v := append(by.bytes(), 0)
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

// derivation is what a text shares with external content.
type derivation struct {
	parents []streams.Parent
	phrases int     // number of the text's phrases that are in external content
	share   float64 // share of all its phrases
	carried bool    // it has a carrier that external content named first
	excerpt bool    // readings have at least half of its words, in runs
}

// any reports whether the text shares anything at all.
func (d *derivation) any() bool { return d.phrases > 0 || d.carried || d.excerpt }

// written reports whether a text that an agent wrote is derived.
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

// pasted reports whether a text with the user's credential is a paste.
func (d *derivation) pasted() bool {
	return d.excerpt || d.phrases >= pastePhrases || d.phrases >= leastPaste && d.share >= pasteShare ||
		d.phrases >= wholePaste && d.share >= 1
}

// weakest returns the least trusted origin of the parents and o.
func (d *derivation) weakest(o beliefs.Origin) beliefs.Origin {
	for _, p := range d.parents {
		o = beliefs.Weakest(o, p.Origin)
	}
	return o
}

// derive compares a text with the external content of a project. The parents are ordered by how
// much they share.
//
// If content is not empty, its words are also compared with readings.
func (f *Fold) derive(st *stage.State, project, agent, content string, ft *text.Features) (*derivation, error) {
	d := new(derivation)
	open := make(map[uint64]bool, len(ft.Phrases.Hashes)) // phrases that are not the user's own; true once found
	hits := make(map[brought]int)
	for _, h := range ft.Phrases.Hashes {
		if _, ok, err := st.Get(phraseKey(keyOwn, project, h)); err != nil {
			return nil, err
		} else if ok {
			continue
		}
		v, ok, err := st.Get(phraseKey(keyForeign, project, h))
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

// carriedIn adds to a derivation the carriers that external content named first and the user did
// not name.
func (f *Fold) carriedIn(st *stage.State, project string, ft *text.Features, d *derivation) error {
	for _, c := range distinctive(ft) {
		if _, ok, err := st.Get(carrierKey(keyOwn, project, c)); err != nil {
			return err
		} else if ok {
			continue
		}
		v, ok, err := st.Get(carrierKey(keyForeign, project, c))
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

// common counts the wanted phrases that a reading has, and marks them.
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

// latest calls fn for the last events that an agent read, latest first.
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
