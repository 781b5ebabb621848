package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lazaret/streams"
)

// work decides queued messages in the partitions in which this process is active.
func (s *intakeStage) work(ctx context.Context) error {
	now := time.Now()
	active := false
	heads := s.heads()
	var oldest time.Time
	for _, p := range s.cfg.Partitions {
		head := heads[p]
		if !s.active[p] && head != nil && now.Sub(head.since) > s.cfg.Takeover && now.Sub(s.progress[p]) > s.cfg.Takeover {
			s.log.Info("taking over", "partition", p, "from", head.msg.Seq)
			s.stats.TakenOver.Add(1)
			s.active[p] = true
		}
		active = active || s.active[p]
		if s.active[p] && head != nil && (oldest.IsZero() || head.since.Before(oldest)) {
			oldest = head.since
		}
	}
	for _, p := range s.cfg.Partitions {
		if s.active[p] && heads[p] != nil {
			if ok, err := s.claim(ctx, p); !ok || err != nil {
				return err
			}
		}
	}
	s.owing(oldest)
	s.stats.Active.Store(active)
	s.stats.Waiting.Store(int64(s.queued + s.within))
	batch, ok := s.next(ctx, true)
	if ok && len(batch) == 0 {
		return nil
	}
	if !ok || !s.load(ctx, batch) {
		return sleep(ctx, 200*time.Millisecond)
	}
	one := len(batch) == 1 && batch[0].proposal()
	s.store.early = one && batch[0].msg.Address.Kind == streams.KindRecall
	if one && s.foresees() {
		if s.cfg.Joint != nil {
			if err := s.readOn(ctx); err != nil {
				return err
			}
			why, ok := s.joins(batch[0])
			if ok {
				return s.together(ctx, batch, s.cfg.Joint.ask(ctx, batch[0].msg.Address.Partition, s.known))
			}
			if why == AloneGroup {
				p := batch[0].msg.Address.Partition
				s.waited[p] = max(s.waited[p]-1, 0)
			}
			s.alone(why, batch...)
		}
		return s.foresee(ctx, batch)
	}
	s.alone(AloneLoad, batch...)
	if err := s.barrier(ctx, batch); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	if err := s.decide(ctx, batch); err != nil {
		return err
	}
	return s.again()
}

// mistaken is the number of proposals that are decided without speculation after one failed.
const mistaken = 16

// foresees reports whether to decide a proposal speculatively, before the end of the ledger is
// known. Under load, speculation mostly fails.
func (s *intakeStage) foresees() bool {
	s.blind = max(s.blind-1, 0)
	// The end is unknown if only some partitions are read. An empty ledger has no sequence to
	// expect.
	return s.blind == 0 && s.known > 0 && s.all()
}

// foresee decides a proposal with the entries read so far, and publishes the decision on the
// condition that the ledger ends there. That avoids asking for the end of the ledger first. If the
// ledger has more entries, the decision is dropped and made again after reading them.
func (s *intakeStage) foresee(ctx context.Context, batch []*queued) error {
	s.stats.Foreseen.Add(1)
	f := s.flight()
	f.end = s.known
	if err := s.admit(f, batch); err != nil {
		return err
	}
	if err := s.fly(ctx, f); err != nil {
		return err
	}
	return s.again()
}

// flight is a batch that was decided and is not known to be in the ledger.
type flight struct {
	entries []*streams.Entry
	outs    []*Admission
	at      uint64                               // last ledger sequence that was read before
	end     uint64                               // required last sequence of the ledger before the only entry; 0: any
	held    [streams.Partitions][]*streams.Entry // waiting entries of other stages before it
	batch   []*queued                            // its messages
	size    int                                  // size of its messages in bytes
	fences  [streams.Partitions]uint64
	n       int // number of entries that are certainly in the ledger
	err     error
	joint   []*streams.Entry // the entries of the joint frame; nil: there is none
}

// aheadMost is the maximum number of batches that are decided before the ledger is read again.
const aheadMost = 8

// decide admits a batch, publishes its entries and commits. Meanwhile it decides the next batch on
// top of it. If the fence was lost, it drops both.
func (s *intakeStage) decide(ctx context.Context, batch []*queued) error {
	f := s.flight()
	if err := s.admit(f, batch); err != nil {
		return err
	}
	return s.fly(ctx, f)
}

