package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table finds the keys that were added to it and no others, however many of them have the same hash.
func TestATableFindsWhatAMapFinds(t *testing.T) {
	hashes := map[string]func(key []byte) uint64{
		"seeded":               hashOf,
		"always the same":      func([]byte) uint64 { return 0 },
		"equal lower halves":   func(k []byte) uint64 { return hashOf(k) >> 32 << 32 },
		"equal upper halves":   func(k []byte) uint64 { return hashOf(k) << 32 >> 32 },
		"at the index's end":   func([]byte) uint64 { return 1<<64 - 1 },
		"few different hashes": func(k []byte) uint64 { return uint64(k[len(k)-1]) * 0x0101010101010101 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var s store
			numbers := map[string]uint32{}
			for range 6000 {
				k := fmt.Appendf(nil, "key %d", r.IntN(2000))
				n, is := numbers[string(k)]
				got := s.table.find(k, hash(k))
				if (got != nil) != is || is && (got != &s.table.records[n] || got.key != string(k)) {
					t.Fatalf("%s: found %+v, want record %d, %v", k, got, n, is)
				}
				if r.IntN(3) == 0 {
					made, n := s.table.ensure(k, hash(k))
					if is && n != numbers[string(k)] || !is && int(n) != len(numbers) || made != &s.table.records[n] {
						t.Fatalf("%s is record %d of %d", k, n, len(numbers))
					}
					made.has[slotStored], numbers[string(k)] = true, n
				}
				if r.IntN(500) == 0 { // remove some records
					for i := range s.table.records {
						if rec := &s.table.records[i]; r.IntN(2) == 0 {
							rec.take(slotStored)
							delete(numbers, rec.key)
						} else {
							rec.used = true
						}
					}
					s.sweep()
					clear(numbers)
					for i := range s.table.records {
						numbers[s.table.records[i].key] = uint32(i)
					}
				}
				if 2*len(s.table.records) > len(s.table.index) {
					t.Fatalf("%d records, %d places", len(s.table.records), len(s.table.index))
				}
			}
		})
	}
}

// A sweep keeps the values that were read or just written, keeps all changes, and gives memory back.
func TestASweepKeepsWhatIsRead(t *testing.T) {
	s, err := openStore("state", vfs.NewMem(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	const n = 60_000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	for i := range n {
		if err := s.set(key(i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.commit(); err != nil { // writes them, because they are many
		t.Fatal(err)
	}
	s.sweep()
	if s.known != 0 || len(s.table.records) != 0 || len(s.table.index) != leastIndex || cap(s.table.records) > n/16 {
		t.Errorf("after a sweep there are %d bytes, %d records of %d and %d places", s.known, len(s.table.records),
			cap(s.table.records), len(s.table.index))
	}
	for i := range 10 {
		if v, ok, err := s.get(key(i)); !ok || err != nil || string(v) != "value" {
			t.Fatalf("%s is %q, %v, %v", key(i), v, ok, err)
		}
	}
	if err := errors.Join(s.set(key(5), []byte("sealed")), s.delete(key(6))); err != nil {
		t.Fatal(err)
	}
	s.seal()
	if err := errors.Join(s.set(key(5), []byte("pending")), s.set(key(n), []byte("pending"))); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	if got := len(s.table.records); got != 11 {
		t.Errorf("a sweep kept %d records, want the 10 that were read and a new one", got)
	}
	for i, want := range map[int]string{4: "value", 5: "pending", 6: "", n: "pending"} {
		if v, ok, err := s.get(key(i)); ok != (want != "") || err != nil || string(v) != want {
			t.Errorf("%s is %q, %v, %v; want %q", key(i), v, ok, err, want)
		}
	}
	if err := s.discard(); err != nil {
		t.Fatal(err)
	}
	s.sweep() // 5 and 6 were read while they had changes
	if v, ok, err := s.get(key(5)); !ok || err != nil || string(v) != "value" {
		t.Errorf("after a discard, %s is %q, %v, %v", key(5), v, ok, err)
	}
}

// Clients cannot choose keys with equal hashes. For the unseeded xxHash it is easy: the second of two stripes can undo
// the difference that the first one made.
func TestClientsCannotChooseEqualHashes(t *testing.T) {
	const p1, p2 uint64 = 11400714785074694791, 14029467366897019727
	inverse := func(x uint64) uint64 { // modulo 2^64, by Newton's method
		y := x
		for range 6 {
			y *= 2 - x*y
		}
		return y
	}
	round := func(acc, in uint64) uint64 { return bits.RotateLeft64(acc+in*p2, 31) * p1 }
	lane := p1
	lane += p2 // the first lane's state at the start
	var tab table
	seen := map[uint64]bool{}
	var first uint64
	const n = 1000
	for i := range uint64(n) {
		key := make([]byte, 64)
		binary.LittleEndian.PutUint64(key, i)
		undo := (bits.RotateLeft64(42*inverse(p1), -31) - round(lane, i)) * inverse(p2)
		binary.LittleEndian.PutUint64(key[32:], undo)
		if x := xxhash.Sum64(key); i == 0 {
			first = x
		} else if x != first {
			t.Fatalf("the keys have different xxHashes, so the test shows nothing")
		}
		seen[hashOf(key)] = true
		tab.ensure(key, hashOf(key))
	}
	if len(seen) != n || len(tab.records) != n {
		t.Errorf("%d keys have %d different hashes, %d records", n, len(seen), len(tab.records))
	}
}
