package statement

import (
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Erased is the set of the entries that the statements in a ledger order to forget. It is for readers that keep data
// of entries in memory. The zero value is empty. It is not safe for concurrent use.
//
// It does not check signatures, because ingest checked them before it wrote the entries.
type Erased struct {
	projects map[string]uint64          // project → position of the last statement to forget the project
	entries  map[string]map[uint64]bool // project → ledger sequences that statements list
}

// Add adds the statement in an entry. It reports whether the entry is a statement to forget a project or a data
// subject. A statement covers earlier entries only.
func (x *Erased) Add(e *streams.Entry) bool {
	if e.Stage != streams.StageIngest {
		return false
	}
	switch e.Type {
	case streams.TypeForgotten:
		if x.projects == nil {
			x.projects = make(map[string]uint64)
		}
		x.projects[e.Project] = position.Later(x.projects[e.Project], e.Position())
		return true
	case streams.TypeErased:
		c := streams.Erasure(e.Body)
		if c == nil {
			return false
		}
		if x.entries == nil {
			x.entries = make(map[string]map[uint64]bool)
		}
		if x.entries[e.Project] == nil {
			x.entries[e.Project] = make(map[uint64]bool)
		}
		for _, seq := range c.Entries {
			if seq < e.Seq {
				x.entries[e.Project][seq] = true
			}
		}
		return true
	}
	return false
}

// Covers reports whether a project's entry at a position is to be forgotten.
func (x *Erased) Covers(project string, at uint64) bool {
	return x.entries[project][position.Sequence(at)] || position.Compare(at, x.projects[project]) < 0
}

// CoversEntry reports whether an entry is to be forgotten, or was made from an entry that is to be forgotten. The
// source of a timer gives only its time.
func (x *Erased) CoversEntry(e *streams.Entry) bool {
	return !e.Type.Statement() && (x.Covers(e.Project, e.Position()) ||
		e.Src != 0 && e.Type != streams.TypeDue && e.Stage != streams.StageIngest && x.Covers(e.Project, e.Src))
}
