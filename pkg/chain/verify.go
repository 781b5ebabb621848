package chain

import (
	"bytes"
	"context"
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
)

// Status is the result of a verification.
type Status string

// The outcomes.
const (
	Verified   Status = "verified"
	Failed     Status = "failed"
	Incomplete Status = "incomplete" // no defect was found, but not everything was checked
)

// A Quorum reports whether enough witnesses cosigned a checkpoint. The groups of package
// github.com/transparency-dev/formats/witness implement it.
type Quorum interface{ Satisfied(checkpoint []byte) bool }

// VerifyOptions configures a verification.
type VerifyOptions struct {
	// Verifiers are the keys that may sign checkpoints. If Verifiers is nil, signatures are not checked, and the result
	// is incomplete. A key to which one of these keys was handed over may be left out.
	Verifiers note.Verifiers
	// Against are earlier checkpoints of the log. The log must extend the tree of each.
	Against [][]byte
	// Seen are checkpoints that were seen before, of this log or of others. If a key of this log signed such a
	// checkpoint, it is checked like those in Against, whatever origin it names. Checkpoints that other keys signed are
	// ignored. If Seen is set, Verifiers must be set.
	Seen [][]byte
	// Quorum, if set, says which witnesses must have cosigned. If no checkpoint of the log satisfies it, the
	// verification fails. If leaves come after the last checkpoint that satisfies it, the result is incomplete.
	Quorum Quorum
	// From and To limit the verification to the leaves From <= i < To, widened to whole tiles. To 0 means the end. Of
	// all other leaves, only the stored hashes of their tiles are used, and the result is incomplete.
	From, To int64
	// Lawful, if set, decides which payloads may be missing. Any other missing payload is a finding. If Lawful is nil,
	// every payload may be missing.
	Lawful *Lawful
	// Payload, if set, is called with each valid payload, from several goroutines and in no order.
	// It must not retain its arguments.
	Payload func(leaf *Leaf, payload []byte)
	// Missing, if set, is called with each leaf whose payload is lawfully missing, from several goroutines and in no
	// order.
	Missing func(leaf *Leaf)
	// Progress, if set, is called from time to time with the number of checked leaves and of all leaves, from several
	// goroutines.
	Progress func(done, total int64)
}

// Lawful connects missing payloads to the statements in the log that order their erasure.
type Lawful struct {
	// Statements are the types of the entries that order an erasure. Grounds are the types of the entries that say
	// which keys may sign such an order.
	Statements, Grounds []string
	// Judge reads all entries of the types in Statements and Grounds, in the log's order. It is called at most once: if
	// the log has a statement, or if a payload is missing.
	Judge func(all iter.Seq[*Statement]) Ruling
}

// Statement is an entry that Lawful.Judge reads.
type Statement struct {
	Leaf
	First   int64  // index of the first leaf of the same ledger
	Payload []byte // checked against its commitment
	Err     error  // reason why Payload could not be read; ErrNotHeld if the leaf was imported without its payload
}

// Ruling is the result of Lawful.Judge.
type Ruling struct {
	// May reports whether the payload of a leaf may be missing. subject is the data subject under whose key the payload
	// was encrypted. If erased is set, the payload itself was erased; otherwise its key was destroyed. Several
	// goroutines call May. subject is not authentic: leaves do not commit to it, so somebody who can write the log's
	// files can change it.
	May func(subject string, erased bool, leaf *Leaf) bool
	// Bad are statements that do not count, for example because their signature is not valid. Each is reported as a
	// finding.
	Bad []Finding
	// Skipped lists what Judge could not check. If it is not empty, the result of the verification is incomplete.
	Skipped []string
}

// Finding is a defect of a leaf.
type Finding struct {
	Index int64
	Text  string
}