// fly is like decide, for an admitted batch.
func (s *intakeStage) fly(ctx context.Context, f *flight) error {
	for ahead := 0; len(f.entries) > 0; ahead++ {
		for p, c := range s.cursors {
			f.fences[p] = c.own
		}
		s.store.seal()
		f.gather()
		s.cfg.Feed.announce(f.entries, func(i int) any { return f.outs[i].Decided })
		landed := make(chan struct{})
		go func() {
			defer close(landed)
			f.n, f.err = f.publish(ctx, s.pub)
		}()
		next := s.flight()
		var err error
		if ahead < aheadMost {
			err = s.ahead(ctx, f, next, landed)
		}
		<-landed
		if err != nil {
			return err
		}
		if err := s.land(ctx, f); err != nil || f.err != nil {
			return err
		}
		f = next
	}
	// Nothing is being published now, so the files may be rewritten.
	return s.commit()
}

// gather groups the entries by partition, keeping their order, so that they can share messages.
func (f *flight) gather() {
	type decided struct {
		e   *streams.Entry
		out *Admission
	}
	all := make([]decided, len(f.entries))
	for i, e := range f.entries {
		all[i] = decided{e, f.outs[i]}
	}
	slices.SortStableFunc(all, func(a, b decided) int { return cmp.Compare(a.e.Partition, b.e.Partition) })
	for i, d := range all {
		f.entries[i], f.outs[i] = d.e, d.out
	}
}

