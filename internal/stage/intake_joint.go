package stage

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// This file has ingest's part in joint frames. Ingest decides which proposals get a frame of their own with all
// answers, and publishes the frame.

// joins reports whether to decide a proposal jointly. If not, it returns the reason.
func (s *intakeStage) joins(q *queued) (Alone, bool) {
	p, j := q.msg.Address.Partition, s.cfg.Joint
	switch {
	case s.otherGroups[p] || s.waited[p] > 0 || j.Elsewhere != nil && j.Elsewhere():
		return AloneGroup, false
	case !s.allows[p] || s.unsure[p]:
		return AloneClaim, false
	case s.read != s.known:
		return AloneBehind, false
	case time.Since(q.msg.Time) >= jointFresh:
		return AloneTime, false
	}
	return 0, true
}

// countAlone counts the proposals of a batch that is not decided jointly. why is the reason.
func (s *intakeStage) countAlone(why Alone, batch ...*queued) {
	if s.cfg.Joint == nil {
		return
	}
	for _, q := range batch {
		if q.proposal() {
			s.stats.Alone[why].Add(1)
		}
	}
}

// readOn folds the ledger messages that have already arrived. If they stayed unread, the decision would expect too
// early an end of the ledger, and the server would refuse it.
func (s *intakeStage) readOn(ctx context.Context) error {
	if len(s.ledger.msgs) == 0 {
		return nil
	}
	if err := s.drainLedger(ctx); err != nil {
		return err
	}
	if err := s.endForRefold(); err != nil {
		return err
	}
	return s.commitFolded()
}

// isOtherGroup reports whether a stage is a sentinel group that another process runs. The group's credential may allow
// it to read only ingest's own subject, and not joint frames. So proposals are not decided jointly while such a group
// exists.
func (s *intakeStage) isOtherGroup(stage string) bool {
	_, ok := streams.SentinelGroup(stage)
	return ok && s.cfg.Joint != nil && !slices.Contains(s.cfg.Joint.names, stage)
}

// noteOtherGroup records that a group of another process writes to a partition, if stage is such a group.
// findOtherGroups does this for the groups that wrote before the start.
func (s *intakeStage) noteOtherGroup(p int, stage string) {
	if s.in == nil || !s.isOtherGroup(stage) {
		return
	}
	s.otherGroups[p] = true
	if !slices.Contains(s.loggedGroups, stage) {
		s.loggedGroups = append(s.loggedGroups, stage)
		s.log.Info("a sentinel group that this process does not run writes to the ledger: proposals in its partitions are "+
			"not decided jointly", "stage", stage, "partition", p)
	}
}

// together decides a proposal jointly. If a stage does not take part, together publishes only ingest's entry. asked is
// the request that asks the other stages whether they take part.
func (s *intakeStage) together(ctx context.Context, batch []*queued, asked *question) error {
	f := s.newOutgoing()
	f.end = s.known
	if err := s.admit(f, batch); err != nil {
		asked.cancel()
		return err
	}
	q := batch[0]
	if len(f.entries) != 1 || s.refolding || s.erasing || !f.entries[0].Type.Proposal() {
		asked.cancel()
		return s.publishAdmitted(ctx, f)
	}
	own := f.entries[0]
	e := *own
	e.Time, e.Decoded = s.jointTime(q), f.outs[0].Decided
	if e.Time.After(time.Now()) { // readers refuse an entry whose time is much later than the time stamp of its message
		asked.cancel()
		s.countAlone(AloneTime, batch...)
		return s.publishAdmitted(ctx, f)
	}
	r, why := asked.decide(ctx, &e)
	if r == nil {
		switch {
		case why == AloneGroup:
			s.waited[e.Partition] = speculationPause
		case why == AloneLarge && len(e.Body) <= streams.MaxFrameBytes:
			// Some stages had already folded the proposal and must drop it. So decide the next proposals separately.
			s.pauseLeft = speculationPause
		}
		s.countAlone(why, batch...)
		return s.publishAdmitted(ctx, f)
	}
	m, unreadable := jointMsg(r.entries, f.end, s.cursors[e.Partition].own)
	if unreadable != nil {
		r.end(false)
		s.log.Error("a proposal and its answers do not make a valid joint frame; the proposal is published alone",
			"intake", q.msg.Seq, "err", unreadable)
		s.pauseLeft = speculationPause
		s.countAlone(AloneLarge, batch...)
		return s.publishAdmitted(ctx, f)
	}
	q.offer.prepare(r.entries)
	s.cfg.Feed.announce([]*streams.Entry{own}, func(int) any { return f.outs[0].Decided })
	f.err = s.cfg.Joint.publish(ctx, m, f.end+1)
	if f.err == nil {
		if q.offer != nil {
			q.offer.conclude(own.Src)
			goruntime.Gosched() // let the goroutine that offered the proposal answer its client before the stages go on
		}
	}
	r.end(f.err == nil)
	if f.err == nil {
		own.Seq, own.Joint, f.n, f.joint = e.Seq, true, 1, r.entries
		s.jointAt = e.Time
		s.stats.Joint.Add(1)
	} else {
		s.countAlone(AloneVain, batch...)
		s.pauseLeft = speculationPause
	}
	s.unsure[e.Partition] = errors.Is(f.err, errUnsure) // it was false before, see joins
	if err := s.finish(ctx, f); err != nil || f.err != nil {
		return err
	}
	return s.endForRefold()
}

