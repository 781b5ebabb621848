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

// allOfLedger matches every entry.
const allOfLedger = "lz.ledger.>"

// HoleError reports that ledger entries are missing and that no entry of the ledger explains why. A
// stage does not continue without them, because its decisions would not follow from the ledger.
type HoleError struct {
	From, To uint64 // range of the missing sequences
	Stage    string
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("%[5]s: %[1]s lacks the entries %[2]d to %[3]d, which were neither trimmed nor forgotten: stage "+
		"%[4]s does not fold on "+
		"over them: see what lazaret audit verify --ledger finds, and restore the ledger from a backup that has "+
		"them, or the "+
		"stage's state from a snapshot that lies behind them (lazaret state restore %[4]s)",
		streams.LedgerStream, e.From, e.To, e.Stage, streams.CodeHole)
}

// forgettings has the ledger's statements about entries that may have been removed. They are read
// when a hole is found, because a fold from the beginning reaches the hole before the statement.
type forgettings struct {
	read    uint64              // last ingest message that was read
	listed  map[uint64]struct{} // sequences listed in erased entries
	ordered []ordered           // orders to forget projects
}

// ordered is an order to forget a project.
type ordered struct {
	at     uint64 // sequence of its entry
	upTo   uint64 // 0 in an order of an earlier version, which names no sequences
	ranges []streams.SeqRange
	late   time.Time // until then, other stages may write derived entries
}

// explains reports whether the entry with a sequence may have been removed because of the order.
// before is the time of the entry before it.
//
// An order names the sequences of the project's entries. Entries that other stages derive from them
// are removed too. They have later sequences and come soon after. An order of an earlier version
// names no sequences and explains every missing entry before it.
func (o *ordered) explains(seq uint64, before time.Time) bool {
	late := !before.After(o.late)
	if o.upTo == 0 {
		return seq < o.at || late
	}
	return streams.InRanges(o.ranges, seq) || seq > o.upTo && late
}

// follow reads the statements since the last call.
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
		return fmt.Errorf("looking for statements about missing entries: %w", err)
	}
	return nil
}

// add adds a statement.
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

// explain returns the first sequence of a range that no statement explains, or 0. before is the
// time of the entry before the range.
func (f *forgettings) explain(from, to uint64, before time.Time) uint64 {
	for seq := from; seq <= to; seq++ {
		_, ok := f.listed[seq]
		if !ok && !slices.ContainsFunc(f.ordered, func(o ordered) bool { return o.explains(seq, before) }) {
			return seq
		}
	}
	return 0
}

// timeBefore returns the time of the last entry before a sequence that the ledger still has, or zero
// if it has none. It does not ask for entries that a statement names as removed.
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

// from returns the start of the range with seq that an order names, or 0.
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
	at   time.Time // time stamp of the last message; zero if none was read
}

// follows returns an error unless a message directly follows the one before it, or the entries
// between them were forgotten. If the server does not answer, it waits. A stage that reads only
// some partitions relies on guard instead.
func (r *runtime) follows(ctx context.Context, a *arrival) error {
	if err := later(a, r.cfg.Name); err != nil {
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

// errPassedOver reports that the server skipped an entry that it has.
var errPassedOver = errors.New("the server skipped a ledger entry that it has")

// refusal reports whether an error means that the ledger has a hole.
func refusal(err error) bool {
	var h *HoleError
	_, trimmed := asTrimmed(err)
	return trimmed || errors.As(err, &h) || errors.Is(err, errPassedOver)
}

// hole determines why ledger entries are missing, and returns an error if nothing explains it.
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
		return fmt.Errorf("%w, %d: start stage %s again", errPassedOver, seq, r.cfg.Name)
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return &HoleError{From: seq, To: to, Stage: r.cfg.Name}
}

// ending returns the last ledger sequence of the stage's partitions. It first checks that no
// entries are missing up to last, the reported end of the ledger, where a reader would not notice
// it.
func (r *runtime) ending(ctx context.Context, from, last uint64) (uint64, error) {
	if !r.all() {
		if err := r.holds(ctx, from, last); err != nil {
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

// holds returns an error unless the ledger has all entries in a range, except forgotten ones. It
// counts the entries, and reads them only if some are missing.
func (r *runtime) holds(ctx context.Context, from, to uint64) error {
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
