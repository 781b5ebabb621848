package stage

import (
	"slices"
	"sync"
)

// warmers is the number of concurrent lookups. They mostly wait for the disk.
const warmers = 4

// Warm calls fn with 0 to n-1, from several goroutines, and returns when all calls have returned. fn must not use the
// state, but only get, which is like State.Get. The values that get reads are cached, so that later calls of Get do not
// read the disk one after another. If a lookup fails, get reports no value, and the later Get returns the error.
func (st *State) Warm(n int, fn func(i int, get func(key []byte) (value []byte, ok bool))) {
	s, ok := st.s.(*store)
	if !ok || n < 2 {
		return
	}
	type pair struct {
		key, value []byte
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
					read[w] = append(read[w], pair{slices.Clone(full), v})
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
			s.remember(p.key, p.value, hashOf(p.key))
		}
	}
}

// peek is like get, but does not change the store. So several goroutines may call it while the stage's loop waits for
// them. fresh reports whether the value comes from the database.
func (s *store) peek(key []byte) (v []byte, ok, fresh bool) {
	hash := hashOf(key)
	if v, ok, known, _ := s.lookup(key, hash); known {
		return v, ok, false
	}
	if s.keys.absent(hash) {
		return nil, false, false
	}
	v, c, err := s.db.Get(key)
	if err != nil {
		return nil, false, false
	}
	v = slices.Clone(v)
	return v, true, c.Close() == nil
}
