package stage

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// purge removes decided messages from the intake, to free disk space: all before the oldest queued message.
func (s *intakeStage) purge(ctx context.Context) {
	many := s.seen >= s.purged+purgeBacklog+uint64(s.queued) || s.decidedBytes >= s.purgeBytes
	if time.Since(s.purgedAt) < purgeEvery && (s.purgeFailed || !many) {
		return
	}
	s.purgedAt, s.decidedBytes = time.Now(), 0
	if low := s.undecidedFrom(); low > s.purged+purgeAtLeast {
		s.purgeTo(ctx, low-1)
	}
}

// undecidedFrom returns the sequence of the oldest queued message, or of the next message if none is queued.
func (s *intakeStage) undecidedFrom() uint64 {
	low := s.seen + 1
	for _, h := range s.heads() {
		if h != nil {
			low = min(low, h.msg.Seq)
		}
	}
	return low
}

func (s *intakeStage) purgeTo(ctx context.Context, seq uint64) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	st, err := s.js.Stream(ctx, streams.IntakeStream)
	if err == nil && s.all() {
		err = st.Purge(ctx, jetstream.WithPurgeSequence(seq+1))
	} else if err == nil {
		for _, f := range s.intakeFilters() {
			if err = st.Purge(ctx, jetstream.WithPurgeSubject(f), jetstream.WithPurgeSequence(seq+1)); err != nil {
				break
			}
		}
	}
	s.purgeFailed = err != nil
	if err != nil {
		s.log.Warn("intake not purged", "to", seq, "err", err)
		return
	}
	s.purged = seq
}
