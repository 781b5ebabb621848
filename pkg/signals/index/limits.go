package index

// Limits are the maximum sizes of the tables in one project's index.
type Limits struct {
	// Postings is the maximum number of hashes in each posting table. The hashes of one entry may exceed it, because
	// they are all in one record, which is never split.
	Postings [numPosts]int
	// Links is the maximum number of hashes in each table of links. AllLinks is the maximum number of links in each of
	// these tables.
	Links    [numLinks]int
	AllLinks int
	// Lag is a number of records. After so many records, a table of links is written to the newest record again. So a
	// table that is rarely used does not prevent old records from being removed.
	Lag uint32
	// Origins is a number of origins. An index with fewer origins does not remove unused ones.
	Origins int
}

var limits = Limits{
	Postings: [numPosts]int{100_000, 100_000, 100_000, 100_000},
	Links:    [numLinks]int{20_000, 20_000, 50_000},
	AllLinks: 200_000,
	Lag:      1 << 16,
	Origins:  1 << 15,
}

// SetLimits changes the limits of all indexes and returns the previous ones. Tests set small limits, so that new
// generations start early.
func SetLimits(l Limits) (before Limits) {
	before, limits = limits, l
	return before
}

// Usage says how full the tables of one project's index are.
type Usage struct {
	Dropped   bool             // records were removed
	Compacted bool             // origins were removed
	Postings  [numPosts]int    // hashes in the younger generation
	Links     [numLinks]int    // hashes in the younger generation
	AllLinks  [numLinks]int    // links in the younger generation
	Lag       [numLinks]uint32 // number of records since the table's oldest one; 0: the table is empty
	Turned    [numLinks]bool
}

// Usages returns the usage of those of a store's indexes that are in memory.
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
