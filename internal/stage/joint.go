package stage

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Joint lets the stages of one process decide a proposal together: ingest's entry, the sentinels' assessments and the
// verdict are published in one message, a joint frame. So a verdict waits for one sync of the ledger instead of three.
//
// Ingest leads. It decides on the proposal and passes its entry to the other stages, with the sequence and time that
// the entry will have. They fold the entry and answer. Each stage also folds the others' answers, until no stage
// answers any more. The message is published on the condition that the ledger ends right before that sequence. So the
// server either stores the message at the sequence for which the stages decided, or refuses it. If the server refuses
// it, each stage discards what it folded.
//
// A stage takes part only if it has folded the whole ledger and has nothing to publish.
type Joint struct {
	// Elsewhere, if set, reports whether a sentinel group may run outside of this process. The credential of such a
	// group may cover only ingest's own subject, so that it cannot read joint frames. While Elsewhere returns true,
	// nothing is decided jointly. Ingest calls it for each proposal.
	Elsewhere func() bool

	// Offers is set if the front of this process may pass proposals to ingest without the intake. That requires that
	// this process runs the server too: the proposals' times then come from the server's clock, and no replica of the
	// intake lags behind.
	Offers bool

	pub   *publisher
	names []string // names of the other stages, in the order in which they answer
	// retired is the age from which the last entry of a group of another process no longer counts. It is
	// groupRetired, except in tests.
	retired time.Duration

	offers   chan *Offer
	offering sync.Mutex // held by the caller of Offer whose offer waits for ingest

	mu    sync.Mutex
	calls map[string]chan *call // for each running stage, by name, the channel to it; guarded by mu
}

const (
	// jointWait is how long ingest waits for the other stages to say that they take part.
	jointWait = 5 * time.Millisecond
	// jointFresh is the maximum age of a proposal that is decided jointly. The entries of a joint frame have the
	// proposal's time, so their time is at most this old.
	jointFresh = time.Second
	// jointMost is the maximum number of entries in a joint frame.
	jointMost = 32
	// groupRetired is how long a sentinel group of another process counts after its last entry. Credentials that
	// `lazaret up` creates are valid for this long. Elsewhere covers groups whose credential is valid for longer.
	groupRetired = 30 * 24 * time.Hour
)

// Alone is a reason why a proposal was not decided jointly.
type Alone int

const (
	AloneLoad   Alone = iota // several messages were decided at once, or speculation is paused
	AloneClaim               // another process may still publish a joint frame: see claim
	AloneGroup               // a sentinel group runs outside of this process, or the verdict has to wait for such a group
	AloneTime                // the proposal was older than jointFresh, or the clock was set back
	AloneBehind              // a stage had not folded the whole ledger, or had entries to publish
	AloneLarge               // the answers were too large, too many, or in another project
	AloneVain                // the server refused the joint frame because the ledger had more entries, or did not answer
	alones
)

// String returns the reason as the label of the metric.
func (a Alone) String() string {
	return [...]string{"load", "claim", "group", "time", "behind", "large", "vain"}[a]
}

// Alones returns all reasons, in the order of their values.
func Alones() []Alone {
	out := make([]Alone, alones)
	for i := range out {
		out[i] = Alone(i)
	}
	return out
}

// NewJoint returns a Joint for ingest and the given other stages of this process. nc must be allowed to publish joint
// frames.
func NewJoint(nc *nats.Conn, stages ...string) (*Joint, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Joint{pub: &publisher{nc: nc, js: js, stage: streams.StageJoint}, names: stages,
		retired: groupRetired, offers: make(chan *Offer), calls: make(map[string]chan *call)}, nil
}

// join returns the channel on which a stage receives calls. The stage must call leave when it ends. With a nil Joint,
// the channel is nil.
func (j *Joint) join(name string) (calls <-chan *call, leave func()) {
	if j == nil {
		return nil, func() {}
	}
	ch := make(chan *call)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[name] = ch
	return ch, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.calls, name)
	}
}

// call asks one stage to take part in a round. Ingest creates it.
type call struct {
	partition int
	end       uint64                // sequence at which the ledger ends
	turns     chan []*streams.Entry // from ingest: entries to fold
	replies   chan answers          // from the stage: first whether it takes part, then its answers to each turn
	stored    chan bool             // from ingest, once, at the end: whether the entries are in the ledger
}

