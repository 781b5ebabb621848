package chain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"lazaret/pkg/position"
)

// unitTiles is the number of tiles that one worker checks at a time.
const unitTiles = 16

// unit is the result of checking some consecutive tiles.
type unit struct {
	from, to int64 // range of the leaves that were read
	entries  int64
	gaps     int64
	resets   int64

	first Leaf      // with Prev
	last  tlog.Hash // record hash of the last leaf
	next  uint64    // expected ledger sequence after it
	seq   uint64    // last ledger sequence
	time  time.Time // of the last leaf
	epoch time.Time // time of the last recreation of the ledger; zero if there is none

	tiles []tlog.Hash // hashes of the full tiles
	// at has an entry for the size of each checkpoint, and for the end. The entry is the part of the tree's right edge
	// at that size that lies within the last tile.
	at map[int64]*[TileHeight]tlog.Hash
}

// leaves checks the leaves and payloads in the range. It returns the root of the tree at the size of each checkpoint
// that it reached.
func (v *verification) leaves(ctx context.Context, from, to int64, whole bool, cps []signed) (map[int64]tlog.Hash,
	error) {
	sizes := make(map[int64]bool)
	for _, c := range cps {
		sizes[c.Size] = true
	}
	const width = unitTiles * TileWidth
	units := make([]unit, max((to-from+width-1)/width, 1))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range units {
		lo := from + int64(i)*width
		hi := min(lo+width, to)
		// The worker with the last unit also checks that no leaves come after it.
		last := i == len(units)-1 && whole
		g.Go(func() error { return v.unit(gctx, &units[i], lo, hi, last, sizes) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	roots := make(map[int64]tlog.Hash)
	if !whole {
		return roots, v.joinRange(units, from, to, cps, roots)
	}
	v.join(units, roots)
	return roots, nil
}

// join combines the results of all units. It checks that each unit continues the one before it, in links and ledger
// sequences. Then it computes the levels of the tree above the tiles.
func (v *verification) join(units []unit, roots map[int64]tlog.Hash) {
	var e edge
	var prev tlog.Hash
	var hashes []tlog.Hash
	next := uint64(1)
	roots[0] = e.root()
	stored := v.hashes()
	compare := func(level int, n int64, h tlog.Hash) {
		at := tileHash{level, n}
		if got, ok := stored[at]; !ok || got != h {
			v.bad((n+1)<<(TileHeight*level)-1, "hash %d of tile level %d is wrong", n, level)
		}
		delete(stored, at)
	}
	for i := range units {
		u := &units[i]
		if u.from == u.to {
			break
		}
		if !v.linked(u, prev, next) {
			break
		}
		prev, next = u.last, u.next
		v.rep.Entries += u.entries
		v.rep.Gaps += u.gaps
		v.rep.Resets += u.resets
		v.rep.LastSeq = u.seq
		v.time = u.time
		if !u.epoch.IsZero() {
			v.epoch = u.epoch
		}
		at := u.from
		for j := 0; ; j++ {
			for s := at; s <= min(at+TileWidth-1, u.to); s++ {
				if part := u.at[s]; part != nil {
					f := e
					f.size = s
					copy(f.at[:], part[:])
					roots[s] = f.root()
				}
			}
			if j == len(u.tiles) {
				break
			}
			hashes = e.addTile(u.tiles[j], hashes[:0])
			for k := 0; k < len(hashes); k += TileHeight {
				compare(1+k/TileHeight, e.size>>(TileHeight+k)-1, hashes[k])
			}
			at += TileWidth
			roots[e.size] = e.root()
		}
		if u.to != e.size {
			f := e
			f.size = u.to
			copy(f.at[:], u.at[u.to][:])
			e = f
		}
		if i+1 < len(units) && u.to != units[i+1].from {
			break
		}
	}
	v.rep.Size = e.size
	root := e.root()
	v.rep.Root = base64.StdEncoding.EncodeToString(root[:])
	if len(stored) > 0 && v.rep.FirstBad < 0 {
		v.bad(max(e.size-1, 0), "%d hashes of tiles belong to no leaves", len(stored))
	}
}

// linked reports whether a unit continues the unit before it, whose last leaf has record hash prev and expects ledger
// sequence next.
func (v *verification) linked(u *unit, prev tlog.Hash, next uint64) bool {
	if u.first.Prev != prev {
		v.bad(u.from, "leaf %d does not follow the leaf before it", u.from)
		return false
	}
	if _, ok := u.first.follows(next); !ok {
		v.bad(u.from, "leaf %d is a %s of ledger entry %s, want sequence %d", u.from, u.first.Kind,
			position.Text(u.first.Seq), position.Sequence(next))
		return false
	}
	return true
}

// joinRange compares the recomputed hashes of tiles with the hashes in the log. It then compares the log's hashes with
// the last checkpoint and with cps.
func (v *verification) joinRange(units []unit, from, to int64, cps []signed, roots map[int64]tlog.Hash) error {
	for i := range units {
		u := &units[i]
		if i > 0 && !v.linked(u, units[i-1].last, units[i-1].next) {
			break
		}
		for j, h := range u.tiles {
			n := u.from>>TileHeight + int64(j)
			got, err := v.log.tile(v.snap, 1, n>>TileHeight, int(n&(TileWidth-1))+1)
			if err != nil || !bytes.Equal(got[len(got)-tlog.HashSize:], h[:]) {
				v.bad(n<<TileHeight, "hash %d of tile level 1 is wrong (%v)", n, err)
			}
		}
		v.rep.Entries += u.entries
		v.rep.Gaps += u.gaps
		v.rep.Resets += u.resets
		v.rep.LastSeq = u.seq
	}
	v.rep.Size = to - from
	ask := make(map[int64]bool)
	for _, c := range cps {
		if !c.own || c.Size == v.rep.Signed {
			ask[c.Size] = true
		}
	}
	ask[v.want.Size] = true
	for size := range ask {
		if size > v.want.Size {
			continue
		}
		h, err := tlog.TreeHash(size, v.log)
		if err != nil {
			v.bad(0, "the tree of %d leaves: %v", size, err)
			continue
		}
		roots[size] = h
		if size == v.want.Size {
			v.rep.Root = base64.StdEncoding.EncodeToString(h[:])
		}
	}
	return nil
}

// tileHash identifies the stored hash of a full tile, by the level and the index at which the hash is stored.
type tileHash struct {
	level int // from 1
	n     int64
}

// hashes reads the stored hashes of full tiles. A hash of tile level n, from 1, covers TileWidth^n leaves.
func (v *verification) hashes() map[tileHash]tlog.Hash {
	have := make(map[tileHash]tlog.Hash)
	v.each(spaceHash, func(k, b []byte) {
		if len(k) != 10 || len(b) != tlog.HashSize {
			v.bad(0, "a tree hash of %d bytes under a key of %d", len(b), len(k))
			return
		}
		have[tileHash{int(k[1]), int64(binary.BigEndian.Uint64(k[2:]))}] = tlog.Hash(b)
	})
	return have
}

// records iterates over records whose keys begin with the same space.
type records struct {
	it *pebble.Iterator
	ok bool // the iterator is at a record
}

// records returns an iterator over the records of the leaves lo <= i < hi. If rest is set, it goes on to the last leaf.
func (v *verification) records(space byte, lo, hi int64, rest bool) (*records, error) {
	lower, upper := indexKey(space, lo), indexKey(space, (hi+TileWidth-1)&^(TileWidth-1))
	o := &pebble.IterOptions{LowerBound: lower[:], UpperBound: upper[:]}
	if rest {
		o.UpperBound = []byte{space + 1}
	}
	it, err := v.snap.NewIter(o)
	if err != nil {
		return nil, err
	}
	return &records{it: it, ok: it.First()}, nil
}

// on reports whether the current record is that of the leaf with the given index.
func (r *records) on(space byte, index int64) bool {
	k := indexKey(space, index)
	return r.ok && bytes.Equal(r.it.Key(), k[:])
}

func (r *records) next() { r.ok = r.it.Next() }

// unit checks the leaves lo <= i < hi and their payloads, and stores the result in u.
func (v *verification) unit(ctx context.Context, u *unit, lo, hi int64, last bool, sizes map[int64]bool) error {
	u.from, u.to = lo, lo
	defer func() {
		if r := recover(); r != nil { // Pebble panics on some damage
			v.bad(u.to, "leaf %d cannot be read: %v", u.to, r)
		}
	}()
	u.at = make(map[int64]*[TileHeight]tlog.Hash)
	bundles, err := v.records(spaceLeaves, lo, hi, last)
	if err != nil {
		return err
	}
	defer bundles.it.Close()
	boxes, err := v.records(spacePayload, lo, hi, last)
	if err != nil {
		return err
	}
	defer boxes.it.Close()
	w := worker{v: v, u: u, bundles: bundles, boxes: boxes, sizes: sizes, keys: make(map[string]opened)}
	for at := lo; at < hi; at += TileWidth {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(hi-at, TileWidth))
		good := w.tile(at, n)
		v.progress(int64(n))
		if !good {
			break
		}
		u.to = at + int64(n)
	}
	for _, r := range []*records{bundles, boxes} {
		if r.ok && u.to == hi {
			v.bad(hi, "the record with key %x does not belong to a leaf", r.it.Key())
		}
		if err := r.it.Error(); err != nil {
			v.bad(u.to, "reading leaf %d: %v", u.to, err)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rep.Payloads += w.payloads
	v.rep.Forgotten += w.forgotten
	v.rep.NotHeld += w.notHeld
	v.sealed += w.sealed
	v.rep.Bytes += w.bytes
	for k := range w.keys {
		v.used[k] = struct{}{}
	}
	return nil
}

func (v *verification) progress(n int64) {
	if v.o.Progress == nil {
		return
	}
	v.mu.Lock()
	v.done += n
	done := v.done
	v.mu.Unlock()
	v.o.Progress(done, v.want.Size)
}

// judge passes the log's statements to Lawful.Judge. Statements in leaves outside the verified range are included.
func (v *verification) judge() Ruling {
	r := v.o.Lawful.Judge(func(yield func(*Statement) bool) {
		first := int64(0)
		errDone := errors.New("done")
		err := v.log.Range(0, v.want.Size, func(i int64, leaf Leaf) error {
			if leaf.Kind == KindReset {
				first = i + 1
			}
			if leaf.Kind != KindEntry || !slices.Contains(v.o.Lawful.Statements, leaf.Type) &&
				!slices.Contains(v.o.Lawful.Grounds, leaf.Type) {
				return nil
			}
			s := &Statement{Leaf: leaf, First: first}
			_, s.Payload, s.Err = v.log.Salted(i)
			if !yield(s) {
				return errDone
			}
			return nil
		})
		if err != nil && !errors.Is(err, errDone) {
			v.bad(0, "reading the statements on forgetting: %v", err)
		}
	})
	// Report bad statements first. The missing payloads that they were to explain are reported after them.
	for _, f := range r.Bad {
		v.bad(f.Index, "%s", f.Text)
	}
	return r
}

// statements has the log's statements judged, so that bad ones are reported even if no payload is missing.
func (v *verification) statements(whole bool) {
	if v.o.Lawful != nil && v.log.vault.master != nil && (!whole || v.stated.Load()) {
		v.rep.Skipped = append(v.rep.Skipped, v.ruling().Skipped...)
	}
}