// Report is the result of a verification. Status is Failed exactly if FirstBad is not -1. Problems
// has the first 20 findings. Skipped lists what was not checked.
type Report struct {
	Status   Status `json:"status"`
	Size     int64  `json:"size"` // leaves that were read and are valid
	Entries  int64  `json:"entries"`
	Gaps     int64  `json:"gaps"`
	Resets   int64  `json:"resets"`   // how often the ledger was recreated
	Payloads int64  `json:"payloads"` // payloads that match their commitments
	// Forgotten counts payloads that were erased or whose key was destroyed. If VerifyOptions.Lawful is set, those that
	// it does not allow are not counted; they are findings.
	Forgotten int64 `json:"forgotten"`
	// NotHeld counts payloads that the log lacks because their leaves were imported from another log.
	NotHeld     int64    `json:"not_held"`
	Bytes       int64    `json:"bytes"` // hashed bytes of leaves and payloads
	Checkpoints int64    `json:"checkpoints"`
	Handovers   int64    `json:"handovers"` // changes of the signing key
	Signed      int64    `json:"signed"`    // leaves covered by the log's own last checkpoint
	Witnessed   int64    `json:"witnessed"` // leaves covered by a checkpoint that satisfies VerifyOptions.Quorum
	Seen        int64    `json:"seen"`      // leaves covered by one of VerifyOptions.Seen
	LastSeq     uint64   `json:"last_seq"`
	Root        string   `json:"root"`      // base64
	FirstBad    int64    `json:"first_bad"` // lowest index of a bad leaf, -1 if none
	Problems    []string `json:"problems,omitempty"`
	Skipped     []string `json:"skipped,omitempty"`
}

// maxProblems is the maximum number of findings that Report.Problems lists.
const maxProblems = 20

// verification is a verification in progress.
type verification struct {
	log  *Log
	snap *pebble.Snapshot
	o    VerifyOptions
	ring *keyring
	want Head // according to the head record

	ruling func() Ruling // result of o.Lawful.Judge, computed at the first call

	stated atomic.Bool // a statement was found

	mu          sync.Mutex
	rep         Report              // guarded by mu, like the following fields
	time, epoch time.Time           // time of the last leaf, and of the last recreation of the ledger
	used        map[string]struct{} // key records that payloads refer to
	done        int64               // leaves so far, for Progress
	sealed      int64               // payloads that were not read because the key is missing
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

// VerifyDir opens the log in dir read-only and verifies it. If the files were altered so that the log does not open,
// VerifyDir returns a report with status Failed and no error. It returns an error only if nothing could be verified,
// for example because another process has the log open (ErrLocked), the master key has a wrong length, or ctx ended.
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
	// Some damage of Pebble's files makes Pebble panic. Turn such a panic into a finding.
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

// Verify recomputes the log from its files. It checks every leaf, link, tree hash, signature and payload commitment,
// and that there are no records which do not belong to the log. The report lists the defects. Verify returns an error
// only if the verification could not continue, because ctx ended or the log has no leaves in the given range.
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
		v.skip("leaves outside %d to %d, of which only the hashes of their tiles were used, and checkpoints between these "+
			"leaves", from, to-1)
	}
	v.strangers()
	v.heads(cps, roots, whole)
	return v.report(), nil
}

// signed is a checkpoint that the verification compares with the recomputed tree.
type signed struct {
	what string
	own  bool // of this log, from its store
	head bool // from the head file
	seen bool // from VerifyOptions.Seen
	by   []keyID
	Checkpoint
}

// checkpoints collects all checkpoints: from the store, from the head file, and from the options.
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
	v.each(spaceHandover, func(_, b []byte) {
		kept = append(kept, signed{what: "a handover", Checkpoint: Checkpoint{Note: b}})
	})
	v.each(spaceCheckpoint, func(k, b []byte) {
		if len(k) != 9 {
			v.bad(0, "a checkpoint's key has %d bytes", len(k))
			return
		}
		// Use the size in the record's key as Size until the note is parsed.
		kept = append(kept, signed{what: "a checkpoint", own: true,
			Checkpoint: Checkpoint{Size: int64(binary.BigEndian.Uint64(k[1:])), Note: b}})
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
		// The log writes a checkpoint first to the store and then to the head file. So the store must have a checkpoint
		// that the head file has.
		if h := &kept[i]; h.head && good[i] && !slices.ContainsFunc(kept, func(c signed) bool {
			return c.own && c.Size == h.Size
		}) {
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

// openAll parses checkpoints and verifies their signatures.
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

// ofThisLog returns those checkpoints of VerifyOptions.Seen that are signed by a key which also signed one of the log's
// own checkpoints.
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
			continue // signed by an unknown key
		}
		if slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return own[keyID{s.Name, s.Hash}] }) {
			out = append(out, signed{what: "a checkpoint seen before", seen: true, Checkpoint: Checkpoint{Note: b}})
		}
	}
	return out
}

