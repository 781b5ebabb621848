package arbiter

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// The kinds of timers. Of timers with the same time, the one whose kind is listed first fires first.
const (
	timerDeadline = 'd' // a group's deadline
	timerExpiry   = 'e' // a hold expires
	timerReaudit  = 'r' // a re-audit of the beliefs that may be served is due
	timerRecheck  = 's' // a subject has a new finding, and its open holds are to be checked again
)

// timers are the timers of a partition in memory, the earliest first. They are read from the state only once: a scan
// for the first timer steps over all keys that were deleted since the last compaction, so each verdict would make the
// next one slower.
type timers struct {
	known bool
	live  map[string]bool
	order keyHeap // live keys and some dropped ones
	// at, due and project cache the earliest timer while fresh is set. Adding or dropping a timer clears fresh.
	fresh   bool
	at      time.Time
	due     *streams.DueEntry
	project string
}

type keyHeap []string

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return cmp.Less(h[i], h[j]) }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(string)) }
func (h *keyHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// load reads the timers from the state.
func (t *timers) load(st *stage.State) error {
	if t.known {
		return nil
	}
	*t = timers{known: true, live: make(map[string]bool)}
	return st.Scan([]byte{keyTimer}, func(k, _ []byte) (bool, error) {
		if len(k) >= 10 {
			t.live[string(k)] = true
			t.order = append(t.order, string(k)) // a sorted slice is a heap
		}
		return true, nil
	})
}

func (t *timers) add(key []byte) {
	t.fresh = false
	if k := string(key); t.known && !t.live[k] {
		t.live[k] = true
		heap.Push(&t.order, k)
	}
}

func (t *timers) drop(key []byte) {
	t.fresh = false
	if !t.known {
		return
	}
	delete(t.live, string(key))
	if len(t.order) > 2*len(t.live)+64 {
		t.order = t.order[:0]
		for k := range t.live {
			t.order = append(t.order, k)
		}
		heap.Init(&t.order)
	}
}

// first returns the key of the earliest timer, or "".
func (t *timers) first() string {
	for len(t.order) > 0 && !t.live[t.order[0]] {
		heap.Pop(&t.order)
	}
	if len(t.order) == 0 {
		return ""
	}
	return t.order[0]
}

// holds returns the number of open holds: each has one expiry timer.
func (t *timers) holds() (n int) {
	for k := range t.live {
		// Holds of recorded sessions that are replayed are not counted.
		if k[9] == timerExpiry && !streams.IsSynthetic(k[10:]) {
			n++
		}
	}
	return n
}

func timeKey(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }

func timerKey(at time.Time, kind byte, what []byte) []byte {
	k := append([]byte{keyTimer}, timeKey(at)...)
	return append(append(k, kind), what...)
}

func (f *Fold) addTimer(st *stage.State, at time.Time, kind byte, what []byte) error {
	key := timerKey(at, kind, what)
	f.timers[st.Partition()].add(key)
	return st.Set(key, nil)
}

func (f *Fold) dropTimer(st *stage.State, at time.Time, kind byte, what []byte) error {
	if at.IsZero() {
		return nil
	}
	key := timerKey(at, kind, what)
	f.timers[st.Partition()].drop(key)
	return st.Delete(key)
}

// Timer implements stage.LedgerFold.
func (f *Fold) Timer(st *stage.State) (time.Time, *stage.Output, bool, error) {
	if err := f.countHolds(st); err != nil {
		return time.Time{}, nil, false, err
	}
	t := &f.timers[st.Partition()]
	if err := t.load(st); err != nil {
		return time.Time{}, nil, false, err
	}
	if !t.fresh {
		t.fresh, t.at, t.due, t.project = true, time.Time{}, nil, ""
		if k := []byte(t.first()); len(k) > 0 {
			t.at = time.Unix(0, int64(binary.BigEndian.Uint64(k[1:]))).UTC()
			t.due = &streams.DueEntry{Until: t.at}
			switch what := k[10:]; k[9] {
			case timerDeadline:
				t.due.Proposal = binary.BigEndian.Uint64(what)
			case timerExpiry:
				t.project, t.due.Hold, _ = cut(what)
			case timerReaudit:
				t.project, t.due.Reaudit = streams.SystemProject, true
			case timerRecheck:
				var under string
				t.project, under, _ = cut(what)
				if err := recheckDue(st, t.project, under, t.due); err != nil {
					t.fresh = false
					return time.Time{}, nil, false, err
				}
			}
		}
	}
	if t.due == nil {
		return time.Time{}, nil, false, nil
	}
	out, err := stage.NewOutput(streams.TypeDue, t.project, t.due)
	return t.at, out, true, err
}

// countHolds sets the number of open holds in the metrics to the number in the state, once for each partition and again
// after Reset.
func (f *Fold) countHolds(st *stage.State) error {
	if f.Metrics == nil || f.counted[st.Partition()] {
		return nil
	}
	f.counted[st.Partition()] = true
	t := &f.timers[st.Partition()]
	if err := t.load(st); err != nil {
		return err
	}
	n := t.holds()
	f.Metrics.Holds(n - f.holds[st.Partition()])
	f.holds[st.Partition()] = n
	return nil
}
