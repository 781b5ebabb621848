package stage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"lazaret/pkg/position"
	"lazaret/streams"
)

func (s *store) get(key []byte) ([]byte, bool, error) {
	s.work.Gets++
	hash := hashOf(key)
	v, ok, known, r := s.lookup(key, hash)
	if known {
		if r != nil {
			r.used = true
		}
		return v, ok, nil
	}
	if s.keys.absent(hash) {
		return nil, false, nil
	}
	v, c, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading stage state: %w", err)
	}
	out := append([]byte(nil), v...)
	s.remember(key, out, hash)
	return out, true, c.Close()
}

func (s *store) scan(prefix []byte, fn func(key, value []byte) (bool, error)) error {
	return s.scanFrom(prefix, prefix, fn)
}

func (s *store) scanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) (err error) {
	if err := s.flush(); err != nil {
		return err
	}
	if s.view == nil {
		s.view = s.db.NewIndexedBatch()
		// Apply the changes in pending after those in sealed, because pending may delete keys that sealed sets.
		err := errors.Join(s.write(&s.sealed, s.view, nil, new([]entry)),
			s.write(&s.pending, s.view, nil, new([]entry)))
		if err != nil {
			return err
		}
	}
	it, err := s.lend(from, upperBound(prefix))
	if err != nil {
		return fmt.Errorf("scanning stage state: %w", err)
	}
	s.scanned = true
	s.work.Scans++
	defer func() {
		n := it.Stats()
		s.work.Steps += uint64(n.ForwardStepCount[pebble.InternalIterCall])
		it.ResetStats()
		if s.it == it {
			s.lent = false
		} else {
			err = errors.Join(err, it.Close())
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		more, err := fn(it.Key(), it.Value())
		if err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// lend returns an iterator over a range of keys. That is the existing iterator s.it or, while a scan is using s.it, a
// new one. When the caller has finished, it must set s.lent to false if the iterator is s.it, and otherwise close the
// iterator.
func (s *store) lend(from, to []byte) (*pebble.Iterator, error) {
	if s.it != nil && !s.lent {
		s.it.SetBounds(from, to)
		s.lent = true
		return s.it, nil
	}
	it, err := s.view.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err == nil && s.it == nil {
		s.it, s.lent = it, true
	}
	return it, err
}

// upperBound returns the first key after all keys with the prefix, or nil if there is none.
func upperBound(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// cursor is the progress of a stage in one partition.
type cursor struct {
	folded uint64 // ledger sequence up to which the state has every entry
	// Sequence of the last message on the stage's ledger subject; the next publish must name it as the expected one.
	own uint64
	// Position of the input that the stage's last entry names: in the intake for ingest, in the ledger for other
	// stages.
	src uint64
}

func cursorKey(p int) []byte { return []byte{spaceMeta, 'c', byte(p)} }

func (s *store) cursors() (c [streams.Partitions]cursor, err error) {
	for p := range c {
		v, ok, err := s.get(cursorKey(p))
		if err != nil {
			return c, err
		}
		if !ok {
			continue
		}
		if len(v) != 24 {
			return c, fmt.Errorf("stage state: the cursor of partition %d is %d bytes, want 24: remove the state folder, it "+
				"is rebuilt from the ledger", p, len(v))
		}
		c[p] = cursor{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]), binary.BigEndian.Uint64(v[16:])}
	}
	return c, nil
}

func (c cursor) bytes() []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 24), c.folded)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, c.own), c.src)
}

// outboxKey returns the key of an output for the input at position src. The keys sort in the order of positions.
func outboxKey(p int, src uint64) []byte {
	k := binary.BigEndian.AppendUint64([]byte{spaceMeta, 'o', byte(p)}, position.Sequence(src))
	if i := position.Index(src); i > 0 {
		k = binary.BigEndian.AppendUint16(k, uint16(i))
	}
	return k
}

// quietLogger discards Pebble's log messages. Pebble's methods also return the errors of their calls.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)  {}
func (quietLogger) Errorf(string, ...any) {}
func (quietLogger) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}

// discard drops all changes since the last commit: the pending and the sealed ones.
func (s *store) discard() error {
	s.drops++
	s.undo(&s.pending)
	s.undo(&s.sealed)
	return s.closeView()
}
