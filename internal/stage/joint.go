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

// Joint lets the stages of one process decide a proposal together: ingest's entry, the assessments
// and the verdict are published in one message, so that a verdict waits for one sync of the ledger
// instead of three.
//
// Ingest leads. It decides on the proposal and passes its entry to the other stages, which fold it
// with the sequence and time that it will have, and answer. Each stage folds the answers too, until
// none has more to say. The message is published on the condition that the ledger ends before that
// sequence, so that it is stored where it was decided for or not at all. If it is not stored, each
// stage discards what it folded.
//
// A stage takes part only if it has folded the ledger up to there and has nothing to publish.
type Joint struct {
	// Elsewhere, if set, reports whether a sentinel group may run outside of this process. Such a
	// group may be unable to read joint frames, because its credential covers only ingest's own
	// subject. So nothing is decided jointly then. Ingest calls Elsewhere for each proposal.
	Elsewhere func() bool

	// Offers is set if the front of this process may pass proposals to ingest without the intake. It must run
	// the server too: times come from its clock, and no replica of the intake lags behind.
	Offers bool

	pub   *publisher
	names []string // stages that take part, in the order in which they answer
	// retired is the age at which the last entry of a group of another process no longer counts.
	retired time.Duration

	offers   chan *Offer
	offering sync.Mutex // held by the sender whose offer waits

	mu    sync.Mutex
	calls map[string]chan *call // guarded by mu
}

const (
	// jointWait is how long ingest waits until the other stages take part.
	jointWait = 5 * time.Millisecond
	// jointFresh is the maximum age of a proposal that is decided together. The entries of a joint
	// frame have the proposal's time, so their time is at most this old.
	jointFresh = time.Second
	// jointMost is the maximum number of entries in a joint frame.
	jointMost = 32
	// groupRetired is how long a sentinel group of another process counts after its last entry. It
	// is the time for which a credential that `lazaret up` creates is valid. Elsewhere covers a
	// group whose credential is valid for longer.
	groupRetired = 30 * 24 * time.Hour
)

// Alone is the reason why the stages did not decide a proposal together.
type Alone int

const (
	AloneLoad   Alone = iota // the proposal waited with others, or earlier speculation failed
	AloneClaim               // this process did not write the last entry on ingest's own subject
	AloneGroup               // a sentinel group runs outside of this process, or is waited for
	AloneTime                // it was older than a second, or the clock was set back
	AloneBehind              // a stage had not folded the ledger or had entries to publish
	AloneLarge               // the answers were too large, too many, or of another project
	AloneVain                // the ledger had more entries, or did not answer
	alones
)

// String returns the value of the metric's label.
func (a Alone) String() string {
	return [...]string{"load", "claim", "group", "time", "behind", "large", "vain"}[a]
}

// Alones returns all reasons.
func Alones() []Alone {
	out := make([]Alone, alones)
	for i := range out {
		out[i] = Alone(i)
	}
	return out
}

// NewJoint returns a Joint for ingest and the given other stages of this process. The connection
// must be allowed to publish joint frames.
func NewJoint(nc *nats.Conn, stages ...string) (*Joint, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Joint{pub: &publisher{nc: nc, js: js, stage: streams.StageJoint}, names: stages,
		retired: groupRetired, offers: make(chan *Offer), calls: make(map[string]chan *call)}, nil
}

// join returns the channel on which a stage receives calls. The stage calls leave when it ends.
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

// call asks a stage to take part in a decision.
type call struct {
	partition int
	end       uint64                // the ledger ends here
	turns     chan []*streams.Entry // entries to fold
	said      chan answers          // first whether it takes part, then one for each turn
	stored    chan bool             // whether the entries are in the ledger; sent once
}

// answers are the entries that a stage adds. ok is false if it does not take part.
type answers struct {
	entries []*streams.Entry
	ok      bool
}

// round is one decision.
type round struct {
	partition int
	last      uint64 // the ledger ends here
	calls     []*call
	entries   []*streams.Entry
	size      int
	folded    []int // number of entries that each called stage has folded
}

// question asks the other stages whether they take part in a round.
type question struct {
	round *round
	ok    bool // all stages take part
	done  chan struct{}
}

