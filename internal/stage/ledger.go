package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// LedgerFold is the logic of a stage whose input is the ledger.
//
// Its methods are called from one goroutine, for each partition in ledger order. They must be deterministic: the same
// entries give the same outputs on every machine. They must handle bad input without an error. An error means a fault
// of the program, such as a state that cannot be read, and stops the stage.
type LedgerFold interface {
	// Step folds one entry into the state of the entry's partition. It is called for the stage's own entries too. It
	// returns the entry that the stage must add in answer to e, or nil.
	Step(st *State, e *streams.Entry) (*Output, error)
	// Timer returns the time of the partition's earliest timer, and the entry that the stage must add once that time is
	// past. ok is false if there is no timer.
	Timer(st *State) (at time.Time, due *Output, ok bool, err error)
	// Reset drops everything that the fold stores outside State. It is called before the first
	// Step.
	Reset()
}

// pending is an output that is not known to be in the ledger yet.
type pending struct {
	entry *streams.Entry
	live  []Live
	note  any
	// Wall clock time at which it was decided, or at which another process added an entry first; used only for
	// takeovers.
	since  time.Time
	stored bool // it is recorded in the store
}

// ledgerStage is the loop of a LedgerFold. Only the loop uses its fields.
type ledgerStage struct {
	*runtime
	fold    LedgerFold
	outbox  [streams.Partitions][]*pending // by partition, in the order of inputs
	active  [streams.Partitions]bool       // this process publishes in the partition
	alarms  [streams.Partitions]alarm
	checked bool // set once the ledger was checked for missing entries, before the first publish
	calls   <-chan *call
	called  *call  // call to a joint decision that waits until this stage has folded the entries before it, or nil
	reached uint64 // last ledger sequence that was read from the ledger or folded as part of a joint frame
	dirty   int    // messages folded since the last commit
}

// RunLedger runs a stage that reads the ledger until ctx ends, or until the state or the stream is found to be
// unusable. It returns nil when ctx ended. Between batches, it answers queries. queries may be nil.
func RunLedger(ctx context.Context, cfg Config, fold LedgerFold, queries <-chan Query) error {
	return runs(cfg, func(cfg Config) error { return runLedger(ctx, cfg, fold, queries) })
}

func runLedger(ctx context.Context, cfg Config, fold LedgerFold, queries <-chan Query) (err error) {
	r, err := newRuntime(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(ended(ctx, err), r.store.close()) }()
	s := &ledgerStage{runtime: r, fold: fold}
	for _, p := range r.cfg.Partitions {
		s.active[p] = !r.cfg.Standby
	}
	fold.Reset()
	// The ledger shows which outputs were published. The stored state may be older than the ledger.
	var own [streams.Partitions]*streams.Entry
	var answered [streams.Partitions]uint64
	for _, p := range r.cfg.Partitions {
		err := Patiently(ctx, r.log, "the stage's last entry", func() (err error) {
			if own[p], err = lastOwn(ctx, r.js, p, cfg.Name); err == nil {
				answered[p], err = lastJoint(ctx, r.js, p, cfg.Name)
			}
			return err
		})
		if err != nil {
			return err
		}
		if own[p] != nil {
			answered[p] = position.Later(answered[p], own[p].Src)
		}
	}
	err = r.loadErasures(ctx, func(p int) (uint64, error) { return position.Sequence(answered[p]), nil })
	if err != nil {
		return err
	}
	for p, e := range own {
		r.cursors[p].src = position.Later(r.cursors[p].src, answered[p])
		if e != nil {
			r.cursors[p].own = e.Seq
		}
	}
	if err := s.loadOutbox(); err != nil {
		return err
	}
	rd, last, err := s.openLedger(ctx)
	if err != nil {
		return err
	}
	defer rd.close()
	if last < s.oldest()+1 {
		s.ready()
	}
	s.reached = s.oldest()
	var leave func()
	s.calls, leave = cfg.Joint.join(cfg.Name)
	defer leave()
	return s.loop(ctx, rd, last, queries)
}