// ahead decides queued and arriving messages while a batch is being published, up to the first
// proposal, which needs the current end of the ledger. Everything that has arrived is queued before
// each batch, so that a proposal gets its turn in the next batch.
func (s *intakeStage) ahead(ctx context.Context, f, next *flight, landed <-chan struct{}) error {
	for !s.erasing && !s.refolding && len(next.entries) < intakeBatch && next.size < intakeBatchBytes {
		if err := s.drainIntake(); err != nil {
			return err
		}
		batch, ok := s.next(ctx, false)
		if !ok || !s.load(ctx, batch) {
			return nil
		}
		if len(batch) > 0 {
			if len(next.entries) == 0 {
				s.stats.Ahead.Add(1)
			}
			if err := s.admit(next, batch); err != nil {
				return err
			}
		}
		select {
		case <-landed:
			return nil
		default:
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-landed:
			return nil
		case m := <-s.arriving():
			if err := s.take(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish adds the entries to the ledger and returns the result of publisher.publish.
func (f *flight) publish(ctx context.Context, pub *publisher) (int, error) {
	if f.end == 0 || len(f.entries) != 1 {
		return pub.publish(ctx, f.entries, func(i int) string { return f.outs[i].Together }, &f.fences)
	}
	if err := pub.atEnd(ctx, f.entries[0], &f.fences, f.end); err != nil {
		return 0, err
	}
	return 1, nil
}

func (s *intakeStage) flight() *flight { return &flight{at: s.read, held: s.foreign} }

// admit decides messages and applies the decisions.
func (s *intakeStage) admit(f *flight, batch []*queued) error {
	s.prepare(batch)
	for _, q := range batch {
		p := q.msg.Address.Partition
		if !s.active[p] || s.unsure[p] || s.decided[p].has(q.msg.Position()) {
			continue // another process has decided it, or a joint frame with the decision may still come
		}
		if err := s.applyForeign(p, f.at); err != nil {
			return err
		}
		out, err := s.judge(p, q)
		if err == nil {
			out, err = s.fits(p, q.msg, out)
		}
		if err != nil {
			return fmt.Errorf("stage %s, intake message %d: %w", s.cfg.Name, q.msg.Seq, err)
		}
		e := &streams.Entry{Partition: p, Stage: s.cfg.Name, Type: out.Type, Project: out.Project,
			Src: q.msg.Position(), At: f.at, Salt: streams.NewSalt(), Body: out.Body}
		if err := s.apply(e, out.Decided); err != nil {
			return err
		}
		f.entries, f.outs = append(f.entries, e), append(f.outs, out)
		f.batch, f.size = append(f.batch, q), f.size+q.size
		q.line.flown++
		if s.refolding {
			return nil // the rest is decided after the refold
		}
	}
	return nil
}

// judge lets the fold admit a message, or reject one that is shed.
func (s *intakeStage) judge(p int, q *queued) (*Admission, error) {
	if q.why != nil {
		return s.fold.Reject(s.states[p], q.msg, q.why)
	}
	return s.fold.Admit(s.states[p], q.msg)
}

// fits returns the decision on a message or, if its entry is too large for the ledger, a rejection.
func (s *intakeStage) fits(p int, m *Message, out *Admission) (*Admission, error) {
	why := tooLarge(&out.Output)
	if why == nil {
		return out, nil
	}
	s.stats.Oversized.Add(1)
	s.log.Warn("an entry does not fit into the ledger, its message is rejected", "type", out.Type, "intake", m.Seq,
		"bytes", len(out.Body), "code", why.Code)
	return s.fold.Reject(s.states[p], m, why)
}

// land commits a batch that is in the ledger, or undoes it.
func (s *intakeStage) land(ctx context.Context, f *flight) error {
	s.stats.Published.Add(uint64(f.n))
	for i, e := range f.entries[:f.n] {
		s.added(e, f.outs[i].Live, f.outs[i].Decided)
	}
	if f.err != nil {
		return s.undo(ctx, f.entries, f.n, f.held, f.err)
	}
	for _, e := range f.entries {
		c := &s.cursors[e.Partition]
		if !e.Joint {
			c.own, s.allows[e.Partition] = e.Seq, s.pub.open
		}
		c.src, c.folded = e.Src, max(c.folded, f.at)
		s.knows(e.Seq)
		s.decided[e.Partition].add(e.Src)
	}
	for _, q := range f.batch {
		q.offer.conclude(q.msg.Position())
		s.unqueue(q.line, 0)
	}
	for _, q := range f.batch {
		if q.weight > 0 && q.why != nil || q.weight >= bulky && s.queued > 0 {
			s.deletions.add(q.msg.Seq)
		}
	}
	s.settle()
	if f.joint != nil {
		return s.landJoint(f)
	}
	return s.commitSealed()
}

// forget drops everything that was applied since the last commit.
func (s *intakeStage) forget() error {
	s.refolding = false // the mark was dropped too, or is committed and will be found again
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}

// undo drops all changes of a batch from the state after its publish failed. At least the first n
// entries are in the ledger. These are read again from there.
func (s *intakeStage) undo(ctx context.Context, entries []*streams.Entry, n int,
	held [streams.Partitions][]*streams.Entry, err error) error {
	// It is not certain that the applied entries are in the ledger, so drop them. Those that are in
	// the ledger will be read again.
	s.foreign, s.cursors = held, s.saved
	s.ground()
	if err := s.forget(); err != nil {
		return err
	}
	for _, e := range entries {
		s.owes[e.Partition] = true
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errBehind) {
		s.stats.InVain.Add(1)
		s.blind = mistaken
		return nil
	}
	if !errors.Is(err, errFenced) {
		s.stats.refused(err)
		s.log.Warn("entries wait for the ledger", "waiting", len(entries)-n, "err", err)
		if n == 0 {
			return sleep(ctx, 200*time.Millisecond)
		}
	}
	return s.settleOwn(ctx, entries[:n])
}

// settleOwn folds the ledger up to the stage's last entry in it. The process becomes a stand-by in
// partitions where another process wrote that entry.
func (s *intakeStage) settleOwn(ctx context.Context, ours []*streams.Entry) error {
	var tail uint64
	for _, p := range s.cfg.Partitions {
		m, err := lastOn(ctx, s.js, streams.LedgerSubject(p, s.cfg.Name))
		if err != nil {
			s.log.Warn("cannot tell who holds the fence", "partition", p, "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		if m == nil || m.Sequence <= s.cursors[p].own {
			continue
		}
		tail = max(tail, m.Sequence)
		if s.active[p] && !slices.ContainsFunc(ours, func(e *streams.Entry) bool { return e.Seq == m.Sequence }) {
			s.active[p] = false
			s.stats.FenceLost.Add(1)
			s.log.Info("standing by", "partition", p)
		}
	}
	return s.foldTo(ctx, tail)
}
