package stage

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// purge removes decided messages from the intake, to free disk space: all before the oldest queued message.
func (s *intakeStage) purge(ctx context.Context) {
	if time.Since(s.purgedAt) < purgeEvery && (s.purgeFailed || s.seen < s.purged+purgeBacklog+uint64(s.queued)) {
		return
	}
	s.purgedAt = time.Now()
	if s.queued > 0 || s.seen < s.purged+purgeAtLeast {
		low := s.seen + 1
		for _, h := range s.heads() {
			if h != nil {
				low = min(low, h.msg.Seq)
			}
		}
		if low == 0 || low-1 < s.purged+purgeAtLeast {
			return
		}
		s.purgeTo(ctx, low-1)
		return
	}
	s.purgeTo(ctx, s.seen)
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
