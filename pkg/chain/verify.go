package chain

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"lazaret/pkg/position"
)

// Status is what a verification comes to.
type Status string

// The outcomes.
const (
	Verified   Status = "verified"
	Failed     Status = "failed"
	Incomplete Status = "incomplete" // nothing wrong was found, but not all was checked
)

// A Quorum says whether enough witnesses cosigned a checkpoint. The groups of
// github.com/transparency-dev/formats/witness are quorums.
type Quorum interface{ Satisfied(checkpoint []byte) bool }

// VerifyOptions is what a verification is held against.
type VerifyOptions struct {
	// Verifiers are the keys that may sign checkpoints; nil leaves signatures
	// unchecked, and the result incomplete. Keys that one of them handed over
	// to need not be among them.
	Verifiers note.Verifiers
	// Against are earlier checkpoints that the log must extend.
	Against [][]byte
	// Seen are checkpoints that were seen before, of this log or of others. Those
	// that a key signed which signs this log are held against it like Against,
	// whatever origin they name; the others are passed over. It needs Verifiers.
	Seen [][]byte
	// Quorum, if set, is what witnesses must have cosigned. What lies behind
	// the last checkpoint that satisfies it leaves the result incomplete; if
	// there is none, the verification fails.
	Quorum Quorum
	// From and To limit what is read to the leaves From <= i < To, widened to
	// whole tiles; To 0 means the end. Of the others only the hashes of their
	// tiles are used, and the result is incomplete.
	From, To int64
	// Lawful, if set, is what lets a payload be forgotten: one that is gone and
	// that it does not cover is a finding. Nil takes everything that is gone for
	// lawful.
	Lawful *Lawful
	// Payload, if set, is called with each payload that is good, from several
	// goroutines and in no order. It must not keep its arguments.
	Payload func(leaf *Leaf, payload []byte)
	// Progress, if set, is called now and then, from several goroutines.
	Progress func(done, total int64)
}

// Lawful ties payloads that are gone to what the log itself says is to be forgotten.
type Lawful struct {
	// Statements are the types of the entries that say so, and Grounds the types of
	// those that say whose word on it counts.
	Statements, Grounds []string
	// Judge reads all entries of these types, in the log's order, and rules. It is
	// called once, if there is a statement or a payload is gone.
	Judge func(all iter.Seq[*Statement]) Ruling
}

// Statement is an entry that Lawful.Judge reads.
type Statement struct {
	Leaf
	First   int64  // the first leaf of the leaf's ledger
	Payload []byte // held against its commitment
	Err     error  // why it cannot be read; ErrNotHeld if it was taken from another log
}

// Ruling is what a judge says of a log.
type Ruling struct {
	// May reports whether the payload of a leaf may be gone that is kept under a key
	// of this data subject: erased by itself, or with its key. Several goroutines
	// call it. The data subject stands in no leaf, so whoever can write the log's
	// files can choose it.
	May func(subject string, erased bool, leaf *Leaf) bool
	// Bad are statements that do not count. Each is a finding.
	Bad []Finding
	// Skipped is what could not be judged. It leaves the verification incomplete.
	Skipped []string
}

// Finding is what is wrong with a leaf.
type Finding struct {
	Index int64
	Text  string
}

// Report is what a verification found. Status is Failed exactly if FirstBad is
// not -1; Problems spells out the first 20 findings, and Skipped what was not
// checked.
type Report struct {
	Status      Status   `json:"status"`
	Size        int64    `json:"size"` // leaves that were read and are good
	Entries     int64    `json:"entries"`
	Gaps        int64    `json:"gaps"`
	Resets      int64    `json:"resets"`    // how often the ledger began anew
	Payloads    int64    `json:"payloads"`  // that match their commitments
	Forgotten   int64    `json:"forgotten"` // payloads that were erased or whose key was destroyed, lawfully if that was asked for
	NotHeld     int64    `json:"not_held"`  // payloads of leaves that were taken from another log
	Bytes       int64    `json:"bytes"`     // of leaves and payloads that were hashed
	Checkpoints int64    `json:"checkpoints"`
	Handovers   int64    `json:"handovers"` // changes of the signing key
	Signed      int64    `json:"signed"`    // leaves that the log's own last checkpoint covers
	Witnessed   int64    `json:"witnessed"` // leaves that a checkpoint with the quorum covers
	Seen        int64    `json:"seen"`      // leaves that one of VerifyOptions.Seen covers
	LastSeq     uint64   `json:"last_seq"`
	Root        string   `json:"root"`      // base64
	FirstBad    int64    `json:"first_bad"` // lowest leaf index that is wrong, -1 if none
	Problems    []string `json:"problems,omitempty"`
	Skipped     []string `json:"skipped,omitempty"`
}

