package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// A recall searches inverted word indexes. A place is the whole project, a user or a session. The beliefs of a place
// are on six shelves: for each of the three classes of origin, one shelf has the memories and one the read content. A
// shelf consists of volumes, and each volume has a word index. Each shelf is searched separately. So content of a less
// trusted class cannot crowd content of a more trusted class out of the hits, and read content cannot crowd out
// memories. The word indexes are part of the state: Apply writes them, and a new fold of the ledger rebuilds them.

// The classes of origin, most trusted first.
const (
	classOwn      = '0' // the user's and the operator's words
	classAgent    = '1'
	classExternal = '2'
)

// shelf identifies a shelf of a place (by class and memory) and a volume of this shelf, and thus one word index.
type shelf struct {
	class  byte
	memory bool // memories; otherwise read content
	volume byte
}

// shelves lists the six shelves of a place, most trusted first, each with its first volume.
var shelves = []shelf{{class: classOwn, memory: true}, {class: classOwn}, {class: classAgent, memory: true},
	{class: classAgent}, {class: classExternal, memory: true}, {class: classExternal}}

func shelfOf(r *record) shelf { return shelf{class: classOf(r.Ref.Origin), memory: r.Memory} }

// key returns the byte that stands for the shelf and volume of s in the keys of the word index.
func (s shelf) key() byte {
	k := s.class + 3*s.volume
	if s.memory {
		return k
	}
	return k + 'a' - '0'
}

// volumes is the maximum number of volumes of a shelf. A volume is full when its word index has lexical.MaxDocuments
// documents. A belief that expires leaves its document behind. New beliefs go to the first volume that is not full.
// When all beliefs of a volume have expired, its word index is dropped, and the volume has room again.
const volumes = 16

// volumeKey returns the key that stores the number of a shelf's last volume. A shelf without this key has one volume.
func volumeKey(project, place string, s shelf) []byte {
	s.volume = 0
	return append(stage.Key(keyVolume, project, place, ""), s.key())
}

// lastVolume returns the last volume of the shelf of s.
func lastVolume(st *stage.State, project, place string, s shelf) (shelf, error) {
	v, _, err := st.Get(volumeKey(project, place, s))
	s.volume = 0
	if len(v) == 1 {
		s.volume = v[0]
	}
	return s, err
}

// openVolume returns the word index of the first volume of a shelf that has room, and the number of documents in it.
func openVolume(st *stage.State, project, place string, s shelf) (x *lexical.Index, n uint32, err error) {
	for {
		x = index(st, project, place, s)
		if n, err = x.Len(); err != nil || n < lexical.MaxDocuments || s.volume == volumes-1 {
			break
		}
		s.volume++
	}
	if err != nil || s.volume == 0 {
		return x, n, err
	}
	last, err := lastVolume(st, project, place, s)
	if err == nil && last.volume < s.volume {
		err = st.Set(volumeKey(project, place, s), []byte{s.volume})
	}
	return x, n, err
}

// searchShelf searches the volumes of a shelf, the last one first, and returns the list `all` with the hits appended.
func searchShelf(st *stage.State, project, place string, s shelf, q lexical.Query, all []reads) ([]reads, error) {
	s, err := lastVolume(st, project, place, s)
	if err != nil {
		return nil, err
	}
	for v := int(s.volume); v >= 0; v-- {
		s.volume = byte(v)
		x := index(st, project, place, s)
		hits, err := x.Search(q)
		if err != nil {
			return nil, err
		}
		all = slices.Grow(all, len(hits))
		for _, h := range hits {
			all = append(all, reads{in: x, hit: h})
		}
	}
	return all, nil
}

func classOf(o beliefs.Origin) byte {
	switch o {
	case beliefs.OriginUser, beliefs.OriginSystem:
		return classOwn
	case beliefs.OriginAgent:
		return classAgent
	}
	return classExternal
}

