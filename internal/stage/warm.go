package stage

import (
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// warmers is the number of concurrent lookups, which mostly wait for files.
const warmers = 4

// Warm calls fn for 0 to n-1 concurrently, and returns when all calls have returned. get is like
// State.Get. The values that it reads are cached, so that later Gets need not read files one by
// one. fn must not use the state otherwise. Warm is only an optimization: a failed lookup is
// repeated by the later Get, which returns its error.
func (st *State) Warm(n int, fn func(i int, get func(key []byte) (value []byte, ok bool))) {
	s, ok := st.s.(*store)
	if !ok || n < 2 {
		return
	}
	type pair struct {
		key   string
		value []byte
	}
	var wg sync.WaitGroup
	var read [warmers][]pair
	for w := range min(warmers, n) {
		wg.Go(func() {
			var full []byte
			get := func(key []byte) ([]byte, bool) {
				full = append(append(full[:0], spaceFold, byte(st.partition)), key...)
				v, ok, fresh := s.peek(full)
				if fresh {
					read[w] = append(read[w], pair{string(full), v})
				}
				return v, ok
			}
			for i := w; i < n; i += warmers {
				fn(i, get)
			}
		})
	}
	wg.Wait()
	for _, list := range read {
		for _, p := range list {
			if s.known.bytes < 2*flushBytes {
				s.known.put(p.key, change{v: p.value})
			}
		}
	}
}

// peek is like get, but changes nothing. It may be called from several goroutines while the loop
// waits for them. fresh reports whether the value comes from the database.
func (s *store) peek(key []byte) (v []byte, ok, fresh bool) {
	hash := xxhash.Sum64(key)
	for _, l := range [...]*layer{&s.pending, &s.sealed, &s.committed, &s.known} {
		if v, ok, known := l.get(key, hash); known {
			return v, ok, false
		}
	}
	if s.keys.absentHash(hash) {
		return nil, false, false
	}
	v, c, err := s.db.Get(key)
	if err != nil {
		return nil, false, false
	}
	v = slices.Clone(v)
	return v, true, c.Close() == nil
}