// answers are the entries that a stage adds in one turn. ok is false if the stage does not take part.
type answers struct {
	entries []*streams.Entry
	ok      bool
}

// round is the joint decision of one proposal.
type round struct {
	partition int
	last      uint64 // sequence at which the ledger ends
	calls     []*call
	entries   []*streams.Entry // the proposal's entry and all answers so far
	size      int              // size of their bodies in bytes
	folded    []int            // for each call, the number of entries that its stage has folded
}

// question is a round before its proposal is decided: the other stages are asked whether they take part.
type question struct {
	round *round
	ok    bool // all stages take part; set before done is closed
	done  chan struct{}
}

// ask asks the other stages whether they take part in deciding a proposal, given that the ledger ends with sequence
// end. A stage that folds entries and then has to drop them loses its indexes. So all stages are asked before any of
// them folds. The caller must call decide or cancel.
func (j *Joint) ask(ctx context.Context, partition int, end uint64) *question {
	a := &question{round: &round{partition: partition, last: end}, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		timeout := time.NewTimer(jointWait)
		defer timeout.Stop()
		for _, name := range j.names {
			if !j.call(ctx, a.round, name, timeout) {
				return
			}
		}
		a.ok = a.round.joined(ctx, timeout)
	}()
	return a
}

// cancel ends a round in which no stage has folded anything.
func (a *question) cancel() {
	<-a.done
	a.round.end(false)
}

// decide lets the other stages answer a proposal. It returns nil and the reason if there is no joint decision.
// Otherwise the caller must call round.end.
func (a *question) decide(ctx context.Context, proposal *streams.Entry) (*round, Alone) {
	<-a.done
	r, why, ok := a.round, AloneBehind, a.ok
	if ok {
		r.add(proposal)
		why, ok = r.answer(ctx)
	}
	if !ok {
		r.end(false)
		return nil, why
	}
	return r, 0
}

// answer lets all stages fold the entries of the round, and the answers to these, until no stage answers any more. ok
// is false if there is no joint decision; why is then the reason.
func (r *round) answer(ctx context.Context) (why Alone, ok bool) {
	for r.behind() {
		if !r.fits() {
			return AloneLarge, false
		}
		if !r.turn(ctx) {
			return AloneBehind, false
		}
	}
	if !slices.ContainsFunc(r.entries, func(e *streams.Entry) bool { return e.Type == streams.TypeVerdict }) {
		return AloneGroup, false // the verdict has to wait for a group of another process
	}
	return 0, true
}

// fits reports whether the entries can share a message.
func (r *round) fits() bool {
	return len(r.entries) <= jointMost && r.size <= streams.MaxFrameBytes &&
		!slices.ContainsFunc(r.entries, func(e *streams.Entry) bool { return e.Project != r.entries[0].Project })
}

// behind reports whether a stage has not folded every entry.
func (r *round) behind() bool {
	return slices.ContainsFunc(r.folded, func(n int) bool { return n < len(r.entries) })
}

func (r *round) add(e *streams.Entry) {
	e.Seq, e.Index, e.Joint = r.last+1, len(r.entries), true
	r.entries = append(r.entries, e)
	r.size += len(e.Body)
}

// call calls one stage, and reports whether the stage received the call before the timeout.
func (j *Joint) call(ctx context.Context, r *round, name string, timeout *time.Timer) bool {
	j.mu.Lock()
	ch := j.calls[name]
	j.mu.Unlock()
	if ch == nil {
		return false
	}
	c := &call{partition: r.partition, end: r.last, turns: make(chan []*streams.Entry, 1),
		replies: make(chan answers, 1), stored: make(chan bool, 1)}
	select {
	case ch <- c:
		r.calls, r.folded = append(r.calls, c), append(r.folded, 0)
		return true
	case <-timeout.C:
	case <-ctx.Done():
	}
	return false
}

