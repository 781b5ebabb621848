package stage

import (
	"context"
	"fmt"
	"time"

	"lazaret/streams"
)

// addFollowUps adds entries that no message asks for (see IntakeFold.FollowUp) and answers trim entries. It adds at
// most one per partition and call, so that messages need not wait long. Such an entry names the same input as the entry
// before it, so the cursor stays where it is. The state, a fold of the ledger, records which entries remain to be
// added. So another process that takes over neither skips nor repeats an entry.
func (s *intakeStage) addFollowUps(ctx context.Context) error {
	for _, p := range s.cfg.Partitions {
		due := s.active[p] || time.Since(s.progress[p]) > s.cfg.Takeover
		if s.trims[p] != nil && due {
			ok, err := s.claim(ctx, p)
			// One of the entries that claim read may have answered the trim entry.
			if err == nil && ok && s.trims[p] != nil {
				err = s.secure(ctx, p)
			}
			if err != nil {
				return err
			}
		}
		if !s.followUps[p] || !due {
			continue
		}
		if err := s.addFollowUp(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *intakeStage) addFollowUp(ctx context.Context, p int) error {
	at, waiting := s.read, s.waiting
	if err := s.applyWaiting(p, at); err != nil {
		return err
	}
	out, err := s.fold.FollowUp(s.states[p])
	if err != nil {
		return fmt.Errorf("stage %s, partition %d: %w", s.cfg.Name, p, err)
	}
	if out != nil && tooLarge(&out.Output) != nil {
		// The entry is too large to be published. Leave it in the state, and continue with messages.
		s.stats.Oversized.Add(1)
		s.log.Error("an entry that no message asks for is too large for the ledger and is not added", "type",
			out.Type, "partition", p, "bytes", len(out.Body), "code", streams.CodeEntrySize)
		out = nil
	}
	if out == nil {
		// Entries of other stages are folded only together with an entry of ingest. There is none now, so undo
		// applyWaiting.
		s.waiting, s.followUps[p] = waiting, false
		return s.forget()
	}
	if s.unsure[p] { // claim reads more entries, and FollowUp must be called again after they are folded
		s.waiting = waiting
		if err := s.forget(); err != nil {
			return err
		}
		_, err := s.claim(ctx, p)
		return err
	}
	return s.add(ctx, p, out, at, waiting)
}

// secure syncs the state, and answers a trim entry, which announces that old entries will be removed. The answer has
// the sequence up to which the state is on disk. Entries of other stages are folded only together with an entry of
// ingest. So the sequence may be below the one that the trim entry asks for, and then a second answer follows. The
// first answer is itself an entry of ingest: with it, the state reaches the ledger's end.
func (s *intakeStage) secure(ctx context.Context, p int) error {
	s.syncing = true
	if err := s.commitFolded(); err != nil {
		return err
	}
	out, err := secured(s.trims[p].ID, s.takenIn(p))
	if err != nil {
		return err
	}
	at, waiting := s.read, s.waiting
	if err := s.applyWaiting(p, at); err != nil {
		return err
	}
	return s.add(ctx, p, &Admission{Output: *out}, at, waiting)
}

// answered records that ingest has answered a trim entry with its entry e.
func (s *intakeStage) answered(e *streams.Entry) error {
	b := new(streams.SecuredEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		return fmt.Errorf("decoding own %s entry: %w", e.Type, err)
	}
	if t := s.trims[e.Partition]; t != nil && t.ID == b.ID && b.Folded >= t.UpTo {
		s.trims[e.Partition] = nil
		s.syncing = true // a stand-by syncs its state here, because the trim needs the states of all processes on disk
	}
	return nil
}

// add publishes an entry that no message asks for. at is the last ledger sequence that was read before the decision,
// and waiting is the value that s.waiting had before the decision.
func (s *intakeStage) add(ctx context.Context, p int, out *Admission, at uint64,
	waiting [streams.Partitions][]*streams.Entry) error {
	if !s.active[p] {
		s.log.Info("taking over", "partition", p, "for", out.Type)
		s.active[p] = true
	}
	e := &streams.Entry{Partition: p, Stage: s.cfg.Name, Type: out.Type, Project: out.Project,
		Src: s.cursors[p].src, At: at, Salt: streams.NewSalt(), Body: out.Body}
	trims := s.trims
	if err := s.apply(e, out.Decided); err != nil {
		return err
	}
	var fences [streams.Partitions]uint64
	for i, c := range s.cursors {
		fences[i] = c.own
	}
	entries := []*streams.Entry{e}
	n, err := s.pub.publish(ctx, entries, nil, &fences)
	s.stats.Published.Add(uint64(n))
	if err != nil {
		s.trims = trims
		return s.undo(ctx, entries, n, waiting, err)
	}
	s.live(e, out.Live)
	c := &s.cursors[p]
	c.own, c.folded, s.allows[p] = e.Seq, max(c.folded, at), s.pub.open
	s.knows(e.Seq)
	return s.commit()
}
