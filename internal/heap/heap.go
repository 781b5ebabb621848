package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// least is what a process may have in any case, in bytes: as much as a pipeline
	// has that works at full speed and knows little.
	least = 320 << 20
	// spare is what it may have besides 1¾ times what is in use: what lies between
	// objects, and what Go itself takes.
	spare = 64 << 20
	// step is how far off a limit has to be to be changed, in bytes: changing it stops
	// the program for some microseconds.
	step = 16 << 20
	// every is how often it is looked at. For as long a limit may be too low: Go gives
	// collection half of the processors at most then.
	every = 2 * time.Second
	// calm is how much an idle process allocates in that time at most, in bytes; some
	// ten verdicts.
	calm = 1 << 20
	// calmFor is how many times in a row it has to be calm: longer than the server
	// keeps what it stored, which is 10 s.
	calmFor = 6
)

const (
	live      = "/gc/heap/live:bytes"
	allocated = "/gc/heap/allocs:bytes"
)

// limit is how much a process may have that had so much in use after the last
// collection.
func limit(live uint64) int64 { return max(least, int64(live)+int64(live)/4*3+spare) }

// Keep keeps the limit until ctx ends. It does nothing where GOMEMLIMIT or GOGC is
// set: somebody knows better.
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
					debug.FreeOSMemory()
					trim()
				}
			}
		}
	}()
}

// follow sets the limit anew if the one that is set is far off, and returns what it
// is then.
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

// idleness tells when a process has become idle.
type idleness struct {
	allocated uint64 // at the last look, in all
	calm      int    // looks since the last work
	again     bool
}

// collect reports whether the process is to collect now: when it has become idle, and
// once more, since pools let go of what they hold at the second collection.
func (i *idleness) collect(allocated uint64) bool {
	worked := allocated-i.allocated > calm
	if i.allocated = allocated; worked {
		i.calm = 0
	} else {
		i.calm++
	}
	if i.again {
		i.again = false
		return true
	}
	i.again = i.calm == calmFor
	return i.again
}
