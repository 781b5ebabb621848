package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// least is the minimum of the memory limit, in bytes. Even a pipeline with little data needs this
	// much at full speed.
	least = 320 << 20
	// spare is the number of bytes that limit adds to 1¾ times the live heap. It covers fragmentation and
	// the memory of the Go runtime.
	spare = 64 << 20
	// step is the smallest change of the limit, in bytes. A change stops the program for some
	// microseconds.
	step = 16 << 20
	// every is the interval of adjustments. If the heap grows, the limit may be too low until the next
	// adjustment; the garbage collector then uses at most half of the processors.
	every = 2 * time.Second
	// calm is the maximum number of bytes that a process allocates per interval if it is idle. About ten verdicts
	// allocate as much.
	calm = 1 << 20
	// calmFor is the number of consecutive calm intervals after which a process counts as idle. Together
	// they are longer than the 10 s for which the server caches stored messages.
	calmFor = 6
)

const (
	live      = "/gc/heap/live:bytes"
	allocated = "/gc/heap/allocs:bytes"
)

// limit returns the soft memory limit for a live heap of this size.
func limit(live uint64) int64 { return max(least, int64(live)+int64(live)/4*3+spare) }

// Keep adjusts the memory limit of the process until ctx ends. It does nothing if the environment variable GOMEMLIMIT
// or GOGC is set.
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

// Release runs the garbage collector and returns free memory to the system. It runs the collector twice, because
// sync.Pool releases its objects at the second collection.
func Release() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	trim()
}

// follow sets a new limit if the current one differs from it by more than step. It returns the limit.
func follow(set int64) int64 {
	s := []metrics.Sample{{Name: live}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return set // this version of Go does not have the metric
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
	calm      int    // number of checks since the process last worked
}

// collect reports whether the process has just become idle. allocated is the total of allocated bytes.
func (i *idleness) collect(allocated uint64) bool {
	worked := allocated-i.allocated > calm
	if i.allocated = allocated; worked {
		i.calm = 0
	} else {
		i.calm++
	}
	return i.calm == calmFor
}
