package hook

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// marksFile is the name of the file that stores which files and folders of the project got text from outside the
// project by a command of the session, and which of them the agent replaced. It has one line for each mark: a letter,
// and the hash of the place. Later lines apply after earlier ones.
const marksFile = "brought"

const (
	markOutside = 'o' // it has text from outside
	markStays   = 's' // a program that may still run writes text from outside to it
	markOwn     = 'w' // the agent replaced its whole text
	markHolds   = 'h' // a folder in which something has text from outside
)

// maxMarks is the maximum number of marks that are stored. If there are more, all files of the project count as from
// outside.
const maxMarks = 100_000

const markSize = 1 + 32 + 1

// mark has, for each letter, the number of the latest mark of a place, counted from 1; 0: there is none.
type mark struct{ outside, stays, own, holds int }

type marks struct {
	places map[string]mark
	n      int
	hashes map[string]string // of places that were looked up
}

// marks returns the marks of the session.
func (h *handler) marks() *marks {
	if h.marked != nil {
		return h.marked
	}
	h.marked = &marks{places: map[string]mark{}, hashes: map[string]string{}}
	b, err := os.ReadFile(filepath.Join(h.st.dir, marksFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.marked.n = maxMarks
	}
	for ; len(b) >= markSize && h.marked.n < maxMarks; b = b[markSize:] {
		h.marked.add(b[0], string(b[1:markSize-1]))
	}
	return h.marked
}

func (m *marks) add(sign byte, hash string) {
	m.n++
	x := m.places[hash]
	switch sign {
	case markOutside:
		x.outside = m.n
	case markStays:
		x.stays = m.n
	case markOwn:
		x.own = m.n
	case markHolds:
		x.holds = m.n
	}
	m.places[hash] = x
}

// full reports whether marks may be missing.
func (m *marks) full() bool { return m.n >= maxMarks }

// hash returns the hash of a place. On some systems, the case of a name does not matter.
func (m *marks) hash(place string) string {
	hash, ok := m.hashes[place]
	if !ok {
		hash = placeHash(strings.ToLower(place))
		m.hashes[place] = hash
	}
	return hash
}

// store adds a mark to some places, except to those that have it.
func (h *handler) store(sign byte, places []string) error {
	m := h.marks()
	var b bytes.Buffer
	add := func(sign byte, hash string) {
		if !m.full() {
			m.add(sign, hash)
			b.WriteString(string(sign) + hash + "\n")
		}
	}
	for _, place := range places {
		hash := m.hash(place)
		switch x := m.places[hash]; {
		case sign == markOwn && (!h.brought(place) || x.stays > 0), sign == markOutside && x.outside > x.own,
			sign == markStays && x.stays > 0:
			continue
		}
		add(sign, hash)
		for at := filepath.Dir(place); sign != markOwn && at != filepath.Dir(at); at = filepath.Dir(at) {
			if hash := m.hash(at); m.places[hash].holds == 0 {
				add(markHolds, hash)
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return h.st.extend(marksFile, b.Bytes())
}

// brought reports whether a command of the session brought text from outside to a place, or to a folder above it, and
// the agent has not replaced this text.
func (h *handler) brought(place string) bool {
	m := h.marks()
	if len(m.places) == 0 || m.full() {
		return m.full()
	}
	own := m.places[m.hash(place)].own
	for at := place; ; at = filepath.Dir(at) {
		if x := m.places[m.hash(at)]; x.outside > own || x.stays > 0 {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// holds reports whether something in a folder may have text from outside.
func (h *handler) holds(place string) bool {
	m := h.marks()
	return len(m.places) > 0 && (m.places[m.hash(place)].holds > 0 || h.brought(place))
}