// index returns the word index of s, that is of one volume of a shelf, in a place of a project. The empty place is the
// whole project.
func index(st *stage.State, project, place string, s shelf) *lexical.Index {
	return indexAt(st, append(stage.Key(keyIndex, project, place, ""), s.key()))
}

// indexAt returns the word index whose keys begin with key.
func indexAt(st *stage.State, key []byte) *lexical.Index {
	memo, ok := (*st.Memo()).(*lexical.Memo)
	if !ok {
		memo = lexical.NewMemo()
		*st.Memo() = memo
	}
	return lexical.Open(st, key).With(memo)
}

// labels returns a belief's properties as index terms, by which recalls can filter. sum is the SHA-256 of its content.
func labels(r *record, sum [32]byte) []text.Term {
	all := []text.Term{text.Label("sum", hex.EncodeToString(sum[:])), text.Label("kind", r.Ref.Kind.String()),
		text.Label("origin", string(r.Ref.Origin)),
		text.Label("event", r.Agent+"/"+r.Ref.Observation)}
	for _, l := range [][2]string{{"key", r.Ref.Key}, {"agent", r.Agent}, {"session", r.Session},
		{"category", r.Category}, {"tool", r.Tool}, {"source", r.Ref.Source}} {
		if l[1] != "" {
			all = append(all, text.Label(l[0], l[1]))
		}
	}
	return all
}

// indexBelief adds a belief to its word index, by its memory key, its content and its labels, and sets r.Doc. sum is
// the SHA-256 of the content.
func indexBelief(st *stage.State, project string, r *record, content string, sum [sha256.Size]byte) error {
	words := lexical.Words(r.Ref.Key)
	words = append(words, lexical.Words(content)...)
	if place := placeOf(r); place != "" {
		if err := st.Set(stage.Key(keyPlace, project, place), nil); err != nil {
			return err
		}
	}
	x, n, err := openVolume(st, project, placeOf(r), shelfOf(r))
	if err != nil {
		return err
	}
	r.Doc = n + 1
	return x.Add(r.Ref.ID, words, labels(r, sum))
}

// placesOf returns the places of a project in which there are beliefs: the whole project first, then its users and
// sessions.
func placesOf(st *stage.State, project string) ([]string, error) {
	out := []string{""}
	prefix := stage.Key(keyPlace, project, "")
	err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
		out = append(out, string(k[len(prefix):]))
		return true, nil
	})
	return out, err
}

// filterLabels returns the index terms for a recall's key and filter.
func filterLabels(ev *streams.Recall) []text.Term {
	var all []text.Term
	f := &ev.Filter
	for _, l := range [][2]string{{"key", ev.Key}, {"kind", f.Kind}, {"agent", f.Agent}, {"session", f.Session},
		{"origin", string(f.Origin)},
		{"category", f.Category}, {"tool", f.Tool}, {"source", f.Source}} {
		if l[1] != "" {
			all = append(all, text.Label(l[0], l[1]))
		}
	}
	return all
}

// fits reports whether a belief matches a recall's key and filter. The index has only hashes of these fields, so a hit
// may be wrong and must be checked.
func fits(r *record, key string, f *streams.RecallFilter) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(key, r.Ref.Key) && is(f.Kind, r.Ref.Kind.String()) && is(f.Agent, r.Agent) && is(f.Session, r.Session) &&
		is(string(f.Origin), string(r.Ref.Origin)) && is(f.Category, r.Category) && is(f.Tool, r.Tool) && is(f.Source,
		r.Ref.Source) &&
		(f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until))
}

// keptText is the number of bytes of a read content that the state has for recalls. The ledger has the whole content.
const keptText = 16 << 10

// keepText stores the text of a read content that is longer than previewLen. The belief's record has only its
// beginning.
func keepText(st *stage.State, project, id, content string) error {
	if len(content) <= previewLen {
		return nil
	}
	return st.Set(stage.Key(keyText, project, id), []byte(cut(content, keptText)))
}
