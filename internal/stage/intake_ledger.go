package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// fromLedger handles one ledger message that was read.
func (s *intakeStage) fromLedger(ctx context.Context, a *arrival) error {
	if err := s.checkFollows(ctx, a); err != nil {
		return err
	}
	entries, ok := s.entries(a)
	seq, p := a.first().Seq, a.first().Partition
	if seq > s.read {
		s.read = seq
		s.known = max(s.known, seq)
		s.stats.Folded.Store(seq)
		if ok {
			s.stats.Entries.Add(uint64(len(entries)))
		}
	}
	if !ok {
		if a.err != nil && a.first().Stage == s.cfg.Name && s.mine[p] {
			s.allows[p] = false
		}
		return nil
	}
	c := &s.cursors[p]
	if a.first().Joint {
		return s.fromJoint(entries)
	}
	if a.first().Stage != s.cfg.Name {
		s.noteOtherGroup(p, a.first().Stage)
		for i := range entries {
			e := &entries[i]
			if t := s.trimOf(e); t != nil {
				s.trims[p] = t
			}
			if seq > c.folded && s.fold.Relevant(e) {
				s.waiting[p] = append(s.waiting[p], e)
				s.followUps[p] = s.followUps[p] || s.fold.Wakes(e)
			}
		}
		return nil
	}
	if seq <= c.own {
		return nil // published by this process
	}
	// These are entries of ingest that another process wrote, or that this process wrote before a restart.
	for i := range entries {
		if err := s.fromOther(&entries[i]); err != nil {
			return err
		}
	}
	c.own, s.allows[p], s.unsure[p] = seq, false, a.first().Open
	s.progress[p] = time.Now()
	return nil
}

// fromOther folds an entry of ingest that was read from the ledger and that the state does not have yet.
func (s *intakeStage) fromOther(e *streams.Entry) error {
	c := &s.cursors[e.Partition]
	if err := s.applyWaiting(e.Partition, e.At); err != nil {
		return err
	}
	if err := s.apply(e, nil); err != nil {
		return err
	}
	c.src, c.folded = e.Src, max(c.folded, e.At)
	// If the input is decided already, no message asked for e: such an entry names the input of the entry before it.
	if !s.decided[e.Partition].has(e.Src) {
		s.decided[e.Partition].add(e.Src)
		s.prune(e.Partition, e.Src)
	}
	return nil
}

func (s *intakeStage) apply(e *streams.Entry, decided any) error {
	if e.Type == streams.TypeSecured && e.Stage == s.cfg.Name {
		return s.answered(e) // this entry is for the retention stage; the fold does not use it
	}
	if e.Type == streams.TypeClaim {
		return nil
	}
	if s.skips(e) {
		return nil
	}
	own := *e
	if own.Stage == s.cfg.Name {
		own.Seq, own.Index, own.Time = 0, 0, time.Time{}
	}
	if err := s.fold.Apply(s.states[e.Partition], &own, decided); err != nil {
		return fmt.Errorf("stage %s, applying %s entry of input %d: %w", s.cfg.Name, e.Type, e.Src, err)
	}
	if e.Type == streams.TypeForgotten && e.Stage == s.cfg.Name {
		if err := s.requestRewrite(); err != nil {
			return err
		}
	}
	if s.refolds(e) {
		if err := s.refold(e); err != nil {
			return err
		}
	}
	s.followUps[e.Partition] = s.followUps[e.Partition] || s.fold.Wakes(e)
	return nil
}

// applyWaiting folds the waiting entries of other stages up to sequence at.
func (s *intakeStage) applyWaiting(p int, at uint64) error {
	f := s.waiting[p]
	for len(f) > 0 && f[0].Seq <= at {
		if err := s.apply(f[0], nil); err != nil {
			return err
		}
		if f[0].Seq <= s.noted[p] {
			if err := s.store.delete(waitingKey(p, f[0].Seq)); err != nil {
				return err
			}
		}
		f = f[1:]
	}
	s.waiting[p] = f
	return nil
}

func (s *intakeStage) drainLedger(ctx context.Context) error {
	for {
		select {
		case m := <-s.ledger.msgs:
			s.ledger.took(m)
			if err := s.fromLedger(ctx, m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// foldTo reads and handles ledger messages up to sequence seq, and commits.
func (s *intakeStage) foldTo(ctx context.Context, seq uint64) error {
	for n := 0; s.read < seq; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.ledger.msgs:
			s.ledger.took(m)
			if err := s.fromLedger(ctx, m); err != nil {
				return err
			}
		}
		if n%commitEvery == commitEvery-1 {
			if err := s.commitFolded(); err != nil {
				return err
			}
		}
	}
	return s.commitFolded()
}

// commitFolded commits all partitions, with the last read entry as their cursor. Waiting entries of other stages are
// recorded in the store, because a restart reads the ledger only from the cursor on and would miss them.
func (s *intakeStage) commitFolded() error {
	s.settle()
	for _, p := range s.cfg.Partitions {
		if err := s.note(p); err != nil {
			return err
		}
		s.cursors[p].folded = max(s.cursors[p].folded, s.read)
	}
	return s.commit()
}

// settle records for each partition that every input before the oldest queued message is decided, or, if no message is
// queued, every input up to the last message that was read.
func (s *intakeStage) settle() {
	heads := s.heads()
	for _, p := range s.cfg.Partitions {
		first := position.At(s.seen+1, 0)
		if h := heads[p]; h != nil {
			first = h.msg.Position()
		}
		s.decided[p].settle(first)
	}
}

// waitingKey is the key that records a ledger message with entries of other stages that wait for ingest's next entry.
// Without such records, the cursor of a quiet partition would have to stay before these entries, and a restart would
// read all later entries of other partitions again.
func waitingKey(p int, seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceMeta, 'h', byte(p)}, seq)
}