// open parses a checkpoint's note and verifies its signature.
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
		v.bad(max(min(s.Size, key)-1, 0), "the checkpoint stored under size %d has size %d", key, s.Size)
	}
	return true
}

// each calls fn for all records whose key begins with space.
func (v *verification) each(space byte, fn func(k, b []byte)) {
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
	if err != nil {
		v.bad(0, "reading records %q: %v", space, err)
		return
	}
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		k := bytes.Clone(it.Key())
		if bytes.Compare(k, last) <= 0 { // tables were swapped
			v.bad(0, "record %x is after record %x, out of order", k, last)
		}
		last = k
		fn(k, bytes.Clone(it.Value()))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		v.bad(0, "reading records %q: %v", space, err)
	}
}

// keys checks the records with data subjects' keys: each key can be decrypted, and a payload is encrypted with it.
func (v *verification) keys() {
	if v.rep.FirstBad >= 0 || v.log.vault.master == nil {
		return // a bad leaf ended the reading, or payloads were not decrypted, so used may lack keys that are in use
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

// strangers reports each record that no log would have.
func (v *verification) strangers() {
	spaces := []byte{spaceKept, spaceLeaves, spacePayload, spaceHash, spaceKey, spaceMeta, spaceCounts, spaceHandover,
		spaceCheckpoint}
	var lower []byte
	const end = 0
	for _, s := range append(slices.Sorted(slices.Values(spaces)), end) {
		upper := []byte{s}
		switch s {
		// Leaves and payloads are read from index 0 on, so unknown records among them are found elsewhere.
		case spaceLeaves, spacePayload:
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
			v.bad(0, "the record with key %x does not belong to a log", it.Key())
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

// heads compares the values recomputed from the leaves with those in the head record and in the checkpoints.
func (v *verification) heads(cps []signed, roots map[int64]tlog.Hash, whole bool) {
	want := v.want
	if whole && v.rep.FirstBad < 0 && (want.Entries != v.rep.Entries || want.Gaps != v.rep.Gaps ||
		want.Resets != v.rep.Resets || want.LastSeq != v.rep.LastSeq || want.Imported > want.Size) {
		v.bad(max(v.rep.Size-1, 0), "the head record has %d entries up to %d, %d gaps and %d resets, which differs from "+
			"the leaves", want.Entries, want.LastSeq, want.Gaps, want.Resets)
	}
	if whole && v.rep.FirstBad < 0 && want.Size > 0 && (want.LastTime.UnixNano() != v.time.UnixNano() ||
		!v.epoch.IsZero() && !want.Epoch.Equal(v.epoch)) {
		v.bad(want.Size-1, "the head record has a last entry at %s and a ledger created at %s, but the leaves have other "+
			"times", want.LastTime, want.Epoch)
	}
	// If the reading of leaves stopped at a bad one, checkpoints of larger sizes cannot be compared.
	stopped := whole && v.rep.FirstBad >= 0 && v.rep.Size < want.Size
	for _, c := range cps {
		root, ok := roots[c.Size]
		switch {
		case !ok && stopped:
		case !ok && !whole && c.Size <= want.Size:
			continue
		case !ok:
			v.bad(want.Size, "%s covers %d leaves, but the log has only %d: it was truncated", c.what, c.Size, want.Size)
		case root != c.Root:
			v.bad(max(c.Size-1, 0), "%s of size %d has another root than the leaves of the log", c.what, c.Size)
		}
		if v.o.Quorum != nil && c.Size > v.rep.Witnessed && v.o.Quorum.Satisfied(c.Note) {
			v.rep.Witnessed = c.Size
		}
	}
	if v.rep.Signed < want.Size {
		v.skip("leaves from %d: no checkpoint of this log covers them", v.rep.Signed)
	}
	if v.o.Quorum != nil {
		if v.rep.Witnessed == 0 {
			v.bad(0, "no checkpoint has the cosignatures that the witness policy asks for")
		} else if v.rep.Witnessed < want.Size {
			v.skip("leaves from %d: no checkpoint with the witnesses' quorum covers them", v.rep.Witnessed)
		}
	}
	if v.sealed > 0 {
		v.skip("%d payloads, and whether forgotten ones were forgotten lawfully: there is no key that decrypts "+
			"them", v.sealed)
	}
	if v.rep.NotHeld > 0 {
		v.skip("%d payloads: their leaves were imported from another log, and the payloads are not stored "+
			"here", v.rep.NotHeld)
	}
}
