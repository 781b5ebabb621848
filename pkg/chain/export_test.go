package chain

import "context"

// Flush writes what is in memory to tables.
func (l *Log) Flush() error { return l.db.Flush() }

// CompactAll rewrites all tables.
func (l *Log) CompactAll() error {
	return l.db.Compact(context.Background(), []byte{0}, []byte{255}, false)
}

// Written returns how many bytes were written to tables from memory, and how many from other
// tables.
func (l *Log) Written() (flushed, rewritten uint64) {
	for _, m := range l.db.Metrics().Levels {
		flushed += m.TableBytesFlushed
		rewritten += m.TableBytesCompacted
	}
	return flushed, rewritten
}

// Moved returns how many tables changed their level without being rewritten.
func (l *Log) Moved() int64 { return l.db.Metrics().Compact.MoveCount }

// SmallTables makes logs that are opened from now on write small tables. It returns a function that
// undoes this.
func SmallTables(bytes uint64) (undo func()) {
	was := memTableSize
	memTableSize = bytes
	return func() { memTableSize = was }
}

func init() { blockSize = 4 << 10 }

// Find calls fn for the leaves of the messages with these rising sequences.
func (l *Log) Find(seqs []uint64, fn func(i int64, leaf *Leaf)) error {
	return l.find(seqs, 0, l.Head().Size, fn)
}

// Follows reports whether the leaf may come next.
func (l *Leaf) Follows(next uint64) bool { _, ok := l.follows(next); return ok }
