package chain

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

func TestTwoMessagesAtOnceHaveTheHashesOfEach(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	buf := make([]byte, 2*70_000)
	_, _ = r.Read(buf)
	check := func(a, b []byte) {
		t.Helper()
		if x, y := sum2(a, b); x != sha256.Sum256(a) || y != sha256.Sum256(b) {
			t.Fatalf("of %d and %d bytes the hashes are %x and %x, want %x and %x", len(a), len(b), x, y, sha256.Sum256(a), sha256.Sum256(b))
		}
	}
	// Every place of an end, each beside every other.
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
