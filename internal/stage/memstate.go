package stage

import (
	"bytes"
	"slices"
	"sort"
)

// NewMemState returns an empty state of one partition that is held in memory. It is for folds without a running stage,
// and for tests that return to an earlier state by Clone.
func NewMemState(partition int) *State {
	return &State{s: new(memory), partition: partition}
}

// Clone returns a copy of the state. The state must have been made by NewMemState.
func (st *State) Clone() *State {
	m := st.s.(*memory)
	return &State{s: &memory{keys: slices.Clone(m.keys), values: slices.Clone(m.values)}, partition: st.partition}
}

// memory is a kv in memory: a list of entries sorted by key. Keys and values are never modified in place.
type memory struct {
	keys, values [][]byte
}

func (m *memory) discards() int { return 0 }

func (m *memory) find(key []byte) (int, bool) {
	return sort.Find(len(m.keys), func(i int) int { return bytes.Compare(key, m.keys[i]) })
}

func (m *memory) get(key []byte) ([]byte, bool, error) {
	if i, ok := m.find(key); ok {
		return slices.Clone(m.values[i]), true, nil
	}
	return nil, false, nil
}

func (m *memory) set(key, value []byte) error {
	i, ok := m.find(key)
	if ok {
		m.values[i] = slices.Clone(value)
		return nil
	}
	m.keys = slices.Insert(m.keys, i, slices.Clone(key))
	m.values = slices.Insert(m.values, i, slices.Clone(value))
	return nil
}

func (m *memory) delete(key []byte) error {
	if i, ok := m.find(key); ok {
		m.keys, m.values = slices.Delete(m.keys, i, i+1), slices.Delete(m.values, i, i+1)
	}
	return nil
}

func (m *memory) deleteRange(from, to []byte) error {
	i, _ := m.find(from)
	j := len(m.keys)
	if to != nil {
		j, _ = m.find(to)
	}
	if i < j {
		m.keys, m.values = slices.Delete(m.keys, i, j), slices.Delete(m.values, i, j)
	}
	return nil
}

func (m *memory) scan(prefix []byte, fn func(key, value []byte) (bool, error)) error {
	return m.scanFrom(prefix, prefix, fn)
}

func (m *memory) scanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error {
	// Iterate over a copy, so that the scan does not see changes that fn makes.
	at, _ := m.find(from)
	end := at
	for end < len(m.keys) && bytes.HasPrefix(m.keys[end], prefix) {
		end++
	}
	keys, values := slices.Clone(m.keys[at:end]), slices.Clone(m.values[at:end])
	for i, k := range keys {
		if more, err := fn(k, slices.Clone(values[i])); err != nil || !more {
			return err
		}
	}
	return nil
}
