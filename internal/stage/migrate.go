package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"lazaret/streams"
)

// stateFormat is the format of the state that this version writes. Each change of what a stage
// keeps, which a state of before cannot be read by, adds 1 and a migration: without one a
// trimmed ledger would bind its stages to the version before.
const stateFormat = 12

// formatKey holds the format of a state.
var formatKey = []byte{spaceMeta, 'f'}

// A Migration makes the state of a partition, of one format, into state of the next one. It
// may be run again on what an interrupted one left.
type Migration struct {
	// Exact says that the result is what the fold of the ledger is. Otherwise a ledger that
	// is whole is folded anew.
	Exact bool
	Do    func(st *State) error // nil: there is nothing to do
}

// migrations are those of what all stages keep, by the format that they begin with. A stage's
// own come before.
var migrations = map[int]Migration{
	10: {Exact: true}, // but for ingest
	11: {Exact: true}, // entries that wait are noted: none are, and the cursor lies before them
}

// LaterError says that state or ledger was written by a later version.
type LaterError struct {
	What       string
	Have, Read int
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%s has format %d, and this version of lazaret reads up to %d: a later version wrote it; start that one, or a later one", e.What, e.Have, e.Read)
}

// readFormat is the format of the state in a store; 0 if it is new.
func (s *store) readFormat() (int, error) {
	v, c, err := s.db.Get(formatKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if len(v) != 1 {
		return 0, fmt.Errorf("the format of the stage state in %s is %v, want one byte", s.dir, v)
	}
	if int(v[0]) > stateFormat {
		return 0, &LaterError{What: "the stage state in " + s.dir, Have: int(v[0]), Read: stateFormat}
	}
	return int(v[0]), nil
}

// openState opens the state, and brings what an earlier version left to the present format.
func (r *runtime) openState(ctx context.Context) (err error) {
	cfg := &r.cfg
	if r.store, err = openStore(cfg.Dir, cfg.FS, cfg.Key); err != nil {
		return err
	}
	if r.store.format == stateFormat {
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.store.close())
		}
	}()
	from := r.store.format
	var todo []Migration
	exact, ok := true, true
	for f := from; f < stateFormat; f++ {
		m, own := cfg.Migrations[f]
		if !own {
			m, own = migrations[f]
		}
		todo, exact, ok = append(todo, m), exact && m.Exact, ok && own
	}
	if !exact || !ok {
		trimmed, err := Hole(ctx, r.js, 1)
		if err != nil {
			return err
		}
		if trimmed == 0 {
			return r.beginAnew(from)
		}
		if !ok {
			return fmt.Errorf("the stage state in %s has format %d, from which this version cannot migrate, and the ledger was trimmed up to %d: go on with the version that wrote it",
				cfg.Dir, from, trimmed)
		}
	}
	r.log.Info("state is migrated", "from", from, "to", stateFormat)
	for p := range streams.Partitions {
		for _, m := range todo {
			if m.Do == nil {
				continue
			}
			if err := m.Do(&State{s: r.store, partition: p}); err != nil {
				return fmt.Errorf("migrating stage state of format %d: %w", from, err)
			}
		}
	}
	r.store.format = stateFormat
	return errors.Join(r.store.set(formatKey, []byte{stateFormat}), r.store.commit(), r.store.flush())
}

// beginAnew throws away a state that the ledger leads to.
func (r *runtime) beginAnew(from int) (err error) {
	r.log.Warn("the state is of an earlier version, and is folded from the ledger anew", "format", from, "to", stateFormat)
	if err := errors.Join(r.store.dropSnapshot(), r.store.close(), r.store.fs.RemoveAll(r.cfg.Dir)); err != nil {
		return err
	}
	r.store, err = openStore(r.cfg.Dir, r.cfg.FS, r.cfg.Key)
	return err
}