// maxProblems bounds how many problems are spelled out.
const maxProblems = 20

// verification is a report in the making.
type verification struct {
	log  *Log
	snap *pebble.Snapshot
	o    VerifyOptions
	ring *keyring
	want Head // as the head record says

	ruling func() Ruling // of o.Lawful, made when it is first asked for

	stated atomic.Bool // a statement was met

	mu          sync.Mutex
	rep         Report              // guarded by mu, as are the following
	time, epoch time.Time           // of the last leaf and reset
	used        map[string]struct{} // key records that payloads name
	done        int64               // leaves, for Progress
	sealed      int64               // payloads that were not read for want of a key
}

func (v *verification) bad(index int64, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rep.FirstBad < 0 || index < v.rep.FirstBad {
		v.rep.FirstBad = index
	}
	if len(v.rep.Problems) < maxProblems {
		v.rep.Problems = append(v.rep.Problems, fmt.Sprintf(format, args...))
	}
}

func (v *verification) skip(format string, args ...any) {
	v.rep.Skipped = append(v.rep.Skipped, fmt.Sprintf(format, args...))
}

func (v *verification) report() Report {
	switch {
	case v.rep.FirstBad >= 0:
		v.rep.Status = Failed
	case len(v.rep.Skipped) > 0:
		v.rep.Status = Incomplete
	default:
		v.rep.Status = Verified
	}
	return v.rep
}

// VerifyDir opens the log in dir for reading and verifies it. Files that were
// altered so that the log does not open are a failed verification, not an
// error; an error says that nothing could be verified (ErrLocked, a wrong
// master key length, ctx).
func VerifyDir(ctx context.Context, dir string, o Options, v VerifyOptions) (rep Report, err error) {
	o.ReadOnly = true
	if _, err := newVault(o.MasterKey, true); err != nil {
		return Report{}, err
	}
	broken := func(err any) Report {
		ver := &verification{rep: Report{FirstBad: -1}}
		ver.bad(0, "the log does not open: %v", err)
		return ver.report()
	}
	// Pebble panics on some damage of its own files.
	defer func() {
		if r := recover(); r != nil {
			rep, err = broken(r), nil
		}
	}()
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.FS = mapped(o.FS)
	l, err := open(dir, o, scanCacheSize)
	if errors.Is(err, ErrLocked) {
		return Report{}, err
	}
	if err != nil {
		return broken(err), nil
	}
	rep, err = l.Verify(ctx, v)
	return rep, errors.Join(err, l.Close())
}

// Verify recomputes the log from what is on disk: every leaf, link, tree hash,
// signature and payload commitment, and that no record is there which the log
// does not have. What is wrong is in the report; an error says that it could not
// go on (ctx, a range that the log does not have).
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	snap := l.db.NewSnapshot()
	defer snap.Close()
	v := &verification{log: l, snap: snap, o: o, rep: Report{FirstBad: -1}, used: make(map[string]struct{}),
		ring: &keyring{trusted: o.Verifiers, retired: make(map[keyID]int64)}}
	v.ruling = sync.OnceValue(v.judge)
	if m, c, err := snap.Get([]byte{spaceMeta}); err == nil {
		err = decodeMeta(m, &v.want)
		if err := errors.Join(err, c.Close()); err != nil {
			v.bad(0, "%v", err)
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		v.bad(0, "the head record cannot be read: %v", err)
	}
	cps, err := v.checkpoints(ctx)
	if err != nil {
		return Report{}, err
	}
	from, to := o.From&^(TileWidth-1), v.want.Size
	if o.To > 0 && o.To < to {
		to = min((o.To+TileWidth-1)&^(TileWidth-1), to)
	}
	if from < 0 || from > to || o.From > 0 && o.From >= v.want.Size {
		return Report{}, fmt.Errorf("leaves %d to %d of %d: %w", o.From, o.To, v.want.Size, ErrRange)
	}
	whole := from == 0 && to == v.want.Size
	roots, err := v.leaves(ctx, from, to, whole, cps)
	if err != nil {
		return Report{}, err
	}
	v.statements(whole)
	if whole {
		v.keys()
	} else {
		v.skip("leaves outside %d to %d: only the hashes of their tiles were used, and checkpoints between", from, to-1)
	}
	v.strangers()
	v.heads(cps, roots, whole)
	return v.report(), nil
}

