package chain_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/chain"
)

// TestDataIsWrittenTwiceAndNoMore: all data must be written only twice, once to the synced write-ahead log and once to
// a table. Tables must be moved between levels but never rewritten, however many there are.
func TestDataIsWrittenTwiceAndNoMore(t *testing.T) {
	defer chain.SmallTables(256 << 10)()
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	defer l.Close()
	payload := make([]byte, 1024)
	seq := uint64(0)
	for range 600 {
		es := entries(seq+1, seq+32)
		for i := range es {
			es[i].Payload = payload
		}
		if err := l.Append(es); err != nil {
			t.Fatal(err)
		}
		seq += 32
	}
	flushed, rewritten := l.Written()
	if flushed < 16<<20 || rewritten > flushed/10 || l.Moved() == 0 {
		t.Errorf("%d bytes flushed, %d rewritten, %d tables moved", flushed, rewritten, l.Moved())
	}
	t.Logf("%d bytes flushed, %d rewritten, %d tables moved", flushed, rewritten, l.Moved())
}

// TestTilesAreThoseOfTlog appends over several tiles and tile levels, in batches of all sizes, and
// reopens the log in between. It compares every tile with tlog.
func TestTilesAreThoseOfTlog(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	rng := rand.New(rand.NewPCG(7, 8))
	const last = 70_000 // a level-1 tile is full at 65,536
	for n := uint64(0); n < last; {
		m := min(n+1+uint64(rng.IntN(1<<rng.IntN(14))), last)
		if err := l.Append(entries(n+1, m)); err != nil {
			t.Fatal(err)
		}
		n = m
		if rng.IntN(8) == 0 {
			l.Close()
			l = open(t, fs, "log", k)
		}
	}
	h := l.Head()
	if h.Size != last {
		t.Fatalf("%d leaves", h.Size)
	}
	// tlog computes the same tree for comparison. stored has every hash that tlog stores.
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(x []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range x {
			out = append(out, stored[i])
		}
		return out, nil
	})
	if err := l.Range(0, h.Size, func(i int64, leaf chain.Leaf) error {
		raw, err := chain.AppendLeaf(nil, &leaf)
		if err != nil {
			return err
		}
		hs, err := tlog.StoredHashes(i, raw, read)
		stored = append(stored, hs...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if root, err := tlog.TreeHash(h.Size, read); err != nil || root != h.Root {
		t.Fatalf("root %v, tlog says %v, %v", h.Root, root, err)
	}
	tiles := tlog.NewTiles(chain.TileHeight, 0, h.Size)
	for _, tile := range tiles {
		want, err := tlog.ReadTileData(tile, read)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Tile(tile.L, tile.N, tile.W)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("tile %s: %v", tile.Path(), err)
		}
	}
	for _, x := range []struct {
		level int
		n     int64
		width int
	}{{0, 273, 113}, {1, 1, 18}, {2, 0, 2}, {0, -1, 1}, {3, 0, 1}, {0, 0, 0}, {0, 0, 257}, {9, 0, 1}} {
		if _, err := l.Tile(x.level, x.n, x.width); !errors.Is(err, chain.ErrRange) {
			t.Errorf("tile %+v: %v", x, err)
		}
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Size != last || rep.Payloads != last {
		t.Errorf("report is %+v", rep)
	}
}

func TestALedgerThatBeginsAnewBecomesALeaf(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	first, second := time.Unix(1000, 5).UTC(), time.Unix(2000, 7).UTC()
	for _, step := range []func() (bool, error){
		func() (bool, error) { return l.NewEpoch(first) },
		func() (bool, error) { return false, l.Append(entries(1, 5)) },
		func() (bool, error) { return l.NewEpoch(first) },
	} {
		if reset, err := step(); reset || err != nil {
			t.Fatal(reset, err)
		}
	}
	l.Close()
	l = open(t, fs, "log", k)
	if reset, err := l.NewEpoch(second); !reset || err != nil {
		t.Fatal(reset, err)
	}
	leaf, err := l.Leaf(5)
	if err != nil || leaf.Kind != chain.KindReset || leaf.Seq != 5 || !leaf.Time.Equal(second) {
		t.Errorf("leaf 5 is %+v, %v", leaf, err)
	}
	if err := l.Append(entries(1, 3)); err != nil {
		t.Fatal(err)
	}
	if h := l.Head(); h.Size != 9 || h.Resets != 1 || h.LastSeq != 3 || h.Entries != 8 || !h.Epoch.Equal(second) {
		t.Errorf("head is %+v", h)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Resets != 1 || rep.LastSeq != 3 {
		t.Errorf("report is %+v", rep)
	}
}

func TestWhatWasForgottenStaysForgottenWhenItsSubjectReturns(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	if err := l.Append(entries(1, 9)); err != nil {
		t.Fatal(err)
	}
	if n, err := l.DestroyKeys("p1"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := l.DestroyKeys("p1"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := l.Append(entries(10, 18)); err != nil {
		t.Fatal(err)
	}
	for i := range int64(18) {
		want := entry(uint64(i) + 1)
		p, err := l.Payload(i)
		switch {
		case want.Project == "p1" && i < 9:
			if !errors.Is(err, chain.ErrForgotten) {
				t.Errorf("payload %d: %v", i, err)
			}
		case err != nil || !bytes.Equal(p, want.Payload):
			t.Errorf("payload %d: %v", i, err)
		}
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Forgotten != 3 || rep.Payloads != 15 {
		t.Errorf("report is %+v", rep)
	}
}

// vkey is a signing key together with its public key as text.
type vkey struct {
	signer note.Signer
	text   string
}

func newVkey(t testing.TB, name string) vkey {
	t.Helper()
	sk, vk, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(sk)
	if err != nil {
		t.Fatal(err)
	}
	return vkey{s, vk}
}

func (k vkey) verifiers(t testing.TB) note.Verifiers {
	t.Helper()
	v, err := note.NewVerifier(k.text)
	if err != nil {
		t.Fatal(err)
	}
	return note.VerifierList(v)
}

func TestWhoTrustsTheFirstKeyFollowsItsHandovers(t *testing.T) {
	fs := vfs.NewMem()
	keys := []vkey{newVkey(t, "log"), newVkey(t, "log"), newVkey(t, "log")}
	l := open(t, fs, "log", keypair{signer: keys[0].signer})
	n := uint64(0)
	step := func() {
		t.Helper()
		n += 10
		if err := l.Append(entries(n-9, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if _, err := l.Handover(keys[1].signer, keys[2].text); err == nil {
		t.Error("a public key of somebody else was handed over to")
	}
	if _, err := l.Handover(keys[0].signer, keys[0].text); err == nil {
		t.Error("a key was handed over to itself")
	}
	for _, k := range keys[1:] {
		if _, err := l.Handover(k.signer, k.text); err != nil {
			t.Fatal(err)
		}
		step()
	}
	first := keypair{verifier: keys[0].verifiers(t)}
	rep := func(k keypair) chain.Report {
		t.Helper()
		l.Close()
		defer func() { l = open(t, fs, "log", keypair{signer: keys[2].signer}) }()
		return verify(t, fs, "log", k, nil)
	}
	if r := rep(first); r.Status != chain.Verified || r.Handovers != 2 || r.Signed != 30 {
		t.Errorf("report is %+v", r)
	}
	if r := rep(keypair{verifier: keys[2].verifiers(t)}); r.Status != chain.Failed {
		t.Errorf("with only the last key trusted, the report is %+v", r)
	}
	// Someone with the first key signs a checkpoint, although the log handed over to another key. The verification must
	// fail.
	l.Close()
	l = open(t, fs, "log", keypair{signer: keys[0].signer})
	step()
	if r := rep(first); r.Status != chain.Failed {
		t.Errorf("with a checkpoint by a key that was replaced the report is %+v", r)
	}
}

// replacedKey is a pinned key that was replaced when the log had `at` leaves.
type replacedKey struct {
	note.Verifier
	at int64
}

func (k replacedKey) ReplacedAt() int64 { return k.at }

func TestAReplacedKeySignsTreesUpToItsReplacementOnly(t *testing.T) {
	k := newVkey(t, "log")
	v, err := note.NewVerifier(k.text)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, vfs.NewMem(), "log", keypair{signer: k.signer})
	for size := int64(1); size <= 4; size++ {
		if err := l.Append(entries(uint64(size), uint64(size))); err != nil {
			t.Fatal(err)
		}
		cp, err := l.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		for at := range int64(6) {
			if _, err := chain.OpenCheckpoint(cp, note.VerifierList(replacedKey{v, at})); (err == nil) != (size <= at) {
				t.Errorf("a key that was replaced at size %d signs a tree of size %d: %v", at, size, err)
			}
		}
	}
}

// A key that was replaced must not be able to hand the log over to a further key, not even at the size at which it was
// replaced.
func TestAReplacedKeyHandsNothingOver(t *testing.T) {
	for _, more := range []uint64{0, 1} { // entries between the two handovers
		fs := vfs.NewMem()
		keys := []vkey{newVkey(t, "log"), newVkey(t, "log"), newVkey(t, "log")}
		l := open(t, fs, "log", keypair{signer: keys[0].signer})
		if err := l.Append(entries(1, 10)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Handover(keys[1].signer, keys[1].text); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, fs, "log", keypair{signer: keys[0].signer}) // an attacker has the first key
		if more > 0 {
			if err := l.Append(entries(11, 10+more)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Handover(keys[2].signer, keys[2].text); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, fs, "log", keypair{verifier: keys[0].verifiers(t)}, nil); r.Status != chain.Failed {
			t.Errorf("%d entries after its replacement, a key handed the log over: %+v", more, r)
		}
	}
}

func TestAStoreOfAnotherFormatIsNamed(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	if err := l.Append(entries(1, 3)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	setMeta(t, fs, "log", bytes.Repeat([]byte{1}, 41))
	if _, err := chain.Open("log", chain.Options{FS: fs, Signer: k.signer, MasterKey: master}); !errors.Is(err,
		chain.ErrFormat) {
		t.Errorf("it opens with %v", err)
	}
}

func TestTimesMayBeAnything(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 3), time.Unix(1<<33, 0)} {
		fs, k := vfs.NewMem(), newKey(t, "log")
		l := open(t, fs, "log", k)
		if err := l.Append([]chain.Entry{{Seq: 1, Time: at, Type: "t", Project: "p"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified {
			t.Errorf("%v: %+v", at, rep)
		}
	}
}

func TestASnapshotIsCoveredByACheckpointWhateverIsOnItsWay(t *testing.T) {
	k, fs := newKey(t, "test"), vfs.NewMem()
	l := open(t, fs, "log", k)
	if err := l.Append(entries(1, 10)); err != nil {
		t.Fatal(err)
	}
	wait, err := l.AppendNoWait(entries(11, 25))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Snapshot("copy"); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, fs, "copy", k, nil); r.Status != chain.Verified || r.Size != 25 || r.Signed != 25 {
		t.Errorf("the copy: %+v", r)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if h := l.Head(); h.Size != 25 {
		t.Errorf("the head is at %d", h.Size)
	}
	if err := l.Append(entries(26, 30)); err != nil {
		t.Fatal(err)
	}
	if h := l.Head(); h.Size != 30 {
		t.Errorf("the head is at %d", h.Size)
	}
	l.Close()
}

// TestMoreSubjectsThanKeysInMemory appends a batch with more data subjects than keys fit into memory. The batch's first
// subjects occur again at its end. All payloads must be readable afterwards.
func TestMoreSubjectsThanKeysInMemory(t *testing.T) {
	fs, k := vfs.NewMem(), newKey(t, "log")
	l := open(t, fs, "log", k)
	defer l.Close()
	const subjects = 5000
	for batch := range uint64(2) {
		es := entries(batch*2*subjects+1, (batch+1)*2*subjects)
		for i := range es {
			es[i].Subject = fmt.Sprintf("person %d", i%subjects)
		}
		if err := l.Append(es); err != nil {
			t.Fatal(err)
		}
	}
	for i := range l.Head().Size {
		if _, err := l.Payload(i); err != nil {
			t.Fatal(err)
		}
	}
}
