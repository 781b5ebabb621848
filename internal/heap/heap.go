package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// least is the minimum of the limit, in bytes: the memory of a pipeline with little data at full
	// speed.
	least = 320 << 20
	// spare is added to 1¾ times the live heap. It covers fragmentation and the memory of the Go
	// runtime.
	spare = 64 << 20
	// step is the smallest change of the limit, in bytes. A change stops the program for some
	// microseconds.
	step = 16 << 20
	// every is the interval of adjustments. The limit may be too low for that long; the garbage
	// collector then uses at most half of the processors.
	every = 2 * time.Second
	// calm is the most that an idle process allocates per interval, in bytes; about ten verdicts.
	calm = 1 << 20
	// calmFor is the number of consecutive calm intervals of an idle process. It is longer than the 10
	// s for which the server caches stored messages.
	calmFor = 6
)

const (
	live      = "/gc/heap/live:bytes"
	allocated = "/gc/heap/allocs:bytes"
)

// limit returns the soft memory limit for a live heap of this size.
func limit(live uint64) int64 { return max(least, int64(live)+int64(live)/4*3+spare) }

// Keep adjusts the limit until ctx ends. It does nothing if GOMEMLIMIT or GOGC is set.
func Keep(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	set := follow(0)
	go func() {
		var idle idleness
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				set = follow(set)
				s := []metrics.Sample{{Name: allocated}}
				if metrics.Read(s); s[0].Value.Kind() == metrics.KindUint64 && idle.collect(s[0].Value.Uint64()) {
					Release()
				}
			}
		}
	}()
}

// Release collects and returns free memory to the system. It collects twice because sync.Pool releases
// its objects at the second collection.
func Release() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	trim()
}

// follow sets a new limit if the current one differs from it by more than step. It returns the limit.
func follow(set int64) int64 {
	s := []metrics.Sample{{Name: live}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return set // not in this version of Go
	}
	if want := limit(s[0].Value.Uint64()); want-set >= step || set-want >= step {
		debug.SetMemoryLimit(want)
		set = want
	}
	return set
}

// idleness detects when a process has become idle.
type idleness struct {
	allocated uint64 // total at the last check
	calm      int    // checks since the last work
}

// collect reports whether the process has just become idle.
func (i *idleness) collect(allocated uint64) bool {
	worked := allocated-i.allocated > calm
	if i.allocated = allocated; worked {
		i.calm = 0
	} else {
		i.calm++
	}
	return i.calm == calmFor
}