// joined reports whether all stages that were called take part.
func (r *round) joined(ctx context.Context, timeout *time.Timer) bool {
	for _, c := range r.calls {
		select {
		case a := <-c.replies:
			if !a.ok {
				return false
			}
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// turn lets all stages fold, at the same time, the entries that they have not folded, and adds their answers to the
// round. It returns false if a stage no longer takes part.
func (r *round) turn(ctx context.Context) bool {
	n := len(r.entries)
	for i, c := range r.calls {
		if r.folded[i] < n {
			c.turns <- r.entries[r.folded[i]:n]
		}
	}
	for i, c := range r.calls {
		if r.folded[i] == n {
			continue
		}
		r.folded[i] = n
		select {
		case a := <-c.replies:
			if !a.ok {
				return false
			}
			for _, e := range a.entries {
				e.Time = r.entries[0].Time
				r.add(e)
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// end tells the stages whether the entries of the round are in the ledger.
func (r *round) end(stored bool) {
	for _, c := range r.calls {
		c.stored <- stored
	}
}

// errUnsure reports that a joint frame may be in the ledger, or may be stored later.
var errUnsure = errors.New("a joint frame may be in the ledger, or may be stored later")

// jointMsg returns the message with the entries of a joint frame. The server stores it only if the ledger ends with
// sequence end, and if fence is the last sequence on ingest's own subject. jointMsg returns an error if no reader would
// accept the entries.
func jointMsg(entries []*streams.Entry, end, fence uint64) (*nats.Msg, error) {
	first := entries[0]
	f := streams.JointFrame(entries, first.Time)
	if _, err := streams.ParseEntries(f.Subject, f.Header, f.Body, end+1, time.Now()); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: f.Subject, Header: f.Header, Data: f.Body}
	m.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(end, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fence, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{streams.LedgerSubject(first.Partition, first.Stage)}
	return m, nil
}

// publish adds a joint frame to the ledger. seq is the sequence that it must get. If the error is errBehind, the frame
// is certainly not in the ledger.
func (j *Joint) publish(ctx context.Context, m *nats.Msg, seq uint64) error {
	ack, err := j.pub.request(ctx, m)
	switch {
	case err == nil && ack.Sequence == seq:
		return nil
	case err == nil:
		err = fmt.Errorf("the ledger has a joint frame at %d, expected at %d", ack.Sequence, seq)
	case isFenceError(err):
		return errBehind // the message was sent only once, so it did not fail because an earlier attempt had stored it
	}
	// It is unknown whether the message is stored: a leader may refuse it after it has passed it on to other servers.
	return errors.Join(errUnsure, err)
}

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

// countAlone counts the proposals of a batch that are not decided jointly.
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

// readOn folds the ledger messages that have arrived. Without them, the server would refuse the decision.
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

// isOtherGroup reports whether a stage is a sentinel group that another process runs. The group's credential may cover
// only ingest's own subject. So proposals are published there while the group exists.
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

// together decides a proposal jointly. If a stage does not take part, it publishes ingest's entry alone. asked is the
// question to the other stages.
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
		case why == AloneLarge && len(e.Body) <= streams.MaxFrameBytes: // some stages folded the proposal, and drop it now
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
			goruntime.Gosched() // let the sender answer its client before the stages go on
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

// findOpen sets unsure: in these partitions another process may still publish a joint frame. It may do so if the last
// entry on ingest's own subject has streams.HeaderOpen, because the process that wrote the entry may still run. If the
// last message there is not a valid entry, such an entry may be before it. findOpen also records the partitions in
// which sentinel groups of other processes write.
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
		err := Patiently(ctx, s.log, "its last entry", func() (err error) {
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
		m, err := lastOn(ctx, s.js, subject)
		if err != nil {
			return err
		}
		if m != nil && info.State.LastTime.Sub(m.Time) < s.cfg.Joint.retired {
			s.noteOtherGroup(p, stage)
		}
	}
	return nil
}

// claim makes sure that no other process can still publish a joint frame in a partition, and reports whether it
// succeeded. It must be called before anything is decided for the partition.
//
// A joint frame does not move the fence of ingest's own subject. So a process that looked only at that fence could
// decide on a message that a joint frame has decided. If such a frame may still come, claim adds an entry that changes
// nothing to ingest's own subject. Every joint frame is stored on the condition that the subject's last sequence is
// unchanged, so later frames are refused. Then claim folds the ledger up to its entry.
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
		return false, nil // another process added an entry first, or the server does not answer
	}
	if err := s.foldTo(ctx, s.cursors[p].own); err != nil {
		return false, err
	}
	s.unsure[p] = false
	return true, s.endForRefold()
}

// answerCall takes part in a joint decision, once the stage has folded every entry before it.
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
	defer close(c.replies) // so that ingest does not wait for a stage that has ended
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

// dropJoint drops the folded entries of a joint frame that was not stored. A stage that has folded none of them keeps
// its indexes.
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