// lastOwn returns the stage's last entry in a partition, or nil if there is none. Seq is the sequence of the last
// message on the stage's subject, which is the fence, even if that message is not a valid entry.
func lastOwn(ctx context.Context, js jetstream.JetStream, p int, name string) (*streams.Entry, error) {
	subject := streams.LedgerSubject(p, name)
	m, err := lastOn(ctx, js, subject)
	if err != nil || m == nil {
		return nil, err
	}
	e, err := wire.RawEntry(m)
	if err == nil {
		return &e, nil
	}
	last := &streams.Entry{}
	err = Each(ctx, js, Span{Stream: streams.LedgerStream, Filters: []string{subject}, Headers: true},
		func(m jetstream.Msg, seq uint64, at time.Time) error {
			if e, err := streams.ParseEntry(m.Subject(), m.Headers(), nil, seq, at); err == nil {
				last = &e
			}
			return nil
		})
	last.Seq = max(last.Seq, m.Sequence)
	return last, err
}

// lastJoint returns the position of the last entry of a partition's last joint frame, or 0 if the stage has no entry in
// that frame. A stage that has one has answered every entry up to that position.
func lastJoint(ctx context.Context, js jetstream.JetStream, p int, name string) (uint64, error) {
	entries, err := LastEntries(ctx, js, streams.LedgerSubject(p, streams.StageJoint))
	if err != nil || !slices.ContainsFunc(entries, func(e streams.Entry) bool { return e.Stage == name }) {
		return 0, err
	}
	return entries[len(entries)-1].Position(), nil
}

// LastEntries returns the entries of the last valid message on a ledger subject, which may have wildcards, or nil if
// there is none. Other messages on the subject are ignored: an agent can make the server publish an acknowledgement
// there (docs/decisions/0006).
func LastEntries(ctx context.Context, js jetstream.JetStream, subject string) ([]streams.Entry, error) {
	m, err := lastOn(ctx, js, subject)
	if err != nil || m == nil {
		return nil, err
	}
	if entries, err := wire.RawEntries(m); err == nil {
		return entries, nil
	}
	var last []streams.Entry
	err = Each(ctx, js, Span{Stream: streams.LedgerStream, Filters: []string{subject}},
		func(m jetstream.Msg, _ uint64, _ time.Time) error {
			if entries, err := wire.Entries(m); err == nil {
				last = entries
			}
			return nil
		})
	return last, err
}

func (s *ledgerStage) loop(ctx context.Context, rd *ledgerReader, last uint64, queries <-chan Query) error {
	buf := make([]*arrival, 0, commitEvery)
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	for {
		buf = buf[:0]
		ticked := false
		select {
		case <-ctx.Done():
			return s.commit()
		case m := <-rd.msgs:
			rd.took(m)
			buf = rd.drain(append(buf, m))
		case q := <-queries:
			q.Run(s.states[q.Partition])
		case s.called = <-s.calls:
		case <-tick.C:
			ticked = true
		}
		var read uint64
		for _, m := range buf {
			if err := s.checkFollows(ctx, m); err != nil {
				return errors.Join(ended(ctx, err), s.commit())
			}
			entries, ok := s.entries(m)
			read = max(read, m.first().Seq)
			if !ok {
				continue
			}
			if err := s.steps(entries); errors.Is(err, errRefold) {
				if err := s.commit(); err != nil {
					return err
				}
				return errRefold
			} else if err != nil {
				return fmt.Errorf("stage %s, ledger entry %d: %w", s.cfg.Name, m.first().Seq, err)
			}
		}
		if read > 0 {
			// The reader delivers all partitions. So partitions without messages in this batch are also folded up to
			// this sequence.
			for _, p := range s.cfg.Partitions {
				s.cursors[p].folded = max(s.cursors[p].folded, read)
			}
			s.stats.Folded.Store(read)
			s.reached = max(s.reached, read)
			if read >= last {
				s.ready()
			}
		}
		if s.erasing || s.syncing {
			// Some entries report that state was dropped or synced. Publish them only after the commit that drops or
			// syncs the state.
			if err := s.commit(); err != nil {
				return err
			}
		}
		err := s.guardDue(ctx, s.oldest())
		if err == nil {
			err = s.flush(ctx)
		}
		if err != nil {
			if ctx.Err() != nil {
				return s.commit()
			}
			return err
		}
		// A commit can wait, because after a crash the stage folds the uncommitted entries again.
		if s.dirty += len(buf); s.dirty >= commitEvery || s.dirty > 0 && ticked {
			if err := s.commit(); err != nil {
				return err
			}
		}
		if err := s.answerCall(ctx); err != nil {
			return err
		}
		if ticked {
			if err := s.store.settle(); err != nil {
				return err
			}
		}
	}
}

