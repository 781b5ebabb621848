package chain_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/proptest"
	"lazaret/pkg/chain"
	"lazaret/pkg/files/crashfs"
)

// reference has the root of the tree after each entry, as package tlog computes it, for comparison with the log.
type reference struct {
	stored []tlog.Hash
	roots  []tlog.Hash // by size
	prev   tlog.Hash
}

func (r *reference) ReadHashes(x []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range x {
		out = append(out, r.stored[i])
	}
	return out, nil
}

// root returns the reference tree's root after n entries.
func (r *reference) root(t *testing.T, n int64) tlog.Hash {
	t.Helper()
	for size := int64(len(r.roots)); size <= n; size++ {
		if size > 0 {
			e := entry(uint64(size))
			raw, err := chain.AppendLeaf(nil, &chain.Leaf{Kind: chain.KindEntry, Index: size - 1, Seq: e.Seq, Time: e.Time,
				Type: e.Type, Project: e.Project,
				Length: uint64(len(e.Payload)), Commitment: chain.Commit(e.Salt, e.Payload), Prev: r.prev})
			if err != nil {
				t.Fatal(err)
			}
			r.prev = tlog.RecordHash(raw)
			hs, err := tlog.StoredHashes(size-1, raw, r)
			if err != nil {
				t.Fatal(err)
			}
			r.stored = append(r.stored, hs...)
		}
		h, err := tlog.TreeHash(size, r)
		if err != nil {
			t.Fatal(err)
		}
		r.roots = append(r.roots, h)
	}
	return r.roots[n]
}

// TestACrashLosesNothingAcknowledged crashes the machine repeatedly, between and during appends. Each crash loses a
// random part of the unsynced data. The log must continue from the rest, and must still have every acknowledged entry.
func TestACrashLosesNothingAcknowledged(t *testing.T) {
	k := newKey(t, "log")
	crashes := proptest.Times(t, "LAZARET_CRASHES", 1000, 100)
	var want reference
	fs := crashfs.New()
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 2))
	t.Log("seed", seed)
	acked, signed := uint64(0), int64(0)
	inflight, survived, overlapped := 0, 0, 0
	const life = 100 // number of crashes after which a new log is made, because copying a large log is slow
	total := int64(0)
	for crash := range crashes {
		if crash%life == 0 && crash > 0 {
			total += intact(t, fs, k, acked)
			fs, acked, signed = crashfs.New(), 0, 0
		}
		l := open(t, fs, "log", k)
		h := l.Head()
		if h.LastSeq < acked || h.Size != int64(h.LastSeq) || h.Root != want.root(t, h.Size) {
			t.Fatalf("after crash %d the log ends at %d with %d leaves, acknowledged were %d", crash, h.LastSeq, h.Size, acked)
		}
		if h.LastSeq > acked {
			survived++
		}
		if signed > 0 {
			cp, err := chain.ParseCheckpoint(h.Checkpoint)
			if err != nil || cp.Size < signed || cp.Root != want.root(t, cp.Size) {
				t.Fatalf("after crash %d the last checkpoint is %+v, %v; signed was %d", crash, cp, err, signed)
			}
		}
		n := h.LastSeq
		acked = n // it was read back after the crash
		if n > 0 {
			if p, err := l.Payload(int64(n - 1)); err != nil || !bytes.Equal(p, entry(n).Payload) {
				t.Fatalf("after crash %d the last payload is %x, %v", crash, p, err)
			}
		}
		var clone *crashfs.Mem
		var flushing sync.WaitGroup
		type inFlight struct {
			to   uint64
			wait func() error
		}
		var waits []inFlight
		settle := func(i int) {
			w := waits[i]
			waits = slices.Delete(waits, i, i+1)
			if err := w.wait(); err != nil {
				t.Fatal(err)
			}
			if got := l.Head().LastSeq; got < w.to {
				t.Fatalf("the log's head is at %d, on disk is %d", got, w.to)
			}
			acked = max(acked, w.to)
		}
		for clone == nil {
			m := n + 1 + uint64(rng.IntN(1<<rng.IntN(9)))
			batch := entries(n+1, m)
			switch rng.IntN(8) {
			case 0: // the machine stops during an append
				done := make(chan error, 1)
				go func() { done <- l.Append(batch) }()
				for range rng.IntN(40) {
					runtime.Gosched()
				}
				clone = fs.Crash(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				inflight++
			case 1: // the machine stops right after an append
				if err := l.Append(batch); err != nil {
					t.Fatal(err)
				}
				n, acked = m, m
				clone = fs.Crash(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			case 2: // several appends are in progress
				wait, err := l.AppendNoWait(batch)
				if err != nil {
					t.Fatal(err)
				}
				n, waits = m, append(waits, inFlight{m, wait})
				if h := l.Head().LastSeq; h >= m {
					t.Fatalf("the head is at %d before %d is known to be on disk", h, m)
				}
				overlapped += len(waits) - 1
			case 3:
				if len(waits) > 0 {
					settle(rng.IntN(len(waits)))
				}
			case 4:
				if _, err := l.Checkpoint(); err != nil {
					t.Fatal(err)
				}
				signed = l.Head().Size
			case 5: // tables are written in the background
				flushing.Go(func() {
					if err := l.Flush(); err != nil {
						t.Error(err)
					}
				})
			default:
				if err := l.Append(batch); err != nil {
					t.Fatal(err)
				}
				n, acked = m, m
			}
		}
		before := acked
		for len(waits) > 0 {
			settle(0)
		}
		acked = before // the machine had stopped before
		flushing.Wait()
		l.Close()
		fs = clone
	}
	total += intact(t, fs, k, acked)
	t.Logf("%d crashes, %d of them within an append, of which %d survived; %d entries", crashes, inflight, survived, total)
	if inflight == 0 || survived == 0 || overlapped == 0 {
		t.Errorf("no crash came in the middle of an append, or there were never two appends at once (%d): the "+
			"test shows nothing", overlapped)
	}
}

// intact fails the test unless the log verifies and has every entry up to acked. It returns the number of leaves.
func intact(t *testing.T, fs vfs.FS, k keypair, acked uint64) int64 {
	t.Helper()
	l := open(t, fs, "log", k)
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	rep := verify(t, fs, "log", k, nil)
	if rep.Status != chain.Verified || rep.LastSeq < acked || rep.Gaps != 0 || rep.Payloads != rep.Size {
		t.Errorf("report is %+v, acknowledged were %d", rep, acked)
	}
	return rep.Size
}
