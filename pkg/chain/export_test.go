package chain

import "context"

// Flush writes what is in memory to tables.
func (l *Log) Flush() error { return l.db.Flush() }

// CompactAll rewrites all tables.
func (l *Log) CompactAll() error {
	return l.db.Compact(context.Background(), []byte{0}, []byte{255}, false)
}

func init() { blockSize = 4 << 10 }