// steps folds the entries of one message.
func (s *ledgerStage) steps(entries []streams.Entry) error {
	c := &s.cursors[entries[0].Partition]
	own, folded := c.own, c.folded
	for i := range entries {
		e := &entries[i]
		if e.Stage == s.cfg.Name && (e.Seq > own && !e.Joint || e.Seq > folded && e.Joint) {
			if err := s.confirm(e); err != nil {
				return err
			}
		}
		if e.Seq <= folded {
			continue
		}
		if err := s.step(e); err != nil {
			return err
		}
	}
	return nil
}

// step folds one entry, and adds the stage's output for it to the outbox.
func (s *ledgerStage) step(e *streams.Entry) error {
	c := &s.cursors[e.Partition]
	if s.refolds(e) {
		if err := errors.Join(s.forget(e), s.refold(e)); err != nil {
			return err
		}
		return errRefold
	}
	if s.skips(e) {
		c.folded = e.Seq
		return nil
	}
	out, err := s.fold.Step(s.states[e.Partition], e)
	if t := s.trimOf(e); t != nil && err == nil {
		if out, err = secured(t.ID, e.Seq); err == nil {
			s.syncing = true
		}
	}
	if err == nil && e.Type == streams.TypeForgotten && e.Stage == streams.StageIngest {
		if !s.decided(e) {
			err = s.forget(e)
		}
		if err == nil {
			err = s.requestRewrite()
		}
	}
	if err != nil {
		return err
	}
	c.folded = e.Seq
	s.stats.Entries.Add(1)
	s.alarms[e.Partition].known = false
	if out == nil || position.Compare(e.Position(), c.src) <= 0 || s.decided(e) {
		return nil // the fold returned no output, or the output was published before a restart or a refold
	}
	if out, err = s.fitting(out, e.Position()); err != nil {
		return err
	}
	s.push(&pending{live: out.Live, note: out.Note, since: time.Now(), entry: &streams.Entry{
		Partition: e.Partition, Stage: s.cfg.Name, Type: out.Type, Project: out.Project,
		Src: e.Position(), Salt: streams.NewSalt(), Body: out.Body,
	}})
	return nil
}

// decided reports whether the stage decided on an entry before the partition was folded again (see refold.go). The
// output is then in the ledger or in the outbox.
func (s *ledgerStage) decided(e *streams.Entry) bool { return e.Seq < s.erasures[e.Partition].upTo }

// forget removes from the outbox the outputs for all entries that e orders to forget. These are the entries of a whole
// project, or listed entries.
func (s *ledgerStage) forget(e *streams.Entry) error {
	gone := func(*streams.Entry) bool { return true }
	if e.Type == streams.TypeErased {
		listed := make(map[uint64]bool)
		for _, seq := range streams.Erasure(e.Body).Entries {
			listed[seq] = true
		}
		gone = func(b *streams.Entry) bool { return listed[position.Sequence(b.Src)] && b.Type != streams.TypeDue }
	}
	var keep []*pending
	for _, b := range s.outbox[e.Partition] {
		if b.entry.Project != e.Project || !gone(b.entry) {
			keep = append(keep, b)
			continue
		}
		s.stats.Waiting.Add(-1)
		if b.stored {
			if err := s.store.delete(outboxKey(e.Partition, b.entry.Src)); err != nil {
				return err
			}
		}
	}
	s.outbox[e.Partition] = keep
	return nil
}

// confirm removes the stage's own entry e, which was read back from the ledger, from the outbox.
func (s *ledgerStage) confirm(e *streams.Entry) error {
	c := &s.cursors[e.Partition]
	if !e.Joint {
		c.own = e.Seq
	}
	c.src = position.Later(c.src, e.Src)
	box := s.outbox[e.Partition]
	for len(box) > 0 && position.Compare(box[0].entry.Src, e.Src) <= 0 {
		if p := box[0]; position.Compare(p.entry.Src, e.Src) < 0 ||
			(p.entry.Src == e.Src && !bytes.Equal(p.entry.Body, e.Body)) {
			s.stats.Diverged.Add(1)
			s.log.Error("another process of this stage decided differently on the same entries; make sure that all processes "+
				"run the same version",
				"partition", e.Partition, "src", p.entry.Src, "entry", e.Seq)
		}
		if err := s.pop(e.Partition); err != nil {
			return err
		}
		box = s.outbox[e.Partition]
	}
	return nil
}

