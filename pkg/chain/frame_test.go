package chain_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/chain"
	"lazaret/pkg/position"
)

// framed returns n entries as ledger messages give them. Some messages have several entries.
func framed(n int, seed uint64) []chain.Entry {
	r := rand.New(rand.NewPCG(seed, 0))
	var out []chain.Entry
	for seq := uint64(1); len(out) < n; seq++ {
		if r.IntN(9) == 0 {
			seq++ // a gap
		}
		for i := range 1 + r.IntN(4)*r.IntN(70) {
			p := position.At(seq, i)
			out = append(out, chain.Entry{Seq: p, Time: time.Unix(int64(seq), 0).UTC(), Type: "observation", Project: "p",
				Payload: fmt.Appendf(nil, "%d", p)})
		}
	}
	return out
}

// whole splits entries into batches of random size, but never splits the entries of one message.
func whole(entries []chain.Entry, r *rand.Rand) (batches [][]chain.Entry) {
	for from := 0; from < len(entries); {
		to := min(from+1+r.IntN(200), len(entries))
		for to < len(entries) && position.Index(entries[to].Seq) > 0 {
			to++
		}
		batches, from = append(batches, entries[from:to]), to
	}
	return batches
}

func TestEachEntryOfAMessageIsALeafOfItsOwn(t *testing.T) {
	entries := framed(3000, 1)
	var roots []string
	for seed := range uint64(2) {
		fs, k := vfs.NewMem(), newKey(t, "log")
		l := open(t, fs, "log", k)
		for _, b := range whole(entries, rand.New(rand.NewPCG(seed, 1))) {
			if err := l.Append(b); err != nil {
				t.Fatal(err)
			}
			if err := l.Append(b); err != nil { // the batch is already in the log
				t.Fatal(err)
			}
		}
		h := l.Head()
		roots = append(roots, h.Root.String())
		if h.Entries != int64(len(entries)) || h.LastSeq != position.Sequence(entries[len(entries)-1].Seq) || h.Gaps == 0 {
			t.Fatalf("the log has %d entries up to %d and %d gaps", h.Entries, h.LastSeq, h.Gaps)
		}
		for _, e := range entries {
			i, err := l.FindSeq(e.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if leaf, err := l.Leaf(i); err != nil || leaf.Seq != e.Seq {
				t.Fatalf("position %d is leaf %d of %d (%v)", e.Seq, i, leaf.Seq, err)
			}
		}
		last := entries[len(entries)-1].Seq
		if _, err := l.FindSeq(position.At(position.Sequence(last), position.Index(last)+1)); !errors.Is(err,
			chain.ErrRange) {
			t.Errorf("an entry behind the last of its message is found: %v", err)
		}
		// Find must find all entries of the listed messages, and no others.
		listed := []uint64{position.Sequence(entries[70].Seq), position.Sequence(entries[1500].Seq), h.LastSeq}
		want, got := 0, 0
		for _, e := range entries {
			if s := position.Sequence(e.Seq); s == listed[0] || s == listed[1] || s == listed[2] {
				want++
			}
		}
		if err := l.Find(listed, func(int64, *chain.Leaf) { got++ }); err != nil || got != want {
			t.Errorf("%d entries of the listed messages are found, want %d: %v", got, want, err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Entries != h.Entries ||
			rep.LastSeq != h.LastSeq {
			t.Fatalf("%+v", rep)
		}
	}
	if roots[0] != roots[1] {
		t.Error("other batches give another root")
	}
}

func TestALogTakesMessagesWholeAndInOrder(t *testing.T) {
	at := func(seq uint64, i int) chain.Entry {
		return chain.Entry{Seq: position.At(seq, i), Time: time.Unix(1, 0), Type: "observation", Project: "p"}
	}
	for name, entries := range map[string][]chain.Entry{
		"an entry of a message is missing":  {at(1, 0), at(1, 2)},
		"it begins within a message":        {at(1, 1)},
		"an entry comes twice":              {at(1, 0), at(1, 1), at(1, 1)},
		"a message comes back":              {at(1, 0), at(2, 0), at(1, 1)},
		"another message's entry goes on":   {at(1, 0), at(2, 1)},
		"an entry comes before the message": {at(2, 0), at(1, 0)},
	} {
		l := open(t, vfs.NewMem(), "log", newKey(t, "log"))
		if err := l.Append(entries); !errors.Is(err, chain.ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Verification must reject leaves in an order in which a log would never append them.
	for name, c := range map[string]struct {
		next uint64
		leaf chain.Leaf
		ok   bool
	}{
		"the next of the message": {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindEntry, Seq: position.At(3, 2)},
			true},
		"the next message": {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindEntry, Seq: 4}, true},
		"an index left out": {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindEntry, Seq: position.At(3, 3)},
			false},
		"an index again": {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindEntry, Seq: position.At(3, 1)},
			false},
		"a message without its first": {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindEntry, Seq: position.At(4, 1)},
			false},
		"a message behind a gap":          {4, chain.Leaf{Kind: chain.KindEntry, Seq: 4}, true},
		"a message goes on behind a gap":  {4, chain.Leaf{Kind: chain.KindEntry, Seq: position.At(3, 1)}, false},
		"the last of a gap again":         {4, chain.Leaf{Kind: chain.KindEntry, Seq: 3}, false},
		"a gap behind a message":          {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindGap, Seq: 4, Length: 2}, true},
		"a reset behind a message":        {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindReset, Seq: 3}, true},
		"a reset that forgets a message":  {4 + 2<<position.Bits, chain.Leaf{Kind: chain.KindReset, Seq: 2}, false},
		"sequence 0 at the beginning":     {1, chain.Leaf{Kind: chain.KindEntry, Seq: 0}, false},
		"a gap that is as long as can be": {1, chain.Leaf{Kind: chain.KindGap, Seq: 1, Length: ^uint64(0)}, false},
	} {
		if ok := c.leaf.Follows(c.next); ok != c.ok {
			t.Errorf("%s: %v, want %v", name, ok, c.ok)
		}
	}
}
