package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// allOfLedger is the filter for every entry of the ledger.
const allOfLedger = "lz.ledger.>"

// HoleError reports that ledger entries are missing, and that no entry of the ledger explains why. A stage then stops.
// Its decisions would lack the effect of these entries, and a complete replay could decide differently.
type HoleError struct {
	From, To uint64 // range of the missing sequences
	Stage    string // the stage that found them missing
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("%[5]s: %[1]s lacks the entries %[2]d to %[3]d, which were neither trimmed nor forgotten. Stage "+
		"%[4]s stops here. Run lazaret audit verify --ledger to see the damage. Then restore the ledger from a "+
		"backup that has the entries, or the stage's state from a snapshot taken after them (lazaret state restore "+
		"%[4]s)",
		streams.LedgerStream, e.From, e.To, e.Stage, streams.CodeHole)
}

// forgettings has the ledger's statements about entries that may have been removed. The statement that explains why
// entries are missing comes after them, so a fold notices the gap first. So the statements are read when a gap is
// found.
type forgettings struct {
	read    uint64              // sequence of the last message on ingest's subjects that was read
	listed  map[uint64]struct{} // sequences that entries of type erased list
	ordered []ordered           // orders to forget projects
}

// ordered is an order to forget a project. An entry of type forgotten has it.
type ordered struct {
	at     uint64             // sequence of the order's entry
	upTo   uint64             // last sequence that the order covers; 0 in an earlier format that names no sequences
	ranges []streams.SeqRange // sequences of the project's entries
	// Until this time, other stages may still write entries that they derive from the project's entries.
	late time.Time
}

// explains reports whether the order may have removed the entry with sequence seq. before is the time stamp of the
// entry before the missing ones.
//
// An order names the sequences of the project's entries. Entries that other stages derive from these entries are
// removed too. Stages may add derived entries until the time late, under sequences that the order cannot name. An order
// of an earlier version names no sequences, so it explains every missing entry before it, and every one that may have
// been added until the time late.
func (o *ordered) explains(seq uint64, before time.Time) bool {
	late := !before.After(o.late)
	if o.upTo == 0 {
		return seq < o.at || late
	}
	return streams.InRanges(o.ranges, seq) || seq > o.upTo && late
}