// note records the waiting entries of a partition in the store.
func (s *intakeStage) note(p int) error {
	f := s.waiting[p]
	for i := len(f) - 1; i >= 0 && f[i].Seq > s.noted[p]; i-- {
		if err := s.store.set(waitingKey(p, f[i].Seq), nil); err != nil {
			return err
		}
	}
	if len(f) > 0 {
		s.noted[p] = max(s.noted[p], f[len(f)-1].Seq)
	}
	return nil
}

// loadWaiting reads from the ledger the entries that were waiting when the state was committed.
func (s *intakeStage) loadWaiting(ctx context.Context) error {
	for _, p := range s.cfg.Partitions {
		var waiting []uint64
		err := s.store.scan([]byte{spaceMeta, 'h', byte(p)}, func(k, _ []byte) (bool, error) {
			waiting = append(waiting, binary.BigEndian.Uint64(k[3:]))
			return true, nil
		})
		if err != nil {
			return err
		}
		for _, seq := range waiting {
			s.noted[p] = max(s.noted[p], seq)
			m, err := messageAt(ctx, s.js, streams.LedgerStream, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				err = s.hole(ctx, seq, seq, time.Time{}) // nil if it was forgotten
				if err == nil {
					err = s.store.delete(waitingKey(p, seq))
				}
				if err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			entries, err := streams.ParseEntries(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
			if err != nil {
				return fmt.Errorf("ledger message %d waits for stage %s: %w", seq, s.cfg.Name, err)
			}
			for i := range entries {
				if e := &entries[i]; e.Stage != s.cfg.Name && s.fold.Relevant(e) {
					s.waiting[p] = append(s.waiting[p], e)
				}
			}
		}
	}
	return nil
}

// takenIn returns the last ledger sequence such that the committed state of a partition includes every entry up to it.
func (s *intakeStage) takenIn(p int) uint64 {
	if f := s.waiting[p]; len(f) > 0 {
		return min(s.saved[p].folded, f[0].Seq-1)
	}
	return s.saved[p].folded
}

// answerTail is the maximum time for which a query waits until the server says where the ledger ends.
const answerTail = time.Second

// answer runs a query. The query sees the state with which ingest would decide on the next message. The ledger is
// folded to its end first, so that the answer reflects every published verdict. After the query, the changes that
// answer made to the state for it are discarded.
func (s *intakeStage) answer(ctx context.Context, q Query) error {
	short, cancel := context.WithTimeout(ctx, answerTail)
	tail, err := s.tail(short, q.Partition)
	cancel()
	if err != nil {
		s.log.Debug("the server did not say where the ledger ends; a query is answered from the entries read so far",
			"err", err)
	}
	if err := s.foldTo(ctx, tail); err != nil {
		return err
	}
	if err := s.drainLedger(ctx); err != nil {
		return err
	}
	if err := s.endForRefold(); err != nil {
		return err // the query times out
	}
	if err := s.commitFolded(); err != nil {
		return err
	}
	waiting := s.waiting
	if err := s.applyWaiting(q.Partition, s.read); err != nil {
		return err
	}
	q.Run(s.states[q.Partition])
	s.waiting = waiting
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}

// answerWaiting answers the queries that wait, at most as many as there are partitions. The loop calls it each time:
// while messages are queued, its select rarely chooses a query.
func (s *intakeStage) answerWaiting(ctx context.Context, queries <-chan Query) error {
	for range streams.Partitions {
		select {
		case q := <-queries:
			if err := s.answer(ctx, q); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// barrier folds the ledger to its current end for each partition in which the batch has a proposal. A proposal must be
// decided with all alerts published so far.
func (s *intakeStage) barrier(ctx context.Context, batch []*queued) error {
	var asked [streams.Partitions]bool
	var tail uint64
	for _, q := range batch {
		p := q.msg.Address.Partition
		if asked[p] || !q.proposal() {
			continue
		}
		asked[p] = true
		last, err := s.tail(ctx, p)
		if err != nil {
			s.stats.refused(err)
			s.log.Warn("the server did not say where the ledger ends; proposals wait", "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		tail = max(tail, last)
	}
	return s.foldTo(ctx, tail)
}

// tail returns the sequence up to which the ledger must be read to know all entries of a partition, or 0 if all are
// known.
func (s *intakeStage) tail(ctx context.Context, p int) (uint64, error) {
	m, err := lastOn(ctx, s.js, streams.LedgerFilter(p))
	// If the last entry is ingest's own, entries before it may still be unread, because ingest may have made it before
	// reading them.
	if err != nil || m == nil || m.Sequence == s.cursors[p].own && s.read+1 >= m.Sequence {
		return 0, err
	}
	return m.Sequence, nil
}

// knows records that this process published the entry with sequence seq. If known is just before seq, it raises known
// to seq.
func (s *intakeStage) knows(seq uint64) {
	if seq == s.known+1 {
		s.known = seq
	}
}
