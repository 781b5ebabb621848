package chain_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"lazaret/pkg/chain"
)

var master = bytes.Repeat([]byte{7}, 32)

type keypair struct {
	signer   note.Signer
	verifier note.Verifiers
}

func newKey(t testing.TB, name string) keypair {
	t.Helper()
	sk, vk, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(sk)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vk)
	if err != nil {
		t.Fatal(err)
	}
	return keypair{s, note.VerifierList(v)}
}

// entry returns the n-th entry of a generated ledger. For the same n, it always returns the same entry.
func entry(n uint64) chain.Entry {
	sum := sha256.Sum256(fmt.Append(nil, n))
	e := chain.Entry{Seq: n, Time: time.Unix(1_700_000_000, int64(n)).UTC(), Type: "observation",
		Project: fmt.Sprintf("p%d", n%3),
		Payload: bytes.Repeat(sum[:], int(n%20))}
	copy(e.Salt[:], sum[:])
	return e
}

func entries(from, to uint64) []chain.Entry {
	var out []chain.Entry
	for n := from; n <= to; n++ {
		out = append(out, entry(n))
	}
	return out
}

func open(t testing.TB, fs vfs.FS, dir string, k keypair) *chain.Log {
	t.Helper()
	l, err := chain.Open(dir, chain.Options{FS: fs, Signer: k.signer, MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func verify(t testing.TB, fs vfs.FS, dir string, k keypair, against []byte) chain.Report {
	t.Helper()
	rep, err := chain.VerifyDir(context.Background(), dir, chain.Options{FS: fs, MasterKey: master},
		chain.VerifyOptions{Verifiers: k.verifier, Against: earlier(against)})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func earlier(cp []byte) [][]byte {
	if cp == nil {
		return nil
	}
	return [][]byte{cp}
}

func TestTheTreeIsTheOneOfTlog(t *testing.T) {
	k := newKey(t, "log")
	rapid.Check(t, func(rt *rapid.T) {
		l := open(t, vfs.NewMem(), "log", k)
		defer l.Close()
		n := uint64(0)
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			m := n + uint64(rapid.IntRange(1, 40).Draw(rt, "batch"))
			if err := l.Append(entries(n+1, m)); err != nil {
				rt.Fatal(err)
			}
			n = m
		}
		h := l.Head()
		root, err := tlog.TreeHash(h.Size, l)
		if err != nil || root != h.Root || h.Size != int64(n) || h.LastSeq != n {
			rt.Fatalf("head %+v, tlog says %v, %v", h, root, err)
		}
		i := rapid.Int64Range(0, h.Size-1).Draw(rt, "leaf")
		p, err := l.ProveInclusion(i, h.Size)
		if err != nil {
			rt.Fatal(err)
		}
		leaf, err := l.Leaf(i)
		if err != nil {
			rt.Fatal(err)
		}
		raw, err := chain.AppendLeaf(nil, &leaf)
		if err != nil {
			rt.Fatal(err)
		}
		if err := tlog.CheckRecord(p, h.Size, h.Root, i, tlog.RecordHash(raw)); err != nil {
			rt.Fatal(err)
		}
		old := rapid.Int64Range(1, h.Size).Draw(rt, "old")
		oldRoot, err := tlog.TreeHash(old, l)
		if err != nil {
			rt.Fatal(err)
		}
		tp, err := l.ProveConsistency(old, h.Size)
		if err != nil {
			rt.Fatal(err)
		}
		if err := tlog.CheckTree(tp, h.Size, h.Root, old, oldRoot); err != nil {
			rt.Fatal(err)
		}
		payload, err := l.Payload(i)
		if err != nil || !bytes.Equal(payload, entry(uint64(i)+1).Payload) {
			rt.Fatalf("payload %d is %x, %v", i, payload, err)
		}
	})
}

func TestRootsDependOnEntriesAlone(t *testing.T) {
	a, b := newKey(t, "a"), newKey(t, "b")
	one := open(t, vfs.NewMem(), "log", a)
	defer one.Close()
	two, err := chain.Open("log", chain.Options{FS: vfs.NewMem(), Signer: b.signer, MasterKey: bytes.Repeat([]byte{9},
		32)})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if err := one.Append(entries(1, 100)); err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 100; n += 7 {
		// A restarted follower appends up to three entries again that the log already has. They must have no effect.
		if err := two.Append(entries(n-min(n-1, 3), min(n+6, 100))); err != nil {
			t.Fatal(err)
		}
	}
	if one.Head().Root != two.Head().Root {
		t.Error("two logs of the same entries have different roots")
	}
}

func TestMissingSequencesBecomeALeaf(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	if err := l.Append(append(entries(3, 5), entries(9, 10)...)); err != nil {
		t.Fatal(err)
	}
	h := l.Head()
	if h.Gaps != 2 || h.Entries != 5 || h.Size != 7 {
		t.Errorf("head is %+v", h)
	}
	leaf, err := l.Leaf(4)
	if err != nil || leaf.Kind != chain.KindGap || leaf.Seq != 6 || leaf.Length != 3 {
		t.Errorf("leaf 4 is %+v, %v", leaf, err)
	}
	if err := l.Append([]chain.Entry{entry(12), entry(11)}); !errors.Is(err, chain.ErrOrder) {
		t.Errorf("entries with descending sequences: %v, want ErrOrder", err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Gaps != 2 {
		t.Errorf("report is %+v", rep)
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	k, dir := newKey(t, "log"), t.TempDir()
	l := open(t, nil, dir, k)
	defer l.Close()
	if _, err := chain.Open(dir, chain.Options{Signer: k.signer, MasterKey: master}); !errors.Is(err, chain.ErrLocked) {
		t.Errorf("the second process got %v", err)
	}
	if _, err := chain.VerifyDir(context.Background(), dir, chain.Options{MasterKey: master},
		chain.VerifyOptions{}); !errors.Is(err, chain.ErrLocked) {
		t.Errorf("a verifier got %v", err)
	}
}

func TestASnapshotVerifiesWhileTheLogGoesOn(t *testing.T) {
	k, dir := newKey(t, "log"), t.TempDir()
	l := open(t, nil, dir, k)
	defer l.Close()
	if err := l.Append(entries(1, 50)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(51, 60)); err != nil {
		t.Fatal(err)
	}
	snap := filepath.Join(t.TempDir(), "snap")
	if err := l.Snapshot(snap); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(61, 70)); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, nil, snap, k, nil); rep.Status != chain.Verified || rep.Size != 60 || rep.Payloads != 60 {
		t.Errorf("report is %+v", rep)
	}
}

func TestWithoutKeysAVerificationIsIncomplete(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	if err := l.Append(entries(1, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	k.verifier = nil
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Incomplete {
		t.Errorf("report is %+v", rep)
	}
}

// build makes a log of n entries in dir. It signs a checkpoint after a third of the entries and one at the end, and
// returns the first one.
func build(t *testing.T, dir string, k keypair, n uint64) []byte {
	t.Helper()
	l := open(t, nil, dir, k)
	if err := l.Append(entries(1, n/3)); err != nil {
		t.Fatal(err)
	}
	early, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(n/3+1, n)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return early
}

// alter changes the records of a log's store directly, as an attacker with the disk can.
func alter(t *testing.T, dir string, f func(db *pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(dir, "store"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest,
		Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOneAlteredByteOfAnyRecordIsFound(t *testing.T) {
	k := newKey(t, "log")
	dir := t.TempDir()
	build(t, dir, k, 60)
	var keys [][]byte
	alter(t, dir, func(db *pebble.DB) error {
		it, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			keys = append(keys, append([]byte(nil), it.Key()...))
		}
		return it.Close()
	})
	rng := rand.New(rand.NewPCG(3, 4))
	for _, key := range keys {
		var old []byte
		alter(t, dir, func(db *pebble.DB) error {
			v, c, err := db.Get(key)
			if err != nil {
				return err
			}
			old = append([]byte(nil), v...)
			c.Close()
			bad := append([]byte(nil), v...)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			return db.Set(key, bad, pebble.Sync)
		})
		if rep := verify(t, nil, dir, k, nil); rep.Status != chain.Failed || rep.FirstBad < 0 {
			t.Errorf("with a bit of record %q flipped the report is %+v", key, rep)
		}
		alter(t, dir, func(db *pebble.DB) error { return db.Set(key, old, pebble.Sync) })
	}
	if rep := verify(t, nil, dir, k, nil); rep.Status != chain.Verified {
		t.Errorf("with everything put back the report is %+v", rep)
	}
}

func TestTheFirstBadIndexIsNamed(t *testing.T) {
	k := newKey(t, "log")
	for _, c := range []struct {
		part  byte
		index byte
	}{{'L', 17}, {'P', 41}} {
		dir := t.TempDir()
		l := open(t, nil, dir, k)
		for n := uint64(1); n <= 60; n++ {
			if err := l.Append(entries(n, n)); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		alter(t, dir, func(db *pebble.DB) error {
			key := []byte{c.part, 0, 0, 0, 0, 0, 0, 0, c.index}
			v, cl, err := db.Get(key)
			if err != nil {
				return err
			}
			bad := append([]byte(nil), v...)
			cl.Close()
			bad[len(bad)-40] ^= 1
			return db.Set(key, bad, pebble.Sync)
		})
		rep := verify(t, nil, dir, k, nil)
		if rep.Status != chain.Failed || rep.FirstBad != int64(c.index) {
			t.Errorf("%c %d altered: first bad %d, %v", c.part, c.index, rep.FirstBad, rep.Problems)
		}
	}
}

func TestARewrittenLogIsConvictedByAnEarlierCheckpoint(t *testing.T) {
	k := newKey(t, "log")
	honest := t.TempDir()
	early := build(t, honest, k, 60)
	// An attacker with the log's own key replaces the log by another one.
	forged := t.TempDir()
	l := open(t, nil, forged, k)
	es := entries(1, 60)
	es[7].Payload = []byte("nothing happened")
	if err := l.Append(es); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if rep := verify(t, nil, forged, k, nil); rep.Status != chain.Verified {
		t.Fatalf("the forgery is not even consistent: %+v", rep)
	}
	if rep := verify(t, nil, forged, k, early); rep.Status != chain.Failed {
		t.Errorf("held against the earlier checkpoint the forgery is %+v", rep)
	}
	if rep := verify(t, nil, honest, k, early); rep.Status != chain.Verified {
		t.Errorf("held against its own checkpoint the log is %+v", rep)
	}
	other := newKey(t, "log")
	if rep := verify(t, nil, honest, other, nil); rep.Status != chain.Failed {
		t.Errorf("with another key's signatures expected the log is %+v", rep)
	}
}

// TestAlteredFilesAreFound flips bytes of the files. Some bytes carry no data: padding, and obsolete versions of
// records. So the test does not demand that each flip is found. But if a log verifies, its records must be unchanged.
func TestAlteredFilesAreFound(t *testing.T) {
	k := newKey(t, "log")
	dir := t.TempDir()
	build(t, dir, k, 300)
	// Move the data from the write-ahead log into tables.
	alter(t, dir, func(db *pebble.DB) error {
		return errors.Join(db.Flush(), db.Compact(context.Background(), []byte{0}, []byte{255}, false))
	})
	var want [32]byte
	sum := func() (s [32]byte, err error) {
		l, err := chain.Open(dir, chain.Options{MasterKey: master, ReadOnly: true})
		if err != nil {
			return s, err
		}
		defer l.Close()
		h := sha256.New()
		err = l.Range(0, l.Head().Size, func(i int64, leaf chain.Leaf) error {
			b, err := chain.AppendLeaf(nil, &leaf)
			h.Write(b)
			p, perr := l.Payload(i)
			h.Write(p)
			return errors.Join(err, perr)
		})
		return [32]byte(h.Sum(nil)), err
	}
	want, err := sum()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "store", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	failed := 0
	for range 120 {
		path := tables[rng.IntN(len(tables))]
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at, bit := rng.IntN(len(b)), byte(1)<<rng.IntN(8)
		b[at] ^= bit
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		rep := verify(t, nil, dir, k, nil)
		if rep.Status == chain.Failed {
			failed++
			if rep.FirstBad < 0 {
				t.Errorf("failed without an index: %+v", rep)
			}
		} else if got, err := sum(); err != nil || got != want {
			t.Errorf("byte %d of %s flipped: records differ (%v) and the report is %+v", at, filepath.Base(path), err, rep)
		}
		b[at] ^= bit
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 100 {
		t.Errorf("only %d of 120 flips were found", failed)
	}
}

func FuzzDecodeLeaf(f *testing.F) {
	b, _ := chain.AppendLeaf(nil, &chain.Leaf{Kind: chain.KindEntry, Index: 1, Seq: 2, Type: "t", Project: "p"})
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := chain.DecodeLeaf(b)
		if err != nil {
			return
		}
		again, err := chain.AppendLeaf(nil, &l)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which is %x (%v)", b, l, again, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	k := newKey(b, "log")
	l := open(b, nil, b.TempDir(), k)
	defer l.Close()
	payload := bytes.Repeat([]byte("0123456789abcdef"), 64)
	const batch = 1000
	es := make([]chain.Entry, batch)
	n := uint64(0)
	b.SetBytes(batch * int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		for i := range es {
			n++
			es[i] = chain.Entry{Seq: n, Time: time.Unix(0, int64(n)), Type: "observation", Project: "p", Payload: payload}
		}
		if err := l.Append(es); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "entries/s")
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// setMeta replaces a log's head record.
func setMeta(t *testing.T, fs vfs.FS, dir string, v []byte) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(dir, "store"), &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest,
		Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set([]byte{'M'}, v, pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkVerify(b *testing.B) {
	k, dir := newKey(b, "log"), b.TempDir()
	l := open(b, nil, dir, k)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 64)
	const n = 50_000
	es := make([]chain.Entry, n)
	for i := range es {
		es[i] = chain.Entry{Seq: uint64(i) + 1, Time: time.Unix(0, int64(i)+1), Type: "observation", Project: "p",
			Payload: payload}
	}
	for from := 0; from < n; from += 2500 {
		if err := l.Append(es[from : from+2500]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(); err != nil {
		b.Fatal(err)
	}
	l.Close()
	b.ReportAllocs()
	for b.Loop() {
		if rep := verify(b, nil, dir, k, nil); rep.Status != chain.Verified {
			b.Fatalf("%+v", rep)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "entries/s")
}
