package stage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// stateFormat is the format of the state that this version writes. If a change makes
// earlier state unreadable, add 1 and write a migration. Without a migration, a stage
// whose ledger was trimmed could not leave the previous version.
const stateFormat = 15

// formatKey holds the format of a state.
var formatKey = []byte{spaceMeta, 'f'}

// A Migration turns a partition's state of one format into the next format. It may run
// again on a state that an interrupted run left.
type Migration struct {
	// Exact is set if the result equals a fold of the ledger. If it is not set and the ledger was
	// not trimmed, the ledger is refolded instead.
	Exact bool
	Do    func(st *State) error // nil: nothing to do
}

// migrations are those of the state that all stages have, by their starting format. A stage's own
// migrations run before them.
var migrations = map[int]Migration{
	10: {Exact: true}, // except for ingest
	11: {Exact: true}, // before, the cursor was before waiting entries; now they are stored
	12: {Exact: true}, // now ingest's sightings record whether a content is foreign; old ones can be read
	13: {Exact: true}, // see loadDecided
	14: {Exact: true}, // except for ingest
}

// later returns an error for a message that a later version of ingest, of the arbiter or
// of this stage wrote. Messages of other stages are not refused.
func later(a *arrival, own string) error {
	var e *streams.LaterError
	if a.err == nil || !errors.As(a.err, &e) {
		return nil
	}
	switch s := a.first().Stage; s {
	case streams.StageIngest, streams.StageArbiter, streams.StageJoint, own:
		return e
	}
	return nil
}

// checkLedger refuses a ledger that a later version has written to.
func checkLedger(ctx context.Context, js jetstream.JetStream, own string) error {
	for _, s := range []string{streams.StageIngest, streams.StageArbiter, streams.StageJoint, own} {
		if s == "" { // a follower writes no entries
			continue
		}
		m, err := lastOn(ctx, js, streams.LedgerStageFilter(s))
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		a := new(arrival)
		a.entries, a.err = streams.ParseEntries(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
		if err := later(a, own); err != nil {
			return err
		}
	}
	return nil
}

// readFormat returns the format of the state in a store, or 0 for a new store.
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
		return 0, &streams.LaterError{What: "the stage state in " + s.dir, Have: int(v[0]), Read: stateFormat}
	}
	return int(v[0]), nil
}

// openState opens the state and migrates it to the current format.
func (r *runtime) openState(ctx context.Context) (err error) {
	cfg := &r.cfg
	r.store, err = openStore(cfg.Dir, cfg.FS, cfg.Key)
	if errors.Is(err, ErrSealed) {
		err = r.anewIfUnsealed(ctx, err)
	}
	if err != nil {
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
			return fmt.Errorf("the stage state in %s has format %d, from which this version cannot migrate, and the ledger "+
				"was trimmed up to %d: go on with the version that wrote it",
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
			if err := r.store.commit(); err != nil {
				return err
			}
		}
	}
	r.store.format = stateFormat
	return errors.Join(r.store.set(formatKey, []byte{stateFormat}), r.store.commit(), r.store.flush())
}

// anewIfUnsealed starts with an empty state if the existing one was written before states were
// sealed, and if no ledger entries are missing. It does not use the old state. err is the error of
// opening the state.
func (r *runtime) anewIfUnsealed(ctx context.Context, err error) error {
	fs := r.cfg.FS
	if fs == nil {
		fs = vfs.Default
	}
	if was, uerr := unsealed(fs, r.cfg.Dir); uerr != nil || !was {
		return errors.Join(err, uerr)
	}
	trimmed, herr := Hole(ctx, r.js, 1)
	if herr != nil {
		return herr
	}
	if trimmed > 0 {
		return fmt.Errorf("the stage state in %s was written by a version before state was sealed, and the ledger was "+
			"trimmed up to %d: go on with that version: %w", r.cfg.Dir, trimmed, err)
	}
	r.log.Warn("the state is of a version before state was sealed, and is folded from the ledger anew", "dir", r.cfg.Dir)
	if err := errors.Join(fs.RemoveAll(SnapshotDir(r.cfg.Dir)), fs.RemoveAll(r.cfg.Dir)); err != nil {
		return err
	}
	r.store, err = openStore(r.cfg.Dir, r.cfg.FS, r.cfg.Key)
	return err
}

// unsealed reports whether a folder has a manifest in plaintext.
func unsealed(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if sealedKindOf(name) != sealedManifest {
			continue
		}
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			return false, err
		}
		magic := make([]byte, len(sealedMagic))
		_, err = io.ReadFull(f, magic)
		if cerr := f.Close(); cerr != nil {
			return false, cerr
		}
		if err == nil && string(magic) != sealedMagic {
			return true, nil
		}
	}
	return false, nil
}

// beginAnew deletes a state that can be refolded from the ledger.
func (r *runtime) beginAnew(from int) (err error) {
	r.log.Warn("the state is of an earlier version, and is folded from the ledger anew", "format", from, "to", stateFormat)
	if err := errors.Join(r.store.dropSnapshot(), r.store.close(), r.store.fs.RemoveAll(r.cfg.Dir)); err != nil {
		return err
	}
	r.store, err = openStore(r.cfg.Dir, r.cfg.FS, r.cfg.Key)
	return err
}
