package rules

import "encoding/binary"

const (
	maxNotes = 32 // directives that one session, word or carrier leads to
	maxSeen  = 64 // contents, sources, sessions or agents that are told apart
)

// Links lead from a hash to the numbers that were linked to it last: from the words
// and carriers of instructions to the notes that hold them, from a source and what it
// brings up to the contents in which it does. They are part of a book, because one
// content brings dozens.

// linkID names a table of links.
type linkID byte

const (
	linkWords   linkID = iota // words of directives → notes
	linkTargets               // carriers of directives → notes
	linkPushes                // source and target → contents
	numLinks
)

var linkNames = [numLinks]string{"directive_words", "directive_targets", "pushes"}

// linkBounds is how many hashes of one project a table holds, and linkMost how many
// numbers of one hash count.
var (
	linkBounds = [numLinks]int{20_000, 20_000, 50_000}
	linkMost   = [numLinks]int{maxNotes, maxNotes, maxSeen}
)

// maxLinks is how many links a table holds, and linkLag after how many records it is
// written anew: a table that is seldom used keeps no others from being dropped.
var (
	maxLinks = 200_000
	linkLag  = uint32(1 << 16)
)

// links is one table, in two generations as a posting table is.
type links struct {
	young, elder chains
	generations
}

// chains lead from a hash to the last of its links, and from each to the one
// before.
type chains struct {
	last  hashes
	links []link
}

type link struct {
	to     uint32
	before uint32 // number of the link before, plus one
}

func (c *chains) add(h uint64, to uint32) {
	n := uint32(len(c.links))
	last, known := c.last.at(h)
	l := link{to: to}
	if known {
		l.before = *last + 1
	}
	*last = n
	c.links = append(c.links, l)
}

// of appends what a hash leads to, up to most and the last first.
func (c *chains) of(h uint64, most int, buf []uint32) []uint32 {
	i, ok := c.last.get(h)
	if !ok {
		return buf
	}
	for range most {
		l := c.links[i]
		buf = append(buf, l.to)
		if l.before == 0 {
			break
		}
		i = l.before - 1
	}
	return buf
}

func (c *chains) size() int { return 12*len(c.last.slots) + 8*cap(c.links) }

// run is hashes of a record that are linked to one number.
type run struct {
	id linkID
	to uint32
	hs []uint64
}

// linkKey is the hash of a word or carrier as links have it.
func linkKey(h uint32) uint64 { return 1<<32 | uint64(h) }

// link links a hash to a number.
func (b *book) link(id linkID, h uint64, to uint32) {
	b.moved(id, h)
	b.addLink(id, h, to)
}

// linkAll links some words or carriers to a number that is new to them.
func (b *book) linkAll(id linkID, of []uint32, to uint32) {
	b.keys = b.keys[:0]
	for _, h := range of {
		b.keys = append(b.keys, linkKey(h))
	}
	b.links[id].young.last.warm(b.keys)
	for _, h := range b.keys {
		b.link(id, h, to)
	}
}

// linked appends what a hash is linked to, the last first.
func (b *book) linked(id linkID, h uint64, buf []uint32) []uint32 {
	b.moved(id, h)
	return b.links[id].young.of(h, linkMost[id], buf)
}

// moved takes a hash that is used out of the elder generation.
func (b *book) moved(id linkID, h uint64) {
	p := &b.links[id]
	if p.elder.last.n == 0 {
		return
	}
	if _, ok := p.young.last.get(h); ok {
		return
	}
	b.copyLinks(id, &p.elder, h)
}

func (b *book) copyLinks(id linkID, from *chains, h uint64) {
	b.moving = from.of(h, linkMost[id], b.moving[:0])
	for i := len(b.moving) - 1; i >= 0; i-- {
		b.addLink(id, h, b.moving[i])
	}
}

// turnLinks ends the younger generations that are full, between two records.
func (b *book) turnLinks() (turned bool) {
	for i := range b.links {
		switch p := &b.links[i]; {
		case p.young.last.n >= linkBounds[i]/2 || len(p.young.links) >= maxLinks/2:
			p.lost = p.lost || p.elder.last.n > 0
			p.elder, p.young = p.young, chains{}
			p.from, p.since = p.since, b.next
		case p.young.last.n+p.elder.last.n > 0 && b.next-p.from >= linkLag:
			old := [...]chains{p.elder, p.young}
			p.elder, p.young, p.from, p.since = chains{}, chains{}, b.next, b.next
			for j := range old {
				for _, h := range old[j].last.sorted() {
					if _, again := old[1].last.get(h); j == 1 || !again {
						b.copyLinks(linkID(i), &old[j], h)
					}
				}
			}
		default:
			continue
		}
		turned = true
	}
	return turned
}

func (b *book) addLink(id linkID, h uint64, to uint32) {
	b.links[id].young.add(h, to)
	// Only the last run is added to: the order of a hash's links is that of runs.
	if n := len(b.runs); n > 0 && b.runs[n-1].id == id && b.runs[n-1].to == to {
		r := &b.runs[n-1]
		r.hs = append(r.hs, h)
		return
	}
	if n := len(b.runs); n < cap(b.runs) {
		b.runs = b.runs[:n+1]
		r := &b.runs[n]
		r.id, r.to, r.hs = id, to, append(r.hs[:0], h)
		return
	}
	b.runs = append(b.runs, run{id, to, []uint64{h}})
}

// writeRuns is the links of a record, and loadRuns takes them in.
func (b *book) writeRuns(e enc) enc {
	e.num(uint64(len(b.runs)))
	for i := range b.runs {
		r := &b.runs[i]
		e.num(uint64(r.id))
		e.num(uint64(r.to))
		e = e.longs(r.hs)
	}
	b.runs = b.runs[:0]
	return e
}

func (b *book) loadRuns(n uint32, d *dec, bad error) error {
	for range min(d.num(), recordSize) {
		id, to := d.num(), uint32(d.num())
		hs := d.raw()
		if id >= uint64(numLinks) {
			return bad
		}
		p := &b.links[id]
		if n < p.from {
			continue
		}
		gen := &p.young
		if n < p.since {
			gen = &p.elder
		}
		for ; len(hs) >= 8; hs = hs[8:] {
			gen.add(binary.BigEndian.Uint64(hs), to)
		}
	}
	return nil
}
