package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// An entry of type erased lists entries that must be forgotten. Parts of the state, such as counts, clusters and the
// first origin of a value, do not record from which entries they were made. So the effects of the listed entries can be
// removed only by folding the partition again without them. The stage removes the partition's state, rewrites the
// files, starts again, and skips the listed entries. The stage does not publish its earlier decisions again, and they
// do not change.
//
// After the listed entries are deleted from the ledger, a fold gives the same state, because it folds the same entries.

// errRefold ends a stage's loop so that the stage starts again and folds a partition without its old state.
var errRefold = errors.New("the state of a partition must be rebuilt from the ledger")

// refoldKey marks a partition whose state must be removed. It is committed together with the state as it was just
// before the entry of type erased. withoutKey has the ledger sequence up to which entries of type erased apply from the
// beginning of the fold.
func refoldKey(p int) []byte  { return []byte{spaceMeta, 'r', byte(p)} }
func withoutKey(p int) []byte { return []byte{spaceMeta, 'w', byte(p)} }

// erasures has the entries that the fold of a partition skips.
type erasures struct {
	upTo uint64            // entries of type erased up to this ledger sequence apply from the beginning of the fold
	gone map[uint64]string // ledger sequence of an entry to skip → its project
}

// skips reports whether the fold skips an entry.
func (r *runtime) skips(e *streams.Entry) bool {
	return r.erasures[e.Partition].gone[e.Seq] == e.Project && e.Project != "" && !e.Type.Statement()
}

// runs runs a stage's loop, and runs it again whenever the loop ends with errRefold. It calls cfg.Ready only once.
func runs(cfg Config, run func(cfg Config) error) error {
	ready := cfg.Ready
	cfg.Ready = func() {
		if ready != nil {
			ready()
			ready = nil
		}
	}
	for {
		err := run(cfg)
		if errors.Is(err, errRefold) {
			continue
		}
		if err != nil && cfg.Stats != nil {
			cfg.Stats.Ready.Store(false)
		}
		return err
	}
}

// loadErasures removes the state of partitions that must be folded again, and loads the entries that each partition
// skips. decidedTo is called for a partition without state. It returns the ledger sequence up to which the stage has
// decided. Entries of type erased up to that sequence apply from the beginning of the fold.
func (r *runtime) loadErasures(ctx context.Context, decidedTo func(p int) (uint64, error)) error {
	var scan bool
	wiped := false
	for _, p := range r.cfg.Partitions {
		v, _, err := r.store.get(withoutKey(p))
		if err != nil {
			return err
		}
		if len(v) == 8 {
			r.erasures[p].upTo = binary.BigEndian.Uint64(v)
		}
		mark, again, err := r.store.get(refoldKey(p))
		if err != nil {
			return err
		}
		if again {
			if trimmed, err := Hole(ctx, r.js, 1); err != nil {
				return err
			} else if trimmed > 0 {
				return &TrimmedError{Stream: streams.LedgerStream, From: 1, First: trimmed + 1, Stage: r.cfg.Name}
			}
			prefix, waiting := []byte{spaceFold, byte(p)}, []byte{spaceMeta, 'h', byte(p)}
			r.cursors[p], r.decided[p] = cursor{}, decided{}
			if err := errors.Join(r.store.deleteRange(prefix, upperBound(prefix)), r.store.delete(refoldKey(p)),
				r.store.deleteRange(waiting, upperBound(waiting)),
				r.store.set(cursorKey(p), cursor{}.bytes()), r.store.delete(decidedKey(p)),
				r.store.set(eraseKey, nil)); err != nil {
				return err
			}
			wiped = true
		}
		if again || r.cursors[p] == (cursor{}) {
			to, err := decidedTo(p)
			if err != nil {
				return err
			}
			if len(mark) == 8 {
				to = max(to, binary.BigEndian.Uint64(mark))
			}
			if to > r.erasures[p].upTo {
				r.erasures[p].upTo = to
				if err := r.store.set(withoutKey(p), binary.BigEndian.AppendUint64(nil, to)); err != nil {
					return err
				}
			}
		}
		scan = scan || r.cursors[p].folded < r.erasures[p].upTo
	}
	if err := r.store.commit(); err != nil {
		return err
	}
	r.saved = r.cursors
	if wiped {
		r.log.Info("rebuilding the state from the ledger without the entries to forget")
		if err := r.store.rewriteErased(); err != nil {
			return err
		}
	}
	if !scan {
		return nil
	}
	return r.scanErasures(ctx)
}

// scanErasures reads the entries of type erased that apply from the beginning of a fold. Later entries of type erased
// are read by the fold itself.
func (r *runtime) scanErasures(ctx context.Context) error {
	var filters []string
	last := uint64(0)
	for _, p := range r.cfg.Partitions {
		if r.cursors[p].folded < r.erasures[p].upTo {
			filters = append(filters, streams.LedgerSubject(p, streams.StageIngest))
			last = max(last, r.erasures[p].upTo)
		}
	}
	err := Each(ctx, r.js, Span{Stream: streams.LedgerStream, Filters: filters, To: last, Headers: true},
		func(m jetstream.Msg, seq uint64, _ time.Time) error {
			if streams.Type(m.Headers().Get(streams.HeaderType)) != streams.TypeErased {
				return nil
			}
			raw, err := messageAt(ctx, r.js, streams.LedgerStream, seq)
			if err != nil {
				return err
			}
			e, err := wire.RawEntry(raw)
			if err == nil && e.Seq <= r.erasures[e.Partition].upTo {
				r.addErasure(&e)
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("reading which entries to forget: %w", err)
	}
	return nil
}

// addErasure adds the entries that e, an entry of type erased, lists. An entry can list only entries before itself.
func (r *runtime) addErasure(e *streams.Entry) {
	c := streams.Erasure(e.Body)
	if c == nil {
		return
	}
	x := &r.erasures[e.Partition]
	if x.gone == nil {
		x.gone = make(map[uint64]string)
	}
	for _, seq := range c.Entries {
		if seq < e.Seq {
			x.gone[seq] = e.Project
		}
	}
}

// refolds reports whether the partition must be folded again because of e: e is of type erased, and this fold has not
// skipped its entries from the beginning. An entry that was decided just now has Seq 0.
func (r *runtime) refolds(e *streams.Entry) bool {
	return e.Type == streams.TypeErased && e.Stage == streams.StageIngest && (e.Seq == 0 ||
		e.Seq > r.erasures[e.Partition].upTo) && streams.Erasure(e.Body) != nil
}

// refold marks the partition of e to be folded again. The mark is committed together with the state of the entries
// before e.
func (r *runtime) refold(e *streams.Entry) error {
	r.refolding = true
	return r.store.set(refoldKey(e.Partition), binary.BigEndian.AppendUint64(nil, e.Seq))
}