// signed is a checkpoint that is held against the tree.
type signed struct {
	what string
	own  bool // by this log, kept with it
	head bool // from the head file
	seen bool // of VerifyOptions.Seen
	by   []keyID
	Checkpoint
}

// checkpoints collects all checkpoints: kept, in the head file, and given.
func (v *verification) checkpoints(ctx context.Context) ([]signed, error) {
	if v.o.Verifiers == nil {
		v.skip("signatures of checkpoints: no keys were given")
	}
	v.each(spaceHandover, func(k, b []byte) {
		if len(k) != 9 || binary.BigEndian.Uint64(k[1:]) != uint64(v.rep.Handovers) {
			v.bad(0, "handover %d is missing", v.rep.Handovers)
		}
		v.rep.Handovers++
		if v.o.Verifiers == nil {
			return
		}
		if _, err := v.ring.handover(b); err != nil {
			v.bad(0, "handover %d: %v", v.rep.Handovers-1, err)
		}
	})
	var kept []signed
	v.each(spaceHandover, func(_, b []byte) { kept = append(kept, signed{what: "a handover", Checkpoint: Checkpoint{Note: b}}) })
	v.each(spaceCheckpoint, func(k, b []byte) {
		if len(k) != 9 {
			v.bad(0, "a checkpoint's key has %d bytes", len(k))
			return
		}
		// Size stands for the key here, until the note was read.
		kept = append(kept, signed{what: "a checkpoint", own: true, Checkpoint: Checkpoint{Size: int64(binary.BigEndian.Uint64(k[1:])), Note: b}})
	})
	if b, err := readFile(v.log.fs, filepath.Join(v.log.dir, HeadFile)); err == nil {
		kept = append(kept, signed{what: "the head file", head: true, Checkpoint: Checkpoint{Note: b}})
	} else if n := len(kept); n > 0 && kept[n-1].own {
		v.bad(max(kept[n-1].Size-1, 0), "the head file is missing, but checkpoints were signed: %v", err)
	}
	for _, b := range v.o.Against {
		kept = append(kept, signed{what: "an earlier checkpoint", Checkpoint: Checkpoint{Note: b}})
	}
	good, err := v.openAll(ctx, kept)
	if err != nil {
		return nil, err
	}
	if seen := v.ofThisLog(kept); len(seen) > 0 {
		more, err := v.openAll(ctx, seen)
		if err != nil {
			return nil, err
		}
		kept, good = append(kept, seen...), append(good, more...)
	}
	v.counted(kept, good)
	for i := range kept {
		// The store has a checkpoint before the head file has it.
		if h := &kept[i]; h.head && good[i] && !slices.ContainsFunc(kept, func(c signed) bool { return c.own && c.Size == h.Size }) {
			v.bad(max(h.Size-1, 0), "the head file has a checkpoint of size %d which the log has lost", h.Size)
		}
	}
	var out []signed
	for i := range kept {
		if !good[i] {
			continue
		}
		c := kept[i]
		v.rep.Checkpoints++
		if len(out) > 0 && c.Origin != out[0].Origin {
			v.bad(max(c.Size-1, 0), "%s of size %d is of log %q, others are of %q", c.what, c.Size, c.Origin, out[0].Origin)
		}
		if c.own {
			v.rep.Signed = max(v.rep.Signed, c.Size)
		}
		if c.seen {
			v.rep.Seen = max(v.rep.Seen, c.Size)
		}
		out = append(out, c)
	}
	return out, nil
}

// openAll reads checkpoints and checks their signatures.
func (v *verification) openAll(ctx context.Context, cps []signed) (good []bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	good = make([]bool, len(cps))
	const share = 64
	for lo := 0; lo < len(cps); lo += share {
		g.Go(func() error {
			for i := lo; i < min(lo+share, len(cps)); i++ {
				good[i] = v.open(&cps[i])
			}
			return ctx.Err()
		})
	}
	return good, g.Wait()
}

