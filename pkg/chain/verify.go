package chain

import (
	"bytes"
	"context"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"
)

// Status is what a verification comes to.
type Status string

// The outcomes.
const (
	Verified   Status = "verified"
	Failed     Status = "failed"
	Incomplete Status = "incomplete" // nothing wrong was found, but not all was checked
)

// VerifyOptions is what a verification is held against.
type VerifyOptions struct {
	// Verifiers are the keys that may sign checkpoints; nil leaves signatures
	// unchecked, and the result incomplete.
	Verifiers note.Verifiers
	// Against is an earlier checkpoint that the log must extend.
	Against []byte
	// Progress, if set, is called now and then.
	Progress func(done, total int64)
}

// Report is what a verification found.
type Report struct {
	Status      Status   `json:"status"`
	Size        int64    `json:"size"` // leaves that were read and are good
	Entries     int64    `json:"entries"`
	Gaps        int64    `json:"gaps"`
	Payloads    int64    `json:"payloads"`  // that match their commitments
	Forgotten   int64    `json:"forgotten"` // payloads whose key was destroyed
	Checkpoints int64    `json:"checkpoints"`
	LastSeq     uint64   `json:"last_seq"`
	Root        string   `json:"root"`      // base64
	FirstBad    int64    `json:"first_bad"` // lowest leaf index that is wrong, -1 if none
	Problems    []string `json:"problems,omitempty"`
	Skipped     []string `json:"skipped,omitempty"`
}

// maxProblems bounds how many problems are spelled out.
const maxProblems = 20

// verification is a report in the making. It is safe for concurrent use.
type verification struct {
	mu  sync.Mutex
	rep Report
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

func (v *verification) done() Report {
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
func VerifyDir(ctx context.Context, dir string, o Options, v VerifyOptions) (Report, error) {
	o.ReadOnly = true
	l, err := Open(dir, o)
	if err != nil {
		if errors.Is(err, ErrLocked) || len(o.MasterKey) != 32 {
			return Report{}, err
		}
		ver := &verification{rep: Report{FirstBad: -1}}
		ver.bad(0, "the log does not open: %v", err)
		return ver.done(), nil
	}
	rep, err := l.Verify(ctx, v)
	return rep, errors.Join(err, l.Close())
}

// Verify recomputes the log from what is on disk.
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	snap := l.db.NewSnapshot()
	defer snap.Close()
	v := &verification{rep: Report{FirstBad: -1}}
	var want Head
	if m, c, err := snap.Get([]byte{spaceMeta}); err == nil {
		err = decodeMeta(m, &want)
		c.Close()
		if err != nil {
			v.bad(0, "%v", err)
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		v.bad(0, "the head record cannot be read: %v", err)
	}
	cps, err := l.checkpoints(snap, v, o)
	if err != nil {
		return Report{}, err
	}
	roots, err := l.leaves(ctx, snap, v, want.Size, cps, o.Progress)
	if err != nil {
		return Report{}, err
	}
	v.heads(want, cps, roots)
	return v.done(), nil
}

// signed is a checkpoint that is held against the tree.
type signed struct {
	what string
	size int64
	root tlog.Hash
}

// checkpoints collects all checkpoints: kept, in the head file, and given.
func (l *Log) checkpoints(snap *pebble.Snapshot, v *verification, o VerifyOptions) ([]signed, error) {
	var out []signed
	origin := ""
	open := func(what string, b []byte, at int64) {
		s, name, err := openCheckpoint(b, o.Verifiers)
		if err != nil {
			v.bad(at, "%s: %v", what, err)
			return
		}
		if origin == "" {
			origin = name
		}
		if name != origin {
			v.bad(at, "%s is of log %q, the others are of %q", what, name, origin)
		}
		s.what = what
		out = append(out, s)
		v.rep.Checkpoints++
	}
	if o.Verifiers == nil {
		v.rep.Skipped = append(v.rep.Skipped, "signatures of checkpoints: no keys were given")
	}
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCheckpoint}, UpperBound: []byte{spaceCheckpoint + 1}})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if len(it.Key()) != 9 {
			v.bad(0, "a checkpoint's key has %d bytes", len(it.Key()))
			continue
		}
		size := int64(binary.BigEndian.Uint64(it.Key()[1:]))
		n := len(out)
		open(fmt.Sprintf("the checkpoint of size %d", size), it.Value(), max(size-1, 0))
		if len(out) > n && out[n].size != size {
			v.bad(max(min(size, out[n].size)-1, 0), "the checkpoint kept for size %d is of size %d", size, out[n].size)
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		v.bad(0, "checkpoints cannot be read: %v", err)
	}
	if b, err := readFile(l.fs, filepath.Join(l.dir, HeadFile)); err == nil {
		open("the head file", b, 0)
	} else if len(out) > 0 {
		v.bad(out[len(out)-1].size-1, "the head file is missing, but checkpoints were signed: %v", err)
	}
	if o.Against != nil {
		open("the earlier checkpoint", o.Against, 0)
	}
	return out, nil
}

