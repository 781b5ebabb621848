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

// stateFormat is the format of the state that this version writes. If you change the code so that it cannot read state
// in this format, add 1 and write a migration. Without a migration, a stage whose ledger was trimmed cannot be
// upgraded.
const stateFormat = 17

// formatKey holds the format of a state.
var formatKey = []byte{spaceMeta, 'f'}

// A Migration converts a partition's state from one format to the next. After an interruption, it runs again on a state
// that it has partly converted.
type Migration struct {
	// Exact is set if the result equals a fold of the whole ledger. If Exact is not set, the stage migrates only if the
	// ledger was trimmed, and otherwise folds the ledger again.
	Exact bool
	Do    func(st *State) error // nil: the state needs no change
}

// migrations are the migrations that all stages have in common, by the format from which they start. A migration in
// Config.Migrations for the same format replaces them.
var migrations = map[int]Migration{
	10: {Exact: true}, // ingest has a migration of its own
	11: {Exact: true}, // format 12 also records waiting entries, see waitingKey; in 11, the cursor stayed before them
	12: {Exact: true}, // format 13 also records for each content whether it is external; records of format 12 can be read
	13: {Exact: true}, // format 14 also stores the set of decided inputs, see loadDecided
	14: {Exact: true}, // ingest has a migration of its own
	15: {Exact: true}, // the arbiter has a migration of its own
	16: {Exact: true}, // ingest and the arbiter have migrations of their own
}

// laterVersion returns an error for a message that a later version of lazaret wrote, because this version cannot read
// it. It looks at messages of ingest, of the arbiter and of the stage named by own. Messages of other stages cause no
// error.
func laterVersion(a *arrival, own string) error {
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

// checkLedger returns an error if a later version has written to the ledger. own is the stage's name; empty for a
// follower, which writes no entries.
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
		if err := laterVersion(a, own); err != nil {
			return err
		}
	}
	return nil
}

// readFormat returns the format of the state in the store, or 0 if the store is new.
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

// openState opens the state and migrates it to stateFormat.
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
			return fmt.Errorf("the stage state in %s has format %d, which this version cannot convert, and the ledger was "+
				"trimmed up to %d, so the state cannot be rebuilt from the ledger: use the version that wrote the state",
				cfg.Dir, from, trimmed)
		}
	}
	r.log.Info("migrating the state", "from", from, "to", stateFormat)
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

// anewIfUnsealed starts with an empty state if the existing one was written by a version that did not seal states, and
// if no ledger entries are missing. The old state is deleted. err is the error of opening it.
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
		return fmt.Errorf("the stage state in %s was written by an old version, which did not encrypt states, and the "+
			"ledger was trimmed up to %d, so the state cannot be rebuilt from it: use that version: %w", r.cfg.Dir, trimmed, err)
	}
	r.log.Warn("the state was written by an old version, which did not encrypt states; it is rebuilt from the ledger",
		"dir", r.cfg.Dir)
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

// beginAnew replaces the state by an empty one, because the whole ledger can be folded again. from is the old format.
func (r *runtime) beginAnew(from int) (err error) {
	r.log.Warn("the state was written by an earlier version; it is rebuilt from the ledger", "format", from, "to",
		stateFormat)
	if err := errors.Join(r.store.dropSnapshot(), r.store.close(), r.store.fs.RemoveAll(r.cfg.Dir)); err != nil {
		return err
	}
	r.store, err = openStore(r.cfg.Dir, r.cfg.FS, r.cfg.Key)
	return err
}