// ofThisLog are the checkpoints of VerifyOptions.Seen that a key signed which
// signed what the log keeps.
func (v *verification) ofThisLog(kept []signed) (out []signed) {
	if v.o.Verifiers == nil {
		return nil
	}
	own := make(map[keyID]bool)
	for i := range kept {
		for _, id := range kept[i].by {
			own[id] = true
		}
	}
	for _, b := range v.o.Seen {
		n, err := note.Open(b, v.ring)
		if err != nil {
			continue // by a key that is not known here
		}
		if slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return own[keyID{s.Name, s.Hash}] }) {
			out = append(out, signed{what: "a checkpoint that was seen before", seen: true, Checkpoint: Checkpoint{Note: b}})
		}
	}
	return out
}

// open reads a checkpoint's note and checks its signature.
func (v *verification) open(s *signed) bool {
	key := s.Size
	var err error
	if v.o.Verifiers == nil {
		s.Checkpoint, err = ParseCheckpoint(s.Note)
	} else {
		s.Checkpoint, s.by, err = v.ring.open(s.Note)
	}
	if err != nil {
		v.bad(max(key-1, 0), "%s: %v", s.what, err)
		return false
	}
	if s.own && s.Size != key {
		v.bad(max(min(s.Size, key)-1, 0), "the checkpoint kept for size %d is of size %d", key, s.Size)
	}
	return true
}

// each calls fn for the records of a space.
func (v *verification) each(space byte, fn func(k, b []byte)) {
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
	if err != nil {
		v.bad(0, "reading records %q: %v", space, err)
		return
	}
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		k := bytes.Clone(it.Key())
		if bytes.Compare(k, last) <= 0 { // tables changed places
			v.bad(0, "record %x follows record %x", k, last)
		}
		last = k
		fn(k, bytes.Clone(it.Value()))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		v.bad(0, "reading records %q: %v", space, err)
	}
}

// unitTiles is how many tiles one worker checks at a time.
const unitTiles = 16

// unit is what checking some tiles gave.
type unit struct {
	from, to int64 // leaves that were read
	entries  int64
	gaps     int64
	resets   int64

	first Leaf      // with prev
	last  tlog.Hash // record hash of the last leaf
	next  uint64    // ledger sequence that is due after it
	seq   uint64    // last ledger sequence
	time  time.Time // of the last leaf
	epoch time.Time // of the last reset; zero if there is none

	tiles []tlog.Hash // hashes of the full ones
	// at are the right edges below a tile, at the sizes that checkpoints have,
	// and at the end.
	at map[int64]*[TileHeight]tlog.Hash
}