// openCheckpoint reads a checkpoint. Without verifiers its signature is not
// checked.
func openCheckpoint(b []byte, vs note.Verifiers) (s signed, origin string, err error) {
	text := ""
	if vs != nil {
		n, err := note.Open(b, vs)
		if err != nil {
			return s, "", err
		}
		for _, sig := range n.Sigs {
			// Base64 has bits that mean nothing; a stored record has none.
			if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
				return s, "", fmt.Errorf("its signature by %s is not as it was written", sig.Name)
			}
		}
		text = n.Text
	} else {
		i := bytes.Index(b, []byte("\n\n"))
		if i < 0 {
			return s, "", errors.New("it is no signed note")
		}
		text = string(b[:i+1])
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 4 {
		return s, "", errors.New("it is no checkpoint: three lines are needed")
	}
	if s.size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || s.size < 0 || strconv.FormatInt(s.size, 10) != lines[1] {
		return s, "", fmt.Errorf("its size is %q", lines[1])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(s.root) {
		return s, "", errors.New("its root is not 32 bytes of base64")
	}
	copy(s.root[:], root)
	return s, lines[0], nil
}

// verifyChunk is how many payloads one worker checks at a time.
const verifyChunk = 512

// leaves reads every leaf and payload, and returns the tree's root at each
// checkpoint's size that it reached.
func (l *Log) leaves(ctx context.Context, snap *pebble.Snapshot, v *verification, size int64, cps []signed, progress func(done, total int64)) (map[int64]tlog.Hash, error) {
	roots := make(map[int64]tlog.Hash)
	wanted := make(map[int64]bool)
	for _, c := range cps {
		wanted[c.size] = true
	}
	var e edge
	var prev tlog.Hash
	var hashes []tlog.Hash
	roots[0] = e.root()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	chunk := make([]Leaf, 0, verifyChunk)
	flush := func() {
		work := append([]Leaf(nil), chunk...)
		chunk = chunk[:0]
		if len(work) > 0 {
			g.Go(func() error { return l.payloads(gctx, snap, v, work) })
		}
	}
	var next uint64 = 1
	for i := int64(0); i < size && gctx.Err() == nil; i++ {
		raw, c, err := snap.Get(key8(spaceLeaf, uint64(i)))
		if err != nil {
			v.bad(i, "leaf %d cannot be read: %v", i, err)
			break
		}
		leaf, err := DecodeLeaf(raw)
		h := tlog.RecordHash(raw)
		c.Close()
		if err != nil {
			v.bad(i, "leaf %d: %v", i, err)
			break
		}
		if leaf.Index != i || leaf.Prev != prev {
			v.bad(i, "leaf %d does not follow the leaf before it", i)
			break
		}
		switch leaf.Kind {
		case KindEntry:
			if leaf.Seq != next {
				v.bad(i, "leaf %d is ledger entry %d, want %d", i, leaf.Seq, next)
			}
			next = leaf.Seq + 1
			v.rep.Entries++
			v.rep.LastSeq = leaf.Seq
			chunk = append(chunk, leaf)
		case KindGap:
			if leaf.Seq != next || leaf.Length == 0 {
				v.bad(i, "leaf %d is a gap of %d from ledger sequence %d, want one from %d", i, leaf.Length, leaf.Seq, next)
			}
			next = leaf.Seq + leaf.Length
			v.rep.Gaps++
		}
		at := tlog.StoredHashCount(i)
		hashes = e.add(h, hashes[:0])
		for j, want := range hashes {
			got, c, err := snap.Get(key8(spaceHash, uint64(at+int64(j))))
			if err != nil || !bytes.Equal(got, want[:]) {
				v.bad(i, "a tree hash of leaf %d is wrong", i)
			}
			if err == nil {
				c.Close()
			}
		}
		prev = h
		if wanted[e.size] {
			roots[e.size] = e.root()
		}
		if len(chunk) == verifyChunk {
			flush()
			if progress != nil {
				progress(i+1, size)
			}
		}
	}
	flush()
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v.rep.Size = e.size
	root := e.root()
	v.rep.Root = base64.StdEncoding.EncodeToString(root[:])
	return roots, nil
}

// payloads checks that payloads are what their leaves commit to.
func (l *Log) payloads(ctx context.Context, snap *pebble.Snapshot, v *verification, leaves []Leaf) error {
	var good, forgotten int64
	keys := make(map[string]cipher.AEAD)
	for i := range leaves {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		leaf := &leaves[i]
		switch err := l.checkPayload(snap, keys, leaf); {
		case err == nil:
			good++
		case errors.Is(err, ErrForgotten):
			forgotten++
		default:
			v.bad(leaf.Index, "%v", err)
		}
	}
	v.mu.Lock()
	v.rep.Payloads += good
	v.rep.Forgotten += forgotten
	v.mu.Unlock()
	return nil
}

func (l *Log) checkPayload(r pebble.Reader, keys map[string]cipher.AEAD, leaf *Leaf) error {
	rec, c, err := r.Get(key8(spacePayload, uint64(leaf.Index)))
	if err != nil {
		return fmt.Errorf("the payload of leaf %d cannot be read: %w", leaf.Index, err)
	}
	defer c.Close()
	subject, box, err := splitRecord(rec)
	if err != nil {
		return fmt.Errorf("leaf %d: %w", leaf.Index, err)
	}
	a, ok := keys[subject]
	if !ok {
		if a, err = l.vault.open(r, subject); err != nil {
			return fmt.Errorf("leaf %d: %w", leaf.Index, err)
		}
		keys[subject] = a
	}
	salt, p, err := unseal(a, leaf.Index, box)
	if err != nil {
		return fmt.Errorf("leaf %d: %w", leaf.Index, err)
	}
	if Commit(salt, p) != leaf.Commitment || uint64(len(p)) != leaf.Length {
		return fmt.Errorf("the payload of leaf %d is not the one that it commits to", leaf.Index)
	}
	return nil
}

// heads holds what was recomputed against what was claimed.
func (v *verification) heads(want Head, cps []signed, roots map[int64]tlog.Hash) {
	if v.rep.FirstBad < 0 && (want.Entries != v.rep.Entries || want.Gaps != v.rep.Gaps || want.LastSeq != v.rep.LastSeq) {
		v.bad(max(v.rep.Size-1, 0), "the head record tells of %d entries up to %d and %d gaps", want.Entries, want.LastSeq, want.Gaps)
	}
	// Leaves that could not be read end the walk; the checkpoints behind that
	// place say nothing more.
	stopped := v.rep.FirstBad >= 0 && v.rep.Size < want.Size
	for _, c := range cps {
		root, ok := roots[c.size]
		switch {
		case !ok && stopped:
		case !ok:
			v.bad(v.rep.Size, "%s covers %d leaves, of which %d are there: the log was truncated", c.what, c.size, v.rep.Size)
		case root != c.root:
			v.bad(max(c.size-1, 0), "%s has another root than the %d leaves that are there", c.what, c.size)
		}
	}
}
