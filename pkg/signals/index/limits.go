package index

// Limits bounds the tables of one project's index.
type Limits struct {
	// Postings is how many hashes a posting table holds. A record is never split, so
	// that there may be those of one entry more.
	Postings [numPosts]int
	// Links is how many hashes a table of links holds, and AllLinks how many links.
	Links    [numLinks]int
	AllLinks int
	// Lag is after how many records a table of links is written anew, so that a table
	// that is seldom used keeps no others from being dropped.
	Lag uint32
	// Origins is how many origins there are at least before unused ones are dropped.
	Origins int
}

var limits = Limits{
	Postings: [numPosts]int{100_000, 100_000, 100_000, 100_000},
	Links:    [numLinks]int{20_000, 20_000, 50_000},
	AllLinks: 200_000,
	Lag:      1 << 16,
	Origins:  1 << 15,
}

// SetLimits changes the limits of all indexes and returns the ones before. It is
// for tests, which make tables turn soon.
func SetLimits(l Limits) (before Limits) {
	before, limits = limits, l
	return before
}

// Usage is how far the index of one project is filled.
type Usage struct {
	Dropped   bool             // records were dropped
	Compacted bool             // origins were dropped
	Postings  [numPosts]int    // hashes of the younger generation
	Links     [numLinks]int    // likewise
	AllLinks  [numLinks]int    // links of the younger generation
	Lag       [numLinks]uint32 // records since the table began; 0: it is empty
	Turned    [numLinks]bool
}

// Usages returns how far the indexes of a store that are in memory are filled.
func Usages(st Store) []Usage {
	var out []Usage
	c, ok := (*st.Memo()).(*cache)
	if !ok {
		return nil
	}
	for _, b := range c.indexes {
		u := Usage{Dropped: b.floor > 0, Compacted: b.kept > 0}
		for i := range b.tabs {
			u.Postings[i] = b.tabs[i].young.count
		}
		for i := range b.links {
			p := &b.links[i]
			u.Links[i], u.AllLinks[i], u.Turned[i] = p.young.last.count, len(p.young.links), p.from > 0
			if p.young.last.count+p.elder.last.count > 0 {
				u.Lag[i] = b.next - p.from
			}
		}
		out = append(out, u)
	}
	return out
}