// leaves reads leaves and payloads, and returns the tree's root at each
// checkpoint's size that it reached.
func (v *verification) leaves(ctx context.Context, from, to int64, whole bool, cps []signed) (map[int64]tlog.Hash, error) {
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
		// The last worker sees to it that nothing follows.
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

// join puts the units together: links, ledger sequences, the tree above the
// tiles.
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

// linked reports whether a unit follows the one before it.
func (v *verification) linked(u *unit, prev tlog.Hash, next uint64) bool {
	if u.first.Prev != prev {
		v.bad(u.from, "leaf %d does not follow the leaf before it", u.from)
		return false
	}
	if _, ok := u.first.follows(next); !ok {
		v.bad(u.from, "leaf %d is a %s of ledger sequence %d, due is %d", u.from, u.first.Kind, u.first.Seq, position.Sequence(next))
		return false
	}
	return true
}

// joinRange holds some tiles against the hashes that the log keeps of them,
// and those against the last checkpoint and the ones that were given.
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

// tileHash names a hash above the tiles.
type tileHash struct {
	level int // from 1
	n     int64
}

// hashes reads the hashes above the tiles. They are few: one in TileWidth
// leaves.
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

// records walks over the records of a space.
type records struct {
	it *pebble.Iterator
	ok bool // it stands on a record
}

// records of the leaves lo <= i < hi, or of all from lo on.
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

// on reports whether the record is that of a leaf.
func (r *records) on(space byte, index int64) bool {
	k := indexKey(space, index)
	return r.ok && bytes.Equal(r.it.Key(), k[:])
}

func (r *records) next() { r.ok = r.it.Next() }

// unit reads the leaves lo <= i < hi and their payloads.
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
			v.bad(hi, "a record follows that belongs to no leaf, key %x", r.it.Key())
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

// worker checks tiles one after the other.
type worker struct {
	v       *verification
	u       *unit
	bundles *records // of leaves
	boxes   *records // of payloads
	sizes   map[int64]bool
	keys    map[string]opened

	leaves [TileWidth]Leaf
	text   []byte  // a leaf with its RFC 6962 prefix
	ad     [8]byte // what a payload is bound to besides

	// Payloads that were decrypted, and are hashed two at once.
	held  [2]*Leaf
	plain [2][]byte // salt ‖ payload
	holds int

	payloads, forgotten, notHeld, bytes int64
	sealed                              int64 // payloads that were not read for want of a key
}

// opened is a subject's key, or why there is none.
type opened struct {
	aead cipher.AEAD
	err  error
}

// tile checks n leaves from at on, and reports whether they are good. Payloads
// do not count for that.
func (w *worker) tile(at int64, n int) bool {
	var e edge
	for i := 0; i < n; {
		index := at + int64(i)
		if !w.bundles.on(spaceLeaves, index) {
			w.v.bad(index, "leaf %d is missing", index)
			return false
		}
		b, err := w.bundles.it.ValueAndErr()
		if err != nil || len(b) == 0 {
			w.v.bad(index, "leaf %d cannot be read: %v", index, err)
			return false
		}
		for ; len(b) > 0; i++ {
			index = at + int64(i)
			raw, rest, err := cutLeaf(b)
			if err == nil && i == n {
				err = fmt.Errorf("%w: more leaves than the log has", ErrLeaf)
			}
			if err == nil {
				err = w.leaf(&w.leaves[i], index, raw, &e)
			}
			if err != nil {
				w.v.bad(index, "leaf %d: %v", index, err)
				return false
			}
			b = rest
		}
		w.bundles.next()
	}
	if e.size == TileWidth {
		w.u.tiles = append(w.u.tiles, e.at[TileHeight])
	} else {
		w.u.at[at+e.size] = (*[TileHeight]tlog.Hash)(e.at[:])
	}
	for i := range n {
		w.payload(&w.leaves[i])
	}
	w.commitments()
	return true
}

// leaf checks a leaf and adds it to the tile.
func (w *worker) leaf(leaf *Leaf, index int64, raw []byte, e *edge) error {
	*leaf = Leaf{}
	typ, project, err := leaf.scan(raw)
	if err != nil {
		return err
	}
	if w.v.o.Payload != nil || w.v.o.Lawful != nil {
		leaf.Type, leaf.Project = string(typ), string(project)
	}
	u := w.u
	if index == u.from {
		u.first = *leaf
		if u.next = leaf.Seq; leaf.Kind == KindReset || position.Index(leaf.Seq) > 0 {
			u.next++ // whether it follows the leaf before it is seen when units are joined
		}
	} else if leaf.Prev != u.last {
		return errors.New("it does not follow the leaf before it")
	}
	if leaf.Index != index {
		return fmt.Errorf("it says that it is leaf %d", leaf.Index)
	}
	after, ok := leaf.follows(u.next)
	if !ok {
		return fmt.Errorf("it is a %s of ledger sequence %d (%d), due is %d", leaf.Kind, leaf.Seq, leaf.Length, position.Sequence(u.next))
	}
	u.next, u.seq, u.time = after, position.Sequence(after)-1, leaf.Time
	switch leaf.Kind {
	case KindEntry:
		u.entries++
		if l := w.v.o.Lawful; l != nil && slices.Contains(l.Statements, leaf.Type) {
			w.v.stated.Store(true)
		}
	case KindGap:
		u.gaps++
	case KindReset:
		u.resets++
		u.epoch = leaf.Time
	}
	w.text = append(append(w.text[:0], 0), raw...)
	u.last = sha256.Sum256(w.text)
	w.bytes += int64(len(raw))
	level := 0
	h := u.last
	for ; e.size>>level&1 == 1; level++ {
		h = nodeHash(e.at[level], h)
	}
	e.at[level] = h
	e.size++
	if w.sizes[index+1] && e.size < TileWidth {
		part := [TileHeight]tlog.Hash(e.at[:])
		u.at[index+1] = &part
	}
	return nil
}

// payload checks that a payload is what its leaf commits to.
func (w *worker) payload(leaf *Leaf) {
	there := w.boxes.on(spacePayload, leaf.Index)
	if leaf.Kind != KindEntry {
		if there {
			w.v.bad(leaf.Index, "leaf %d is a %s and has a payload", leaf.Index, leaf.Kind)
			w.boxes.next()
		}
		return
	}
	if !there {
		if leaf.Index < w.v.want.Imported {
			w.notHeld++
			return
		}
		w.v.bad(leaf.Index, "the payload of leaf %d is missing", leaf.Index)
		return
	}
	if w.v.log.vault.master == nil {
		w.sealed++
		w.boxes.next()
		return
	}
	switch err := w.open(leaf); {
	case err == nil:
		if w.holds == len(w.held) {
			w.commitments()
		}
	case errors.Is(err, ErrForgotten):
		erased := errors.Is(err, errErased)
		if w.lawful(leaf, erased) {
			w.forgotten++
			break
		}
		what := "the key of the payload"
		if erased {
			what = "the payload"
		}
		w.v.bad(leaf.Index, "%s of leaf %d (%s of ledger sequence %d) is destroyed, and no statement that counts says that it is to be forgotten", what, leaf.Index, leaf.Type, leaf.Seq)
	default:
		w.v.bad(leaf.Index, "leaf %d: %v", leaf.Index, err)
	}
	w.boxes.next()
}

// lawful reports whether the payload that the iterator stands on may be gone.
func (w *worker) lawful(leaf *Leaf, erased bool) bool {
	if w.v.o.Lawful == nil {
		return true
	}
	rec, err := w.boxes.it.ValueAndErr()
	if err != nil {
		return false
	}
	subject, _, _, err := splitRecord(rec)
	return err == nil && w.v.ruling().May(string(subject), erased, leaf)
}

// judge has the log's statements judged, also those in leaves that are not verified
// because only others are.
func (v *verification) judge() Ruling {
	r := v.o.Lawful.Judge(func(yield func(*Statement) bool) {
		first := int64(0)
		errDone := errors.New("done")
		err := v.log.Range(0, v.want.Size, func(i int64, leaf Leaf) error {
			if leaf.Kind == KindReset {
				first = i + 1
			}
			if leaf.Kind != KindEntry || !slices.Contains(v.o.Lawful.Statements, leaf.Type) && !slices.Contains(v.o.Lawful.Grounds, leaf.Type) {
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
			v.bad(0, "looking for what is to be forgotten: %v", err)
		}
	})
	// Before the payloads that are gone because of them.
	for _, f := range r.Bad {
		v.bad(f.Index, "%s", f.Text)
	}
	return r
}

// statements has statements judged although no payload may be gone.
func (v *verification) statements(whole bool) {
	if v.o.Lawful != nil && v.log.vault.master != nil && (!whole || v.stated.Load()) {
		v.rep.Skipped = append(v.rep.Skipped, v.ruling().Skipped...)
	}
}

// open decrypts the payload that the iterator stands on, and holds it.
func (w *worker) open(leaf *Leaf) error {
	rec, err := w.boxes.it.ValueAndErr()
	if err != nil {
		return err
	}
	subject, generation, box, err := splitRecord(rec)
	if err != nil {
		return err
	}
	id := rec[:2+len(subject)+4]
	key, ok := w.keys[string(id)]
	if !ok {
		key.aead, key.err = w.v.log.vault.open(w.v.snap, string(subject), generation)
		w.keys[string(id)] = key
	}
	if len(box) == 0 {
		return errErased
	}
	if key.err != nil {
		return key.err
	}
	binary.BigEndian.PutUint64(w.ad[:], uint64(leaf.Index))
	plain, err := unseal(w.plain[w.holds][:0], key.aead, w.ad[:], box)
	if err != nil {
		return err
	}
	w.held[w.holds], w.plain[w.holds] = leaf, plain
	w.holds++
	return nil
}

// commitments checks that the payloads that are held are what their leaves commit
// to.
func (w *worker) commitments() {
	var sums [2][sha256.Size]byte
	if w.holds == 2 {
		sums[0], sums[1] = sum2(w.plain[0], w.plain[1])
	} else if w.holds == 1 {
		sums[0] = sha256.Sum256(w.plain[0])
	}
	for i := range w.holds {
		leaf, plain := w.held[i], w.plain[i]
		if sums[i] != leaf.Commitment || uint64(len(plain)-16) != leaf.Length {
			w.v.bad(leaf.Index, "leaf %d: its payload is not the one that it commits to", leaf.Index)
			continue
		}
		w.payloads++
		w.bytes += int64(len(plain))
		if w.v.o.Payload != nil {
			w.v.o.Payload(leaf, plain[16:])
		}
	}
	w.holds = 0
}

// keys checks that every key record opens and that payloads name it.
func (v *verification) keys() {
	if v.rep.FirstBad >= 0 || v.log.vault.master == nil {
		return // payloads behind that place were not read
	}
	v.each(spaceKey, func(k, b []byte) {
		if _, ok := v.used[string(k[1:])]; !ok {
			v.bad(max(v.rep.Size-1, 0), "the key record %x belongs to no payload", k)
			return
		}
		subject, _, _, err := splitRecord(k[1:])
		if err == nil {
			_, err = v.log.vault.unwrap(k, b, string(subject))
		}
		if err != nil && !errors.Is(err, ErrForgotten) {
			v.bad(max(v.rep.Size-1, 0), "%v", err)
		}
	})
}

// strangers looks for records that no log has.
func (v *verification) strangers() {
	spaces := []byte{spaceKept, spaceLeaves, spacePayload, spaceHash, spaceKey, spaceMeta, spaceCounts, spaceHandover, spaceCheckpoint}
	var lower []byte
	const end = 0
	for _, s := range append(slices.Sorted(slices.Values(spaces)), end) {
		upper := []byte{s}
		switch s {
		case spaceLeaves, spacePayload: // read from the first index on
			first := indexKey(s, 0)
			upper = first[:]
		case end:
			upper = nil
		}
		it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			v.bad(0, "%v", err)
			return
		}
		if it.First() {
			v.bad(0, "a record with key %x is none of a log's", it.Key())
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			v.bad(0, "%v", err)
		}
		lower = []byte{s + 1}
		if s == spaceMeta || s == spaceCounts {
			lower = []byte{s, 0}
		}
	}
}

// heads holds what was recomputed against what was claimed.
func (v *verification) heads(cps []signed, roots map[int64]tlog.Hash, whole bool) {
	want := v.want
	if whole && v.rep.FirstBad < 0 && (want.Entries != v.rep.Entries || want.Gaps != v.rep.Gaps || want.Resets != v.rep.Resets || want.LastSeq != v.rep.LastSeq || want.Imported > want.Size) {
		v.bad(max(v.rep.Size-1, 0), "the head record tells of %d entries up to %d, %d gaps and %d resets", want.Entries, want.LastSeq, want.Gaps, want.Resets)
	}
	if whole && v.rep.FirstBad < 0 && want.Size > 0 && (want.LastTime.UnixNano() != v.time.UnixNano() || !v.epoch.IsZero() && !want.Epoch.Equal(v.epoch)) {
		v.bad(want.Size-1, "the head record tells of a last entry at %s and a ledger of %s", want.LastTime, want.Epoch)
	}
	// Leaves that could not be read end the walk; the checkpoints behind that
	// place say nothing more.
	stopped := whole && v.rep.FirstBad >= 0 && v.rep.Size < want.Size
	for _, c := range cps {
		root, ok := roots[c.Size]
		switch {
		case !ok && stopped:
		case !ok && !whole && c.Size <= want.Size:
			continue
		case !ok:
			v.bad(want.Size, "%s covers %d leaves, of which %d are there: the log was truncated", c.what, c.Size, want.Size)
		case root != c.Root:
			v.bad(max(c.Size-1, 0), "%s of size %d has another root than the leaves that are there", c.what, c.Size)
		}
		if v.o.Quorum != nil && c.Size > v.rep.Witnessed && v.o.Quorum.Satisfied(c.Note) {
			v.rep.Witnessed = c.Size
		}
	}
	if v.rep.Signed < want.Size {
		v.skip("leaves from %d: no checkpoint of this log covers them", v.rep.Signed)
	}
	if v.o.Quorum != nil {
		if v.rep.Witnessed == 0 && want.Size > 0 {
			v.bad(0, "no checkpoint has the cosignatures that the witness policy asks for")
		} else if v.rep.Witnessed < want.Size {
			v.skip("leaves from %d: no checkpoint with the witnesses' quorum covers them", v.rep.Witnessed)
		}
	}
	if v.sealed > 0 {
		v.skip("%d payloads, and whether what is forgotten was to be: there is no key that decrypts them", v.sealed)
	}
	if v.rep.NotHeld > 0 {
		v.skip("%d payloads: their leaves were taken from another log, and the payloads are not held here", v.rep.NotHeld)
	}
}
