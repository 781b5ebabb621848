package index

import (
	"encoding/binary"
	"slices"
)

// Limits of stored sets.
const (
	MaxDirectives = 32 // maximum number of directives that are looked up for one session, word or carrier
	// MaxDistinct is the maximum number of different members that are kept of one set: the contents that push a target,
	// the sources, sessions or agents of a cluster, the beliefs used by an action. Further members are not counted.
	MaxDistinct = 64
)

// Links map a hash to the numbers that were last linked to it: words and carriers of instructions to the directives
// that have them, and a source with a target to the contents in which the source names the target. The links are a part
// of the Index and not keys in the store, because one content brings dozens of them.

// LinkID identifies a table of links.
type LinkID byte

// The tables of links.
const (
	LinkWords   LinkID = iota // words of directives → notes
	LinkTargets               // carriers of directives → notes
	LinkPushes                // source and target → contents
	numLinks
)

var linkNames = [numLinks]string{"directive_words", "directive_targets", "pushes"}

// linkMost is the maximum number of links that are returned for one hash.
var linkMost = [numLinks]int{MaxDirectives, MaxDirectives, MaxDistinct}

// links is one table of links, with two generations like a posting table.
type links struct {
	young, elder chains
	generations
}

// chains maps a hash to its latest link. Each link refers to the link of the same hash before it.
type chains struct {
	last  hashTable
	links []link
}

type link struct {
	to     uint32
	before uint32 // index of the previous link, plus one
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

// of appends to buf the numbers to which a hash is linked, the latest first, but not more than most.
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

// run is a set of hashes that one record links to the same number.
type run struct {
	id LinkID
	to uint32
	hs []uint64
}

// LinkKey returns the key of a word or carrier, given by its hash, in a table of links.
func LinkKey(h uint32) uint64 { return 1<<32 | uint64(h) }

// Link links a hash to a number.
func (b *Index) Link(id LinkID, h uint64, to uint32) {
	b.moved(id, h)
	b.addLink(id, h, to)
}

// PrefetchLinks loads the slots of words or carriers that will be looked up. It stores their keys in b.keys.
func (b *Index) PrefetchLinks(id LinkID, of []uint32) {
	b.keys = b.keys[:0]
	for _, h := range of {
		b.keys = append(b.keys, LinkKey(h))
	}
	b.links[id].young.last.prefetch(b.keys)
}

// LinkAll links words or carriers, given by their hashes, to a number to which they are not linked yet.
func (b *Index) LinkAll(id LinkID, of []uint32, to uint32) {
	b.PrefetchLinks(id, of)
	p := &b.links[id]
	if p.elder.last.count > 0 {
		for _, h := range b.keys {
			b.Link(id, h, to)
		}
		return
	}
	for _, h := range b.keys {
		p.young.add(h, to)
	}
	b.note(id, to, b.keys...)
}

// Linked appends to buf the numbers to which a hash is linked, the latest first.
func (b *Index) Linked(id LinkID, h uint64, buf []uint32) []uint32 {
	b.moved(id, h)
	return b.links[id].young.of(h, linkMost[id], buf)
}

// moved moves a hash that is being used from the elder to the younger generation.
func (b *Index) moved(id LinkID, h uint64) {
	p := &b.links[id]
	if p.elder.last.count == 0 {
		return
	}
	if _, ok := p.young.last.get(h); ok {
		return
	}
	b.copyLinks(id, &p.elder, h)
}

func (b *Index) copyLinks(id LinkID, from *chains, h uint64) {
	b.moving = from.of(h, linkMost[id], b.moving[:0])
	for i := len(b.moving) - 1; i >= 0; i-- {
		b.addLink(id, h, b.moving[i])
	}
}

// turnLinks starts a new generation in each table of links whose younger generation is full. It writes a table whose
// oldest record is limits.Lag records old to the newest record again. It must be called between two records.
func (b *Index) turnLinks() (turned bool) {
	for i := range b.links {
		switch p := &b.links[i]; {
		case p.young.last.count >= limits.Links[i]/2 || len(p.young.links) >= limits.AllLinks/2:
			p.lost = p.lost || p.elder.last.count > 0
			p.elder, p.young = p.young, chains{}
			p.from, p.since = p.since, b.next
		case p.young.last.count+p.elder.last.count > 0 && b.next-p.from >= limits.Lag:
			old := [...]chains{p.elder, p.young}
			p.elder, p.young, p.from, p.since = chains{}, chains{}, b.next, b.next
			for j := range old {
				for _, h := range old[j].last.sorted() {
					if _, again := old[1].last.get(h); j == 1 || !again {
						b.copyLinks(LinkID(i), &old[j], h)
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

func (b *Index) addLink(id LinkID, h uint64, to uint32) {
	b.links[id].young.add(h, to)
	b.note(id, to, h)
}

// note adds links to the current record.
func (b *Index) note(id LinkID, to uint32, hs ...uint64) {
	// Hashes can be added only to the last run, because the order of the runs is the order of each hash's links.
	if n := len(b.runs); n > 0 && b.runs[n-1].id == id && b.runs[n-1].to == to {
		r := &b.runs[n-1]
		r.hs = append(r.hs, hs...)
		return
	}
	if n := len(b.runs); n < cap(b.runs) {
		b.runs = b.runs[:n+1]
		r := &b.runs[n]
		r.id, r.to, r.hs = id, to, append(r.hs[:0], hs...)
		return
	}
	b.runs = append(b.runs, run{id, to, slices.Clone(hs)})
}

// writeRuns encodes the links of a record. loadRuns reads them.
func (b *Index) writeRuns(e Encoder) Encoder {
	e.Num(uint64(len(b.runs)))
	for i := range b.runs {
		r := &b.runs[i]
		e.Num(uint64(r.id))
		e.Num(uint64(r.to))
		e = e.longs(r.hs)
	}
	b.runs = b.runs[:0]
	return e
}

func (b *Index) loadRuns(n uint32, d *Decoder) error {
	for range min(d.Num(), recordSize) {
		id, to := d.Num(), uint32(d.Num())
		hs := d.Raw()
		if id >= uint64(numLinks) {
			return unreadable(b.project)
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
