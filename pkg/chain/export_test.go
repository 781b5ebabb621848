package chain

import "context"

// Flush writes the records that are only in memory to tables.
func (l *Log) Flush() error { return l.db.Flush() }

// CompactAll rewrites all tables.
func (l *Log) CompactAll() error {
	return l.db.Compact(context.Background(), []byte{0}, []byte{255}, false)
}

// Written returns how many bytes were written to tables from memory, and how many bytes compactions wrote from tables
// to other tables.
func (l *Log) Written() (flushed, rewritten uint64) {
	for _, m := range l.db.Metrics().Levels {
		flushed += m.TableBytesFlushed
		rewritten += m.TableBytesCompacted
	}
	return flushed, rewritten
}

// Moved returns how many tables changed their level without being rewritten.
func (l *Log) Moved() int64 { return l.db.Metrics().Compact.MoveCount }

// SmallTables sets the size of the tables that logs write which are opened from now on. The returned function restores
// the usual size.
func SmallTables(bytes uint64) (undo func()) {
	was := memTableSize
	memTableSize = bytes
	return func() { memTableSize = was }
}

func init() { blockSize = 4 << 10 }

// Find calls fn for the leaves of all entries in the messages with the given ascending sequences.
func (l *Log) Find(seqs []uint64, fn func(i int64, leaf *Leaf)) error {
	return l.find(seqs, 0, l.Head().Size, fn)
}

// Follows reports whether the leaf may be at the position that next gives, see Leaf.follows.
func (l *Leaf) Follows(next uint64) bool { _, ok := l.follows(next); return ok }
