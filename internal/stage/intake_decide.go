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

// work decides the next queued messages in the partitions in which this process is active. Before that, it makes this
// process active in the partitions in which a message has waited for the takeover time.
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
	s.setPending(oldest)
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
	if one && s.speculates() {
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
			s.countAlone(why, batch...)
		}
		return s.speculate(ctx, batch)
	}
	s.countAlone(AloneLoad, batch...)
	if err := s.barrier(ctx, batch); err != nil {
		return err
	}
	if err := s.endForRefold(); err != nil {
		return err
	}
	if err := s.decide(ctx, batch); err != nil {
		return err
	}
	return s.endForRefold()
}

// speculationPause is a number of proposals. After a speculative decision was dropped, this many proposals are decided
// without speculation.
const speculationPause = 16

// speculates reports whether to decide a proposal speculatively, before the end of the ledger is known. It returns
// false for a while after a speculative decision was dropped, because under load most of them are.
func (s *intakeStage) speculates() bool {
	s.pauseLeft = max(s.pauseLeft-1, 0)
	// Speculation needs the ledger's last sequence. A process that reads only some partitions does not know it, and an
	// empty ledger has none.
	return s.pauseLeft == 0 && s.known > 0 && s.all()
}

// speculate decides a proposal with the entries read so far, and publishes the decision on the condition that the
// ledger ends there. So the server need not be asked first where the ledger ends. If the ledger has more entries, the
// server refuses the publish. The decision is then dropped, and made again after these entries are read.
func (s *intakeStage) speculate(ctx context.Context, batch []*queued) error {
	s.stats.Speculated.Add(1)
	f := s.newOutgoing()
	f.end = s.known
	if err := s.admit(f, batch); err != nil {
		return err
	}
	if err := s.publishAdmitted(ctx, f); err != nil {
		return err
	}
	return s.endForRefold()
}

// outgoing is a batch of decisions. It is not known yet whether their entries are in the ledger.
type outgoing struct {
	entries []*streams.Entry
	outs    []*Admission
	at      uint64 // last ledger sequence that was read before the decisions
	// If not 0, the batch has one entry, and the server must store it only if the ledger ends at this sequence.
	end     uint64
	waiting [streams.Partitions][]*streams.Entry // intakeStage.waiting before the batch
	batch   []*queued                            // the messages that were decided
	size    int                                  // their size in bytes
	fences  [streams.Partitions]uint64           // last sequence on ingest's subject, by partition
	n       int                                  // number of entries that are certainly in the ledger after the publish
	err     error                                // the error of the publish
	joint   []*streams.Entry                     // the entries of the joint frame, or nil if there is none
}

// aheadMost is the maximum number of batches that are decided ahead, each during the publish of the one before. After
// that, ingest reads the ledger again.
const aheadMost = 8

// decide admits a batch, publishes its entries and commits. During the publish it already decides the next batch, based
// on the state after the first batch. If publishing the first batch fails, it drops both batches.
func (s *intakeStage) decide(ctx context.Context, batch []*queued) error {
	f := s.newOutgoing()
	if err := s.admit(f, batch); err != nil {
		return err
	}
	return s.publishAdmitted(ctx, f)
}

// publishAdmitted publishes an admitted batch and commits. During the publish it admits the next batch. It repeats that
// while messages are queued.
func (s *intakeStage) publishAdmitted(ctx context.Context, f *outgoing) error {
	for ahead := 0; len(f.entries) > 0; ahead++ {
		for p, c := range s.cursors {
			f.fences[p] = c.own
		}
		s.store.seal()
		f.gather()
		s.cfg.Feed.announce(f.entries, func(i int) any { return f.outs[i].Decided })
		published := make(chan struct{})
		go func() {
			defer close(published)
			f.n, f.err = f.publish(ctx, s.pub)
		}()
		next := s.newOutgoing()
		var err error
		if ahead < aheadMost {
			err = s.ahead(ctx, f, next, published)
		}
		<-published
		if err != nil {
			return err
		}
		if err := s.finish(ctx, f); err != nil || f.err != nil {
			return err
		}
		f = next
	}
	// Nothing is being published now, so a commit may rewrite the files.
	return s.commit()
}

