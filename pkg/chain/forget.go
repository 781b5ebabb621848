package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// eraser removes files that the store has done with. Unlike Pebble's own cleaner
// it lets no log be used again: a recycled one keeps, behind what is written
// over it, what it held before. Pebble asks the cleaner by a method that only
// its archiving one has.
type eraser struct {
	pebble.DeleteCleaner
	noRecycling
}

type noRecycling struct{ pebble.ArchiveCleaner }

// eraseTimeout bounds how long the removal of files may take once nothing needs
// them any more.
const eraseTimeout = 30 * time.Second

// Erase removes destroyed keys from the store's files: after it, no table and no
// log holds one, not even wrapped. Copies that Snapshot made share the older
// files and keep them; they have to be removed before. It is slow; appends and
// readers go on meanwhile.
func (l *Log) Erase(ctx context.Context) error {
	if err := l.db.Flush(); err != nil {
		return fmt.Errorf("erasing destroyed keys: %w", err)
	}
	if err := l.db.Compact(ctx, []byte{spaceKey}, []byte{spaceKey + 1}, false); err != nil {
		return fmt.Errorf("erasing destroyed keys: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	for {
		m := l.db.Metrics()
		if m.WAL.ObsoleteFiles == 0 && m.Table.ObsoleteCount == 0 && m.Table.ZombieCount == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("erasing destroyed keys: %d logs and %d tables are still there", m.WAL.ObsoleteFiles, m.Table.ObsoleteCount+m.Table.ZombieCount), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