func (s *ledgerStage) push(p *pending) {
	s.outbox[p.entry.Partition] = append(s.outbox[p.entry.Partition], p)
	s.stats.Waiting.Add(1)
}

func (s *ledgerStage) pop(partition int) error {
	p := s.outbox[partition][0]
	s.outbox[partition] = s.outbox[partition][1:]
	s.stats.Waiting.Add(-1)
	if p.stored {
		return s.store.delete(outboxKey(partition, p.entry.Src))
	}
	return nil
}

// flush publishes the outboxes of the partitions in which this process is active. It becomes active in partitions in
// which an output has waited longer than the takeover time.
func (s *ledgerStage) flush(ctx context.Context) error {
	now := time.Now()
	var batch []*streams.Entry
	var oldest time.Time
	active := false
	for _, p := range s.cfg.Partitions {
		if err := s.timer(p, now); err != nil {
			return err
		}
		box := s.outbox[p]
		if !s.active[p] && len(box) > 0 && now.Sub(box[0].since) > s.cfg.Takeover {
			s.log.Info("taking over", "partition", p, "waiting", len(box))
			s.stats.TakenOver.Add(1)
			s.active[p] = true
		}
		if s.active[p] {
			active = true
			if len(box) > 0 && (oldest.IsZero() || box[0].since.Before(oldest)) {
				oldest = box[0].since
			}
			for _, b := range box {
				batch = append(batch, b.entry)
			}
		}
	}
	s.stats.Active.Store(active)
	s.setPending(oldest)
	if len(batch) == 0 {
		return nil
	}
	if !s.checked {
		// Check again for missing entries, which may have been removed during the fold, before anything is published.
		if err := s.guard(ctx, s.oldest()); err != nil {
			if refusal(err) {
				return err
			}
			s.stats.refused(err)
			s.log.Warn("entries wait for the ledger", "waiting", len(batch), "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		s.checked = true
	}
	var fences [streams.Partitions]uint64
	for p, c := range s.cursors {
		fences[p] = c.own
	}
	n, err := s.pub.publish(ctx, batch, nil, &fences)
	for _, e := range batch[:n] {
		c := &s.cursors[e.Partition]
		c.own, c.src = e.Seq, position.Later(c.src, e.Src)
		s.added(e, s.outbox[e.Partition][0].live, s.outbox[e.Partition][0].note)
		if err := s.pop(e.Partition); err != nil {
			return err
		}
	}
	s.stats.Published.Add(uint64(n))
	switch {
	case err == nil:
		s.setPending(time.Time{})
		return nil
	case errors.Is(err, errFenced):
		return s.standBy(ctx, batch[n:], &fences)
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		// The server is unavailable, or the ledger is full. The entries stay in the outbox, and the next flush tries
		// again.
		s.stats.refused(err)
		s.log.Warn("entries wait for the ledger", "waiting", len(batch)-n, "err", err)
		return sleep(ctx, 200*time.Millisecond)
	}
}

// standBy makes this process a stand-by in the partitions in which another process has added an entry. This process
// will read that entry. refused are the entries that the server did not store. fences has, for each partition, the
// sequence that this process expected to be the last one.
func (s *ledgerStage) standBy(ctx context.Context, refused []*streams.Entry, fences *[streams.Partitions]uint64) error {
	var checked [streams.Partitions]bool
	for _, e := range refused {
		p := e.Partition
		if checked[p] {
			continue
		}
		checked[p] = true
		m, err := lastOn(ctx, s.js, streams.LedgerSubject(p, s.cfg.Name))
		if err != nil {
			s.log.Warn("cannot read the last entry, so it is unknown which process publishes", "partition", p, "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		if m == nil || m.Sequence == fences[p] {
			continue // the server refused the whole publish because of an entry in another partition
		}
		s.active[p] = false
		s.stats.FenceLost.Add(1)
		s.log.Info("standing by", "partition", p)
		for _, b := range s.outbox[p] {
			b.since = time.Now()
		}
	}
	return nil
}

// alarm is the earliest timer of a partition, as LedgerFold.Timer last returned it.
type alarm struct {
	known bool // Timer was called since the last step
	at    time.Time
	due   *Output   // the entry to add once the timer has expired; nil if there is no timer
	past  time.Time // wall clock time at which the timer was first found to be due
	wrote time.Time // wall clock time at which this process last put due into the outbox
}

// timerRetry is how long a stage waits for its due entry to take effect before it adds another one. If the server's
// clock is behind the stage's, the due entry may get a time stamp before the timer's time; then it has no effect.
const timerRetry = 250 * time.Millisecond

// timer puts the due entry of an expired timer into the outbox. The wall clock decides only when the entry is added.
// Whether the entry has an effect is decided by ledger time when it is read back.
//
// A process that folds a partition again calls no timer before it has read all inputs that the stage has answered.
// Otherwise its due entry would name an earlier input than the stage's last entry in the ledger. Another fold from the
// beginning would then conclude that answers are missing, and publish them again.
func (s *ledgerStage) timer(p int, now time.Time) error {
	if s.cursors[p].folded < max(position.Sequence(s.cursors[p].src), s.erasures[p].upTo) {
		return nil
	}
	a := &s.alarms[p]
	if !a.known {
		at, due, ok, err := s.fold.Timer(s.states[p])
		if err != nil {
			return err
		}
		if !ok {
			due = nil
		}
		if due == nil || a.due == nil || !bytes.Equal(due.Body, a.due.Body) {
			*a = alarm{}
		}
		a.known, a.at, a.due = true, at, due
	}
	if a.due == nil || now.Before(a.at) || len(s.outbox[p]) > 0 {
		return nil
	}
	if a.past.IsZero() {
		a.past = now
	}
	if !s.active[p] {
		if now.Sub(a.past) <= s.cfg.Takeover {
			return nil
		}
		s.log.Info("taking over a timer", "partition", p)
		s.stats.TakenOver.Add(1)
		s.active[p] = true
	}
	if now.Sub(a.wrote) < timerRetry {
		return nil
	}
	a.wrote = now
	// The due entry names the last folded message as its input. If the stage has answered a later entry of that
	// message's frame, the due entry names that entry.
	src := position.Later(s.cursors[p].folded, s.cursors[p].src)
	due, err := s.fitting(a.due, src)
	if err != nil {
		return err
	}
	s.push(&pending{live: due.Live, note: due.Note, since: now, entry: &streams.Entry{
		Partition: p, Stage: s.cfg.Name, Type: due.Type, Project: due.Project,
		Src: src, Salt: streams.NewSalt(), Body: due.Body,
	}})
	return nil
}

// commit stores state, cursors and outbox in one batch. If a crash came after the cursors were stored and before the
// outbox was, outputs would be lost.
func (s *ledgerStage) commit() error {
	for _, p := range s.cfg.Partitions {
		for _, b := range s.outbox[p] {
			if b.stored {
				continue
			}
			v, err := streams.Marshal(b.entry)
			if err != nil {
				return err
			}
			if err := s.store.set(outboxKey(p, b.entry.Src), v); err != nil {
				return err
			}
			b.stored = true
		}
	}
	s.dirty = 0
	return s.runtime.commit()
}

func (s *ledgerStage) loadOutbox() error {
	for _, p := range s.cfg.Partitions {
		err := s.store.scan([]byte{spaceMeta, 'o', byte(p)}, func(_, v []byte) (bool, error) {
			e := new(streams.Entry)
			if err := streams.Unmarshal(v, e); err != nil {
				return false, fmt.Errorf("outbox of partition %d: %w", p, err)
			}
			if position.Compare(e.Src, s.cursors[p].src) <= 0 {
				return true, s.store.delete(outboxKey(p, e.Src))
			}
			// An earlier version may have stored an output that is too large to be published. Replace it by a rejected
			// entry.
			out, err := s.fitting(&Output{Type: e.Type, Project: e.Project, Body: e.Body}, e.Src)
			if err != nil {
				return false, err
			}
			e.Type, e.Body = out.Type, out.Body
			s.push(&pending{entry: e, since: time.Now(), stored: true})
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
