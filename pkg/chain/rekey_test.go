package chain_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/chain"
)

// The keys of one data subject are destroyed, and two of the subject's payloads shall stay. These two, and the payloads
// of other subjects, must stay readable. That must hold even if the destruction is repeated, as after a crash.
func TestPayloadsStayWhenTheKeysOfTheOthersAreDestroyed(t *testing.T) {
	k := newKey(t, "log")
	fs := vfs.NewMem()
	l := open(t, fs, "log", k)
	if err := l.Append(entries(1, 40)); err != nil {
		t.Fatal(err)
	}
	stay := []int64{32, 35} // two leaves of subject p0, which also has the leaves 2, 5, … 38
	for round := range 3 {
		n, err := l.DestroyKeys("p0", stay...)
		if want := map[bool]int{true: 1}[round == 0]; err != nil || n != want {
			t.Fatalf("round %d: %d keys, %v", round, n, err)
		}
		for i := int64(2); i < 40; i += 3 {
			_, err := l.Payload(i)
			if kept := i == 32 || i == 35; kept && err != nil || !kept && !errors.Is(err, chain.ErrForgotten) {
				t.Errorf("round %d, leaf %d: %v", round, i, err)
			}
		}
		if _, err := l.Payload(3); err != nil {
			t.Error(err) // the payload of another subject
		}
	}
	if _, err := l.DestroyKeys("p0", 3); err == nil {
		t.Error("another subject's payload was taken for this one's")
	}
	if err := l.Append(entries(41, 45)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified || rep.Forgotten != 11 {
		t.Errorf("%+v", rep)
	}
	l = open(t, fs, "log", k)
	defer l.Close()
	if n, err := l.DestroyKeys("p0"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := l.Payload(32); !errors.Is(err, chain.ErrForgotten) {
		t.Error(err)
	}
}