// ask asks the other stages whether they take part in deciding a proposal, if the ledger ends with a
// sequence. A stage that has folded loses its indexes if the round is dropped. So all stages are asked
// before one folds. The caller must call decide or cancel.
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

// cancel ends a round in which no stage has folded.
func (a *question) cancel() {
	<-a.done
	a.round.end(false)
}

// decide lets the other stages answer a proposal. It returns nil and the reason if there is no joint
// decision. Otherwise the caller must end the round.
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

// answer lets all stages fold the entries until none answers. If there is no joint decision, ok is false
// and why is the reason.
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
		return AloneGroup, false // the verdict waits for a group of another process
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

// call asks one stage, and reports whether the stage has heard it.
func (j *Joint) call(ctx context.Context, r *round, name string, timeout *time.Timer) bool {
	j.mu.Lock()
	ch := j.calls[name]
	j.mu.Unlock()
	if ch == nil {
		return false
	}
	c := &call{partition: r.partition, end: r.last, turns: make(chan []*streams.Entry, 1),
		said: make(chan answers, 1), stored: make(chan bool, 1)}
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
		case a := <-c.said:
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

// turn lets the stages fold the entries that they have not folded, all at the same time, and adds
// their answers.
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
		case a := <-c.said:
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

// end tells the stages whether the entries are in the ledger.
func (r *round) end(stored bool) {
	for _, c := range r.calls {
		c.stored <- stored
	}
}

// errUnsure reports that a joint frame may be in the ledger, or may still get there.
var errUnsure = errors.New("a joint frame may be in the ledger")

// jointMsg returns the message with the entries of a joint frame. Its conditions are that the ledger
// ends with sequence end, and that fence is the last sequence on ingest's own subject. jointMsg fails
// if no reader would accept the entries.
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

// publish adds a joint frame to the ledger, where it gets the sequence seq. If the error is errBehind, it is
// not in the ledger.
func (j *Joint) publish(ctx context.Context, m *nats.Msg, seq uint64) error {
	ack, err := j.pub.request(ctx, m)
	switch {
	case err == nil && ack.Sequence == seq:
		return nil
	case err == nil:
		err = fmt.Errorf("the ledger has a joint frame at %d, expected at %d", ack.Sequence, seq)
	case isFenceError(err):
		return errBehind // the message was sent once, so it was not refused because of itself
	}
	// The error does not show whether the message is stored: a leader that refuses it may have
	// passed it on to other servers.
	return errors.Join(errUnsure, err)
}

// joins reports whether to decide a proposal together with the other stages, and otherwise why not.
func (s *intakeStage) joins(q *queued) (Alone, bool) {
	p, j := q.msg.Address.Partition, s.cfg.Joint
	switch {
	case s.foreigners[p] || s.waited[p] > 0 || j.Elsewhere != nil && j.Elsewhere():
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

// alone counts proposals that are not decided together.
func (s *intakeStage) alone(why Alone, batch ...*queued) {
	if s.cfg.Joint == nil {
		return
	}
	for _, q := range batch {
		if q.proposal() {
			s.stats.Alone[why].Add(1)
		}
	}
}

// readOn folds the ledger messages that have arrived. A decision without them would be dropped.
func (s *intakeStage) readOn(ctx context.Context) error {
	if len(s.ledger.msgs) == 0 {
		return nil
	}
	if err := s.drainLedger(ctx); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	return s.commitFolded()
}

// others reports whether a stage is a sentinel group of another process. Its credential may cover
// only ingest's own subject, so proposals are published there.
func (s *intakeStage) others(stage string) bool {
	_, ok := streams.SentinelGroup(stage)
	return ok && s.cfg.Joint != nil && !slices.Contains(s.cfg.Joint.names, stage)
}

// notices records that a group of another process writes to a partition. findForeigners finds the
// groups that wrote before the start.
func (s *intakeStage) notices(p int, stage string) {
	if s.in == nil || !s.others(stage) {
		return
	}
	s.foreigners[p] = true
	if !slices.Contains(s.told, stage) {
		s.told = append(s.told, stage)
		s.log.Info("a sentinel group that this process does not run writes to the ledger: proposals in its partitions are "+
			"not decided jointly", "stage", stage, "partition", p)
	}
}

// together decides a proposal with the other stages of the process. If they do not take part, its
// entry is published alone.
func (s *intakeStage) together(ctx context.Context, batch []*queued, asked *question) error {
	f := s.flight()
	f.end = s.known
	if err := s.admit(f, batch); err != nil {
		asked.cancel()
		return err
	}
	q := batch[0]
	if len(f.entries) != 1 || s.refolding || s.erasing || !f.entries[0].Type.Proposal() {
		asked.cancel()
		return s.fly(ctx, f)
	}
	own := f.entries[0]
	e := *own
	e.Time, e.Decoded = s.jointTime(q), f.outs[0].Decided
	if e.Time.After(time.Now()) { // a reader refuses a time that is much later than the time stamp
		asked.cancel()
		s.alone(AloneTime, batch...)
		return s.fly(ctx, f)
	}
	r, why := asked.decide(ctx, &e)
	if r == nil {
		switch {
		case why == AloneGroup:
			s.waited[e.Partition] = mistaken
		case why == AloneLarge && len(e.Body) <= streams.MaxFrameBytes: // some stages folded the proposal for nothing
			s.blind = mistaken
		}
		s.alone(why, batch...)
		return s.fly(ctx, f)
	}
	m, unreadable := jointMsg(r.entries, f.end, s.cursors[e.Partition].own)
	if unreadable != nil {
		r.end(false)
		s.log.Error("a proposal and its answers do not make a joint frame, they are published alone", "intake", q.msg.Seq,
			"err", unreadable)
		s.blind = mistaken
		s.alone(AloneLarge, batch...)
		return s.fly(ctx, f)
	}
	q.offer.prepare(r.entries)
	s.cfg.Feed.announce([]*streams.Entry{own}, func(int) any { return f.outs[0].Decided })
	f.err = s.cfg.Joint.publish(ctx, m, f.end+1)
	if f.err == nil {
		if q.offer != nil {
			q.offer.conclude(own.Src)
			goruntime.Gosched() // the sender answers its client before the stages go on
		}
	}
	r.end(f.err == nil)
	if f.err == nil {
		own.Seq, own.Joint, f.n, f.joint = e.Seq, true, 1, r.entries
		s.jointAt = e.Time
		s.stats.Joint.Add(1)
	} else {
		s.alone(AloneVain, batch...)
		s.blind = mistaken
	}
	s.unsure[e.Partition] = errors.Is(f.err, errUnsure) // joins required that unsure was false
	if err := s.land(ctx, f); err != nil || f.err != nil {
		return err
	}
	return s.again()
}

// jointTime returns the time of the entries of a joint frame: when the proposal came, but not before the
// entries that lie before it in the ledger.
func (s *intakeStage) jointTime(q *queued) time.Time {
	at := q.msg.Time.UTC()
	for _, t := range []time.Time{s.due.at, s.jointAt} {
		if at.Before(t) {
			at = t
		}
	}
	return at
}

// landJoint marks the entries of a published joint frame as read, and commits.
func (s *intakeStage) landJoint(f *flight) error {
	seq := f.entries[0].Seq
	s.read = max(s.read, seq)
	s.stats.Folded.Store(s.read)
	s.queueAnswers(f.joint)
	return s.commitFolded()
}

// queueAnswers queues the entries of other stages in a joint frame.
func (s *intakeStage) queueAnswers(entries []*streams.Entry) {
	for _, e := range entries {
		if e.Stage != s.cfg.Name && s.fold.Relevant(e) {
			s.foreign[e.Partition] = append(s.foreign[e.Partition], e)
			s.owes[e.Partition] = s.owes[e.Partition] || s.fold.Wakes(e)
		}
	}
}

// fromJoint handles a joint frame that was read.
func (s *intakeStage) fromJoint(entries []streams.Entry) error {
	e := &entries[0]
	if e.Seq <= s.cursors[e.Partition].folded {
		return nil
	}
	if s.allows[e.Partition] && !s.unsure[e.Partition] {
		s.stats.Diverged.Add(1)
		s.log.Error("another process published a joint frame, which only this process may do: who has a credential "+
			"that can make the server write to the ledger?", "partition", e.Partition, "entry", e.Seq)
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

// findOpen reads in which partitions a joint frame may still come. A frame may come if the last
// entry on ingest's own subject allows joint frames, because the process that wrote it may still
// run, and if the last message there is not an entry, because it may hide such an entry. findOpen
// also reads in which partitions the ledger has entries of sentinel groups of other processes.
func (s *intakeStage) findOpen(ctx context.Context) error {
	if s.cfg.Joint != nil {
		err := Patiently(ctx, s.log, "who wrote to the ledger", func() error { return s.findForeigners(ctx) })
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

// findForeigners reads in which partitions the ledger has a recent entry of a sentinel group of
// another process. The last entry of a group that no longer exists stays in the ledger, so its age
// counts. The age is the time between this entry and the ledger's last entry, by the server's
// clock.
func (s *intakeStage) findForeigners(ctx context.Context) error {
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
		if err != nil || !s.others(stage) {
			continue
		}
		m, err := lastOn(ctx, s.js, subject)
		if err != nil {
			return err
		}
		if m != nil && info.State.LastTime.Sub(m.Time) < s.cfg.Joint.retired {
			s.notices(p, stage)
		}
	}
	return nil
}

// claim makes sure that no joint frame of another process can still come in a partition, and
// reports whether it succeeded. Call it before deciding anything for the partition.
//
// A joint frame does not move the fence of ingest's own subject. So a process that relied on the
// fence alone could decide a message that a frame has decided. If a frame may still come, claim
// adds an entry that changes nothing. That entry moves the fence on which every joint frame depends
// too. Then claim folds the ledger up to that entry.
func (s *intakeStage) claim(ctx context.Context, p int) (bool, error) {
	if !s.unsure[p] {
		return true, nil
	}
	out, err := NewOutput(streams.TypeClaim, streams.SystemProject, struct{}{})
	if err != nil {
		return false, err
	}
	at, held, own := s.read, s.foreign, s.cursors[p].own
	if err := s.applyForeign(p, at); err != nil {
		return false, err
	}
	if err := s.add(ctx, p, &Admission{Output: *out}, at, held); err != nil {
		return false, err
	}
	if s.cursors[p].own == own || !s.active[p] {
		return false, nil // another process was faster, or the server does not answer
	}
	if err := s.foldTo(ctx, s.cursors[p].own); err != nil {
		return false, err
	}
	s.unsure[p] = false
	return true, s.again()
}

// answerCall takes part in a joint decision once every entry before it is folded.
func (s *ledgerStage) answerCall(ctx context.Context) error {
	c := s.called
	if c == nil {
		return nil
	}
	select {
	case <-c.stored:
		s.called = nil // ingest did not wait
		return nil
	default:
	}
	if s.reached < c.end {
		return nil
	}
	s.called = nil
	if s.reached > c.end || !s.active[c.partition] || len(s.outbox[c.partition]) > 0 || !s.speaks(ctx) {
		c.said <- answers{}
		return nil
	}
	if err := s.commit(); err != nil {
		return err
	}
	c.said <- answers{ok: true}
	defer close(c.said) // ingest must not wait for a stage that has ended
	cursors := s.cursors
	folded := 0
	var made []*pending
	for {
		select {
		case more := <-c.turns:
			outs, err := s.foretell(more)
			if err != nil {
				c.said <- answers{}
				return fmt.Errorf("stage %s, an entry after %d: %w", s.cfg.Name, c.end, err)
			}
			folded += len(more)
			a := answers{ok: true}
			for _, b := range outs {
				a.entries = append(a.entries, b.entry)
			}
			made = append(made, outs...)
			c.said <- a
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

// speaks reports whether the stage may publish: see ledgerStage.flush.
func (s *ledgerStage) speaks(ctx context.Context) bool {
	s.spoke = s.spoke || s.guard(ctx, s.oldest()) == nil
	return s.spoke
}

// foretell folds entries that are not in the ledger yet, and returns the new outputs.
func (s *ledgerStage) foretell(entries []*streams.Entry) ([]*pending, error) {
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

// keepJoint keeps the folded entries of a joint frame, which is now in the ledger.
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
	return s.commit() // now, and not when the next proposal comes
}

// dropJoint drops the folded entries of a joint frame that is not in the ledger. A stage that
// folded none keeps its indexes.
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
