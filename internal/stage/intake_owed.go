package stage

import (
	"context"
	"fmt"
	"time"

	"lazaret/streams"
)

// owed adds entries that no message asks for, at most one per partition and call, so that messages
// need not wait for many. Such an entry names the input of the entry before it and moves no cursor.
// The remaining work is part of the state, a fold of the ledger, so that another process neither
// skips nor repeats an entry.
func (s *intakeStage) owed(ctx context.Context) error {
	for _, p := range s.cfg.Partitions {
		due := s.active[p] || time.Since(s.progress[p]) > s.cfg.Takeover
		if s.trims[p] != nil && due {
			ok, err := s.claim(ctx, p)
			if err == nil && ok && s.trims[p] != nil { // the entries that claim read may have answered it
				err = s.secure(ctx, p)
			}
			if err != nil {
				return err
			}
		}
		if !s.owes[p] || !due {
			continue
		}
		if err := s.owedIn(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *intakeStage) owedIn(ctx context.Context, p int) error {
	at, held := s.read, s.foreign
	if err := s.applyForeign(p, at); err != nil {
		return err
	}
	out, err := s.fold.Owed(s.states[p])
	if err != nil {
		return fmt.Errorf("stage %s, partition %d: %w", s.cfg.Name, p, err)
	}
	if out != nil && tooLarge(&out.Output) != nil {
		// The pending work stays in the state, and messages continue.
		s.stats.Oversized.Add(1)
		s.log.Error("a pending entry is too large for the ledger", "type", out.Type, "partition", p, "bytes",
			len(out.Body), "code", streams.CodeEntrySize)
		out = nil
	}
	if out == nil {
		// Other stages' entries are folded only together with an own entry.
		s.foreign, s.owes[p] = held, false
		return s.forget()
	}
	if s.unsure[p] { // claim reads more entries; the decision is made again with them
		s.foreign = held
		if err := s.forget(); err != nil {
			return err
		}
		_, err := s.claim(ctx, p)
		return err
	}
	return s.add(ctx, p, out, at, held)
}

// secure answers a trim entry with the sequence up to which the state is on disk. Other stages'
// entries are folded only together with an own entry, so this may not be far enough. In that case
// the answer itself makes the fold reach the ledger's end.
func (s *intakeStage) secure(ctx context.Context, p int) error {
	s.syncing = true
	if err := s.commitFolded(); err != nil {
		return err
	}
	out, err := secured(s.trims[p].ID, s.takenIn(p))
	if err != nil {
		return err
	}
	at, held := s.read, s.foreign
	if err := s.applyForeign(p, at); err != nil {
		return err
	}
	return s.add(ctx, p, &Admission{Output: *out}, at, held)
}

// answered records an own secured entry.
func (s *intakeStage) answered(e *streams.Entry) error {
	b := new(streams.SecuredEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		return fmt.Errorf("decoding own %s entry: %w", e.Type, err)
	}
	if t := s.trims[e.Partition]; t != nil && t.ID == b.ID && b.Folded >= t.UpTo {
		s.trims[e.Partition] = nil
		s.syncing = true // a stand-by secures its state too
	}
	return nil
}

// add publishes an entry that no message asks for.
func (s *intakeStage) add(ctx context.Context, p int, out *Admission, at uint64,
	held [streams.Partitions][]*streams.Entry) error {
	if !s.active[p] {
		s.log.Info("taking over", "partition", p, "owed", out.Type)
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
		return s.undo(ctx, entries, n, held, err)
	}
	s.live(e, out.Live)
	c := &s.cursors[p]
	c.own, c.folded, s.allows[p] = e.Seq, max(c.folded, at), s.pub.open
	s.knows(e.Seq)
	return s.commit()
}