// jointTime returns the time of the entries of a joint frame: the proposal's time, but not before the last entry of the
// ledger.
func (s *intakeStage) jointTime(q *queued) time.Time {
	at := q.msg.Time.UTC()
	for _, t := range []time.Time{s.due.at, s.jointAt} {
		if at.Before(t) {
			at = t
		}
	}
	return at
}

// finishJoint handles the entries of this process's own joint frame as read, and commits.
func (s *intakeStage) finishJoint(f *outgoing) error {
	seq := f.entries[0].Seq
	s.read = max(s.read, seq)
	s.stats.Folded.Store(s.read)
	s.queueAnswers(f.joint)
	return s.commitFolded()
}

// queueAnswers adds the other stages' entries of a joint frame to waiting.
func (s *intakeStage) queueAnswers(entries []*streams.Entry) {
	for _, e := range entries {
		if e.Stage != s.cfg.Name && s.fold.Relevant(e) {
			s.waiting[e.Partition] = append(s.waiting[e.Partition], e)
			s.followUps[e.Partition] = s.followUps[e.Partition] || s.fold.Wakes(e)
		}
	}
}

// fromJoint handles a joint frame that was read from the ledger.
func (s *intakeStage) fromJoint(entries []streams.Entry) error {
	e := &entries[0]
	if e.Seq <= s.cursors[e.Partition].folded {
		return nil
	}
	if s.allows[e.Partition] && !s.unsure[e.Partition] {
		s.stats.Diverged.Add(1)
		s.log.Error("another process published a joint frame in a partition in which only this process may: check which "+
			"other credentials can publish to the ledger", "partition", e.Partition, "entry", e.Seq)
	}
	if err := s.fromOther(e); err != nil {
		return err
	}
	s.progress[e.Partition] = time.Now()
	others := make([]*streams.Entry, 0, len(entries))
	for i := range entries {
		others = append(others, &entries[i])
	}
	s.queueAnswers(others)
	return nil
}

// findOpen sets unsure for the partitions in which another process may still publish a joint frame. That is possible if
// the last entry on ingest's own subject has streams.HeaderOpen, because the process that wrote the entry may still
// run. If the last message there is not a valid entry, findOpen sets unsure too, because such an entry may be before
// it. findOpen also records the partitions in which sentinel groups of other processes write.
func (s *intakeStage) findOpen(ctx context.Context) error {
	if s.cfg.Joint != nil {
		err := Patiently(ctx, s.log, "which sentinel groups wrote to the ledger",
			func() error { return s.findOtherGroups(ctx) })
		if err != nil {
			return err
		}
	}
	for _, p := range s.cfg.Partitions {
		var m *jetstream.RawStreamMsg
		err := Patiently(ctx, s.log, "the stage's last entry", func() (err error) {
			m, err = lastOn(ctx, s.js, streams.LedgerSubject(p, s.cfg.Name))
			return err
		})
		if err != nil {
			return err
		}
		if m != nil {
			_, err = wire.RawEntries(m)
			s.unsure[p] = err != nil || m.Header.Get(streams.HeaderOpen) != ""
		}
	}
	return nil
}

// findOtherGroups records the partitions in which a sentinel group of another process wrote recently. The last entry of
// a group that no longer exists stays in the ledger, so only recent entries count. The age of an entry is the time
// between its time stamp and that of the ledger's last entry.
func (s *intakeStage) findOtherGroups(ctx context.Context) error {
	st, err := s.js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(streams.LedgerPrefix+"*.*"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		p, stage, err := streams.ParseLedger(subject)
		if err != nil || !s.isOtherGroup(stage) {
			continue
		}
		entries, err := LastEntries(ctx, s.js, subject)
		if err != nil {
			return err
		}
		if len(entries) > 0 && info.State.LastTime.Sub(entries[0].Time) < s.cfg.Joint.retired {
			s.noteOtherGroup(p, stage)
		}
	}
	return nil
}

// claim makes sure that no other process can still publish a joint frame in a partition, and reports whether it
// succeeded. It must be called before anything is decided for the partition.
//
// A joint frame does not move the fence of ingest's own subject. So a process that looked only at that fence could
// decide on a message that a joint frame has decided. If such a frame may still come, claim publishes an entry on
// ingest's own subject that has no effect on the state. Every joint frame is stored on the condition that the subject's
// last sequence is unchanged, so later frames are refused. Then claim folds the ledger up to its entry.
func (s *intakeStage) claim(ctx context.Context, p int) (bool, error) {
	if !s.unsure[p] {
		return true, nil
	}
	out, err := NewOutput(streams.TypeClaim, streams.SystemProject, struct{}{})
	if err != nil {
		return false, err
	}
	at, waiting, own := s.read, s.waiting, s.cursors[p].own
	if err := s.applyWaiting(p, at); err != nil {
		return false, err
	}
	if err := s.add(ctx, p, &Admission{Output: *out}, at, waiting); err != nil {
		return false, err
	}
	if s.cursors[p].own == own || !s.active[p] {
		return false, nil // another process added an entry first, or the server does not answer; try again later
	}
	if err := s.foldTo(ctx, s.cursors[p].own); err != nil {
		return false, err
	}
	s.unsure[p] = false
	return true, s.endForRefold()
}
