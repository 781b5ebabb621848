package chain

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestTwoMessagesAtOnceHaveTheHashesOfEach(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	buf := make([]byte, 2*70_000)
	_, _ = r.Read(buf)
	check := func(a, b []byte) {
		t.Helper()
		if x, y := sum2(a, b); x != sha256.Sum256(a) || y != sha256.Sum256(b) {
			t.Fatalf("of %d and %d bytes the hashes are %x and %x, want %x and %x", len(a), len(b), x, y, sha256.Sum256(a),
				sha256.Sum256(b))
		}
	}
	// Hash messages of each length from 0 to 199 together with messages of each such length, because the lengths need
	// different padding.
	for m := range 200 {
		for n := range 200 {
			check(buf[m:2*m], buf[1000+n:1000+2*n])
		}
	}
	for _, n := range []int{1023, 1024, 4096, 65_535, 70_000} {
		check(buf[:n], buf[n:2*n])
		check(buf[:n], buf[:3])
		check(nil, buf[:n])
	}
}

// Someone with the master key can replace a stored payload by another one, correctly encrypted. Verification must find
// the difference from the hash to which the leaf commits, at each position in a tile.
func TestAPayloadOfAnotherCommitmentIsFoundWhereverItStands(t *testing.T) {
	const n = TileWidth + 3
	for _, at := range []int64{0, 1, 2, TileWidth - 1, TileWidth, n - 2, n - 1} {
		l, err := Open("log", Options{FS: vfs.NewMem(), MasterKey: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		es := make([]Entry, n)
		for i := range es {
			es[i] = Entry{Seq: uint64(i) + 1, Time: time.Unix(0, int64(i)+1), Type: "observation", Project: "p",
				Payload: bytes.Repeat([]byte{byte(i)}, i%7*61)}
		}
		if err := l.Append(es); err != nil {
			t.Fatal(err)
		}
		key, err := l.vault.newest(l.db, "p")
		if err != nil {
			t.Fatal(err)
		}
		_, d := l.vault.draft(nil, key, "p", at, [16]byte{1}, es[at].Payload)
		k := indexKey(spacePayload, at)
		if err := l.db.Set(k[:], d.seal(key), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		rep, err := l.Verify(t.Context(), VerifyOptions{})
		if err != nil || rep.Status != Failed || rep.FirstBad != at || rep.Payloads != n-1 || len(rep.Problems) != 1 {
			t.Errorf("another payload of leaf %d: %+v, %v", at, rep, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Without //go:noescape at blocks2, each call moves its states and last blocks to the heap. A verification then takes half
// as much time again.
func TestHashingTwoMessagesAllocatesNothing(t *testing.T) {
	p := make([]byte, 1040)
	if n := testing.AllocsPerRun(100, func() { sum2(p, p[1:]) }); n != 0 {
		t.Errorf("sum2 allocates %v times, want 0", n)
	}
}

func FuzzTwoMessages(f *testing.F) {
	f.Add([]byte("abc"), []byte(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if x, y := sum2(a, b); x != sha256.Sum256(a) || y != sha256.Sum256(b) {
			t.Fatalf("the hashes of %x and %x are %x and %x", a, b, x, y)
		}
	})
}

func BenchmarkTwoMessages(b *testing.B) {
	p := make([]byte, 1040)
	b.SetBytes(2 * int64(len(p)))
	for b.Loop() {
		sum2(p, p)
	}
}

func BenchmarkOneMessage(b *testing.B) {
	p := make([]byte, 1040)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		sha256.Sum256(p)
	}
}