// follow reads the statements that were added since its last call.
func (f *forgettings) follow(ctx context.Context, js jetstream.JetStream) error {
	if f.listed == nil {
		f.listed = make(map[uint64]struct{})
	}
	filters := []string{streams.LedgerStageFilter(streams.StageIngest)}
	span := Span{Stream: streams.LedgerStream, Filters: filters, From: f.read + 1, Headers: true}
	err := Each(ctx, js, span, func(m jetstream.Msg, seq uint64, at time.Time) error {
		typ := streams.Type(m.Headers().Get(streams.HeaderType))
		if typ == streams.TypeForgotten || typ == streams.TypeErased {
			raw, err := messageAt(ctx, js, streams.LedgerStream, seq)
			if err != nil {
				return err
			}
			e, err := wire.RawEntry(raw)
			if err == nil {
				f.add(&e)
			}
		}
		f.read = seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading which ledger entries were ordered to be forgotten: %w", err)
	}
	return nil
}

// add adds one statement: an entry of type forgotten or erased.
func (f *forgettings) add(e *streams.Entry) {
	if e.Type == streams.TypeForgotten {
		o := ordered{at: e.Seq, late: e.Time.Add(statement.LateFor)}
		if c := streams.Ordered(e.Body); c != nil {
			o.upTo, o.ranges = c.UpTo, c.Ranges
		}
		f.ordered = append(f.ordered, o)
		return
	}
	if c := streams.Erasure(e.Body); c != nil {
		for _, s := range c.Entries {
			if s < e.Seq {
				f.listed[s] = struct{}{}
			}
		}
	}
}

// explain returns the first sequence in [from, to] that no statement explains, or 0. before is the time stamp of the
// entry before from.
func (f *forgettings) explain(from, to uint64, before time.Time) uint64 {
	for seq := from; seq <= to; seq++ {
		_, ok := f.listed[seq]
		if !ok && !slices.ContainsFunc(f.ordered, func(o ordered) bool { return o.explains(seq, before) }) {
			return seq
		}
	}
	return 0
}

// timeBefore returns the time stamp of the last existing entry before seq, or zero if the ledger has none. It does not
// ask the server for entries that a statement names as removed.
func (f *forgettings) timeBefore(ctx context.Context, js jetstream.JetStream, seq uint64) (time.Time, error) {
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return time.Time{}, err
	}
	for first := st.CachedInfo().State.FirstSeq; seq > first; {
		seq--
		if _, gone := f.listed[seq]; gone {
			continue
		}
		if from := f.from(seq); from > 0 {
			seq = from
			continue
		}
		m, err := messageAt(ctx, js, streams.LedgerStream, seq)
		if err == nil {
			return m.Time, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil
}

// from returns the start of the range of an order that contains seq, or 0 if no order names seq.
func (f *forgettings) from(seq uint64) uint64 {
	for _, o := range f.ordered {
		if i := slices.IndexFunc(o.ranges, func(r streams.SeqRange) bool { return r.From <= seq && seq <= r.To }); i >= 0 {
			return o.ranges[i].From
		}
	}
	return 0
}

// following is how far a stage has read the ledger.
type following struct {
	next uint64    // next expected sequence
	at   time.Time // time stamp of the last message that was read; zero if none
}

// checkFollows returns nil if a message directly follows the one that was read before it, or if every entry between
// them was forgotten. While the server does not answer, checkFollows waits. A stage that reads only some partitions
// sees gaps all the time. For such a stage, checkFollows looks for no missing entries, because guard does that.
func (r *runtime) checkFollows(ctx context.Context, a *arrival) error {
	if err := laterVersion(a, r.cfg.Name); err != nil {
		return err
	}
	e := a.first()
	if r.all() && e.Seq > r.due.next {
		for {
			err := r.hole(ctx, r.due.next, e.Seq-1, r.due.at)
			if err == nil {
				break
			}
			if refusal(err) {
				return err
			}
			r.log.Warn("cannot check whether ledger entries are missing", "from", r.due.next, "to", e.Seq-1, "err", err)
			if err := sleep(ctx, reopenEvery); err != nil {
				return err
			}
		}
	}
	r.due = following{max(r.due.next, e.Seq+1), e.Time}
	return nil
}

// errPassedOver reports that the server did not deliver a ledger entry that it has.
var errPassedOver = errors.New("the server did not deliver a ledger entry that it has")

// refusal reports whether err means that the stage cannot get all ledger entries that it needs. The stage must then
// stop.
func refusal(err error) bool {
	var h *HoleError
	_, trimmed := asTrimmed(err)
	return trimmed || errors.As(err, &h) || errors.Is(err, errPassedOver)
}

// hole returns nil if statements explain why the entries in [from, to] are missing, and otherwise an error. before is
// the time stamp of the entry before from; it is zero if unknown.
func (r *runtime) hole(ctx context.Context, from, to uint64, before time.Time) error {
	if before.IsZero() {
		if err := r.forgets.follow(ctx, r.js); err != nil {
			return err
		}
		var err error
		if before, err = r.forgets.timeBefore(ctx, r.js, from); err != nil {
			return err
		}
	}
	seq := r.forgets.explain(from, to, before)
	if seq == 0 {
		return nil
	}
	if err := r.forgets.follow(ctx, r.js); err != nil {
		return err
	}
	if seq = r.forgets.explain(seq, to, before); seq == 0 {
		return nil
	}
	if err := r.marks.read(ctx, r.js, r.ignore); err != nil {
		return err
	}
	if r.marks.trimmed >= seq {
		return &TrimmedError{Stream: streams.LedgerStream, From: seq, First: r.marks.trimmed + 1, Stage: r.cfg.Name}
	}
	if _, err := messageAt(ctx, r.js, streams.LedgerStream, seq); err == nil {
		return fmt.Errorf("%w, %d: restart stage %s", errPassedOver, seq, r.cfg.Name)
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return &HoleError{From: seq, To: to, Stage: r.cfg.Name}
}

// endOfLedger returns the last ledger sequence of the stage's partitions. last is the end of the ledger as the stream
// reports it. endOfLedger first checks that the entries up to last exist, because a reader does not notice entries that
// are missing at the end.
func (r *runtime) endOfLedger(ctx context.Context, from, last uint64) (uint64, error) {
	if !r.all() {
		if err := r.checkComplete(ctx, from, last); err != nil {
			return 0, err
		}
		return lastOf(ctx, r.js, r.cfg.Partitions)
	}
	if from > last {
		return last, nil
	}
	m, err := lastOn(ctx, r.js, allOfLedger)
	if err != nil {
		return 0, err
	}
	there, at := uint64(0), time.Time{}
	if m != nil {
		there, at = m.Sequence, m.Time
	}
	if there >= last {
		return last, nil
	}
	return there, r.hole(ctx, max(from, there+1), last, at)
}

// checkComplete returns an error unless the ledger has all entries in [from, to], except forgotten ones. It counts the
// entries first, and reads them only if some are missing.
func (r *runtime) checkComplete(ctx context.Context, from, to uint64) error {
	if from > to {
		return nil
	}
	if gone, err := missing(ctx, r.js, from, to); err != nil || !gone {
		return err
	}
	due := following{next: from}
	span := Span{Stream: streams.LedgerStream, Filters: []string{allOfLedger}, From: from, To: to, Headers: true}
	err := Each(ctx, r.js, span, func(_ jetstream.Msg, seq uint64, at time.Time) error {
		if seq > due.next {
			if err := r.hole(ctx, due.next, min(seq-1, to), due.at); err != nil {
				return err
			}
		}
		due = following{seq + 1, at}
		return nil
	})
	if err == nil && due.next <= to {
		err = r.hole(ctx, due.next, to, due.at)
	}
	return err
}
