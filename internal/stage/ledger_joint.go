package stage

import (
	"context"
	"fmt"
	"slices"

	"lazaret/streams"
)

// This file has the ledger stages' part in joint frames. Such a stage answers ingest before the frame is in the ledger.

// answerCall takes part in a joint decision, once the stage has folded every ledger entry before the proposal.
func (s *ledgerStage) answerCall(ctx context.Context) error {
	c := s.called
	if c == nil {
		return nil
	}
	select {
	case <-c.stored:
		s.called = nil // ingest has ended the round already
		return nil
	default:
	}
	if s.reached < c.end {
		return nil
	}
	s.called = nil
	if s.reached > c.end || !s.active[c.partition] || len(s.outbox[c.partition]) > 0 || !s.mayPublish(ctx) {
		c.replies <- answers{}
		return nil
	}
	if err := s.commit(); err != nil {
		return err
	}
	c.replies <- answers{ok: true}
	defer close(c.replies) // so that ingest does not wait for an answer of this stage after the stage has ended
	cursors := s.cursors
	folded := 0
	var made []*pending
	for {
		select {
		case more := <-c.turns:
			outs, err := s.foldAhead(more)
			if err != nil {
				c.replies <- answers{}
				return fmt.Errorf("stage %s, an entry after %d: %w", s.cfg.Name, c.end, err)
			}
			folded += len(more)
			a := answers{ok: true}
			for _, b := range outs {
				a.entries = append(a.entries, b.entry)
			}
			made = append(made, outs...)
			c.replies <- a
		case stored := <-c.stored:
			if stored {
				return s.keepJoint(c.end+1, made)
			}
			s.cursors = cursors
			return s.dropJoint(c.partition, folded)
		case <-ctx.Done():
			s.cursors = cursors
			return s.dropJoint(c.partition, folded)
		}
	}
}

// mayPublish reports whether the stage may publish: it has checked, as flush does, that no ledger entry is missing.
func (s *ledgerStage) mayPublish(ctx context.Context) bool {
	s.checked = s.checked || s.guard(ctx, s.oldest()) == nil
	return s.checked
}

// foldAhead folds entries that are not in the ledger yet, and returns the partition's outbox, a list of the outputs for
// them.
func (s *ledgerStage) foldAhead(entries []*streams.Entry) ([]*pending, error) {
	for _, e := range entries {
		if e.Stage == s.cfg.Name {
			if err := s.confirm(e); err != nil {
				return nil, err
			}
		}
		if err := s.step(e); err != nil {
			return nil, err
		}
	}
	return slices.Clone(s.outbox[entries[0].Partition]), nil
}

// keepJoint commits the folded entries of a joint frame that is now in the ledger at sequence seq. made are this
// stage's entries in the frame.
func (s *ledgerStage) keepJoint(seq uint64, made []*pending) error {
	for _, p := range s.cfg.Partitions {
		s.cursors[p].folded = max(s.cursors[p].folded, seq)
	}
	s.reached = seq
	s.stats.Folded.Store(seq)
	for _, b := range made {
		s.added(b.entry, b.live, b.note)
	}
	s.stats.Published.Add(uint64(len(made)))
	return s.commit() // at once, so that the next proposal need not wait for the commit
}

// dropJoint drops the folded entries of a joint frame that was not stored. folded is the number of entries that the
// stage has folded. If it is 0, nothing is dropped and the stage keeps its indexes.
func (s *ledgerStage) dropJoint(p, folded int) error {
	if folded == 0 {
		return nil
	}
	s.stats.Entries.Add(-uint64(folded))
	s.stats.Waiting.Add(-int64(len(s.outbox[p])))
	s.outbox[p] = nil
	s.alarms[p].known = false
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}
