package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

func TestALimitLeavesRoomAboveWhatIsInUse(t *testing.T) {
	last := int64(0)
	for live := uint64(0); live < 64<<30; live = live*5/4 + 1<<20 {
		l := limit(live)
		if l < last || l < least || float64(l) < 1.7*float64(live) {
			t.Fatalf("a process with %d bytes in use may have %d", live, l)
		}
		last = l
	}
}

// The limit increases with the live heap, so that the process does not collect all the time.
func TestTheLimitFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	s := []metrics.Sample{{Name: live}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		t.Fatalf("this version of Go does not say %s", live)
	}
	held := make([]byte, 600<<20) // never written, so it takes no system memory
	runtime.GC()
	Keep(t.Context())
	if got := debug.SetMemoryLimit(-1); got < 900<<20 {
		t.Errorf("with 600 MiB in use the limit is %d", got)
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
	for end := time.Now().Add(time.Minute); debug.SetMemoryLimit(-1) >= 450<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the limit is still %d", debug.SetMemoryLimit(-1))
		}
	}
}

func TestWhoSetsALimitKeepsIt(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1GiB")
	before := debug.SetMemoryLimit(-1)
	Keep(t.Context())
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit was %d and is %d", before, got)
	}
}

// A process collects when it becomes idle, and not again before it has worked.
func TestAnIdleProcessCollectsOnce(t *testing.T) {
	var i idleness
	total := uint64(0)
	look := func(allocates uint64) bool {
		total += allocates
		return i.collect(total)
	}
	for round := range 3 {
		for range 20 {
			if look(calm + 1) {
				t.Fatal("it collects while it works")
			}
		}
		var at []int
		for n := 1; n <= 50; n++ {
			if look(calm) {
				at = append(at, n)
			}
		}
		if len(at) != 1 || at[0] != calmFor {
			t.Errorf("round %d: the idle process collects at checks %v", round, at)
		}
	}
}

// A sync.Pool keeps its objects over one collection. Release must empty the pool all the same.
func TestAReleaseEmptiesPools(t *testing.T) {
	var p sync.Pool
	p.Put(new([1 << 20]byte))
	Release()
	if p.Get() != nil {
		t.Error("the pool still has its buffer")
	}
}