// gather sorts the entries by partition, without changing their order within one, so that they can share messages.
func (f *outgoing) gather() {
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

// ahead admits queued and arriving messages to next while f is being published. It stops before the first proposal,
// because a proposal needs the current end of the ledger. Before each batch, it queues everything that has arrived, so
// that an arrived proposal gets its turn in that batch.
func (s *intakeStage) ahead(ctx context.Context, f, next *outgoing, published <-chan struct{}) error {
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
		case <-published:
			return nil
		default:
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-published:
			return nil
		case m := <-s.arriving():
			if err := s.take(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish adds the entries to the ledger. Its results are those of publisher.publish.
func (f *outgoing) publish(ctx context.Context, pub *publisher) (int, error) {
	if f.end == 0 || len(f.entries) != 1 {
		return pub.publish(ctx, f.entries, func(i int) string { return f.outs[i].Together }, &f.fences)
	}
	if err := pub.atEnd(ctx, f.entries[0], &f.fences, f.end); err != nil {
		return 0, err
	}
	return 1, nil
}

func (s *intakeStage) newOutgoing() *outgoing { return &outgoing{at: s.read, waiting: s.waiting} }

// admit decides messages and applies the decisions to the state. When the batch has taken batchTime, it leaves the rest
// undecided, and lines that got no turn come first in the next batch.
func (s *intakeStage) admit(f *outgoing, batch []*queued) error {
	s.prepare(batch)
	start := time.Now()
	for i, q := range batch {
		if i > 0 && time.Since(start) >= batchTime {
			s.yield(batch[i-1].line, batch[i:])
			return nil
		}
		p := q.msg.Address.Partition
		if !s.active[p] || s.unsure[p] || s.decided[p].has(q.msg.Position()) {
			continue // another process has decided it, or a joint frame with the decision may still come
		}
		if err := s.applyWaiting(p, f.at); err != nil {
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
		f.batch, f.size = append(f.batch, q), f.size+q.cost()
		q.line.inFlight++
		if s.refolding {
			return nil // the rest is decided after the refold
		}
	}
	return nil
}

// yield gives the first turn of the next batch to another line than last: to the first one in rest that is not a line
// of shed messages. last is the line of the message that was decided last.
func (s *intakeStage) yield(last *line, rest []*queued) {
	i := slices.IndexFunc(rest, func(q *queued) bool { return q.line != last && !q.line.shed })
	if i < 0 {
		return
	}
	at := slices.Index(s.turns, rest[i].line)
	s.turns = slices.Concat(s.turns[at:], s.turns[:at])
}

// judge passes a message to the fold's Admit and returns the decision. If ingest had no room for the message (it was
// shed), judge passes it to Reject.
func (s *intakeStage) judge(p int, q *queued) (*Admission, error) {
	if q.why != nil {
		return s.fold.Reject(s.states[p], q.msg, q.why)
	}
	return s.fold.Admit(s.states[p], q.msg)
}

// fits returns the decision on a message. If the decision's entry is too large for the ledger, it returns a rejection
// instead.
func (s *intakeStage) fits(p int, m *Message, out *Admission) (*Admission, error) {
	why := tooLarge(&out.Output)
	if why == nil {
		return out, nil
	}
	s.stats.Oversized.Add(1)
	s.log.Warn("an entry is too large for the ledger; its message is rejected", "type", out.Type, "intake", m.Seq,
		"bytes", len(out.Body), "code", why.Code)
	return s.fold.Reject(s.states[p], m, why)
}

// finish commits a batch if its publish succeeded, and otherwise undoes it.
func (s *intakeStage) finish(ctx context.Context, f *outgoing) error {
	s.stats.Published.Add(uint64(f.n))
	for i, e := range f.entries[:f.n] {
		s.added(e, f.outs[i].Live, f.outs[i].Decided)
	}
	if f.err != nil {
		return s.undo(ctx, f.entries, f.n, f.waiting, f.err)
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
	low := s.undecidedFrom()
	for _, q := range f.batch {
		if q.msg.Seq < low {
			s.decidedBytes += q.weight
		} else if q.weight > 0 && q.why != nil || q.weight >= bulky {
			s.deletions.add(q.msg.Seq)
		}
	}
	s.settle()
	if f.joint != nil {
		return s.finishJoint(f)
	}
	return s.commitSealed()
}

// forget drops everything that was applied to the state since the last commit.
func (s *intakeStage) forget() error {
	// discard also drops refoldKey, which marks a partition that must be folded again. If an earlier commit stored
	// refoldKey, the next start finds it.
	s.refolding = false
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}

// undo drops all changes of a batch from the state, because publishing its entries failed with err. The first n entries
// are certainly in the ledger; the stage reads them back. waiting is the value that s.waiting had before the batch.
func (s *intakeStage) undo(ctx context.Context, entries []*streams.Entry, n int,
	waiting [streams.Partitions][]*streams.Entry, err error) error {
	// It is not certain which of the other entries are in the ledger. So drop the effects of all entries. Those that
	// are in the ledger are read back.
	s.waiting, s.cursors = waiting, s.saved
	s.resetInFlight()
	if err := s.forget(); err != nil {
		return err
	}
	for _, e := range entries {
		s.followUps[e.Partition] = true
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errBehind) {
		s.stats.SpeculationFailed.Add(1)
		s.pauseLeft = speculationPause
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

// settleOwn folds the ledger up to ingest's last entry. In partitions where another process wrote that entry, this
// process becomes a stand-by. ours are the entries that this process has just published.
func (s *intakeStage) settleOwn(ctx context.Context, ours []*streams.Entry) error {
	var tail uint64
	for _, p := range s.cfg.Partitions {
		m, err := lastOn(ctx, s.js, streams.LedgerSubject(p, s.cfg.Name))
		if err != nil {
			s.log.Warn("cannot read the last entry, so it is unknown which process publishes", "partition", p, "err", err)
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
