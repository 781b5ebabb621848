package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// intakeQueue is the maximum number of queued messages. It is higher than streams.IntakePerSubject, the maximum number
// of messages on one subject. So even if all messages of a full subject are queued, messages of other projects behind
// them are read.
const intakeQueue = 32 << 10

// queued is an event that waits for its decision, or a batch that is not opened yet. A batch is opened when its turn
// comes. Until then it counts as one message. So one agent's batches do not fill the queue with their events.
type queued struct {
	msg   *Message
	since time.Time // wall clock time at which it was queued
	line  *line
	size  int  // bytes that the event takes in the intake
	lean  bool // set if the event's data and headers are not in memory; they are read again when it is decided
	// weight is the size of the whole stored message if this is the message's last undecided event, else 0.
	weight int
	why    *streams.RejectError // set if the event was shed: it is rejected without its data
	events int                  // number of events if it is a batch, else 0
	left   int                  // number of these events that are undecided
	parsed []streams.BatchEvent // the events of a batch, unless they would need too much memory
	// If not nil, this channel is closed once lookAhead has finished with the event. Until then, only lookAhead uses
	// read, and the data, the headers and Prepared of msg.
	early chan struct{}
	read  []*Message // result of lookAhead: all events of the stored message, or nil
	offer *Offer     // set if it is an offered proposal, which is not in the intake
}

// lineKey identifies a line, a queue of messages (see line). Control messages that concern no single project are in a
// line of their own for each partition, with an empty project. Shed messages, which are rejected because ingest has no
// room for them, also have a line of their own for each partition.
type lineKey struct {
	partition int
	project   string
	shed      bool
}

// A line has the queued messages of one project, in the order of the intake. They are decided in this order. When
// ingest makes a batch, it takes an equal share from each line in turn.
type line struct {
	lineKey
	queue    []*queued
	inFlight int // number of messages at the front of the line that are decided, but not known to be in the ledger
}

// commands reports whether this is the line of control messages that concern a whole partition. Other messages of the
// partition that arrived after a control message of this line are decided after it.
func (l *line) commands() bool { return l.project == "" && !l.shed }

// strays takes the place of the project in the lineKey of messages whose subject names no valid project.
const strays = "?"

// lineOf returns the key of a message's line.
func lineOf(m *Message) lineKey {
	k := lineKey{partition: m.Address.Partition, project: m.Address.Project}
	switch {
	case m.BadSubject != nil && k.project == "":
		k.project = strays
	case m.BadSubject == nil && m.Address.Kind == streams.KindCtl:
		k.project = streams.ControlProject(m.Data)
	}
	return k
}

// waits reports whether messages are queued in a partition in which this process is active.
func (s *intakeStage) waits() bool {
	return slices.ContainsFunc(s.turns, func(l *line) bool { return s.active[l.partition] && len(l.queue) > 0 })
}

// heads returns the oldest queued message of each partition, or nil for a partition without one.
func (s *intakeStage) heads() (heads [streams.Partitions]*queued) {
	for _, l := range s.turns {
		if len(l.queue) == 0 {
			continue
		}
		if h := &heads[l.partition]; *h == nil || before(l.queue[0], *h) {
			*h = l.queue[0]
		}
	}
	return heads
}

func before(a, b *queued) bool { return position.Compare(a.msg.Position(), b.msg.Position()) < 0 }

// arriving returns the channel of new messages, or nil while the queue is full.
func (s *intakeStage) arriving() <-chan jetstream.Msg {
	if s.queued >= intakeQueue {
		return nil
	}
	return s.in.msgs
}

// take queues a message, and then all further messages that have already arrived.
func (s *intakeStage) take(m jetstream.Msg) error {
	for {
		if err := s.enqueue(m); err != nil {
			return err
		}
		select {
		case m = <-s.arriving():
		default:
			return nil
		}
	}
}

// drainIntake queues the messages that have arrived.
func (s *intakeStage) drainIntake() error {
	select {
	case m := <-s.arriving():
		return s.take(m)
	default:
		return nil
	}
}

// smallEvent is an average size in bytes of a batch's events. The parsed events of an unopened batch stay in memory
// only if their average size is at least smallEvent. Parsed smaller events need too much memory.
const smallEvent = 256

func (s *intakeStage) enqueue(m jetstream.Msg) error {
	md, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("intake message without metadata: %w", err)
	}
	a, bad := streams.ParseIntake(m.Subject())
	seq := md.Sequence.Stream
	// Set only after the events are queued: settle counts a message up to seen as decided if it is not queued.
	defer func() { s.seen = seq }()
	if !s.mine[a.Partition] || seq < position.Sequence(s.decided[a.Partition].low) {
		return nil
	}
	now := time.Now()
	msg := &Message{Seq: seq, Time: md.Timestamp.UTC(), Subject: m.Subject(), Address: a, BadSubject: bad,
		Header: m.Headers(), Data: m.Data()}
	q := &queued{since: now, size: storedSize(msg), weight: storedSize(msg), msg: msg, parsed: batchOf(msg)}
	all := eachOf(msg, q.parsed)
	events := s.undecidedOf(q, all)
	if len(events) == 0 {
		if q.weight >= bulky {
			s.deletions.add(seq) // it is decided, but is still in the intake, for example after a restart
		}
		return nil
	}
	if why := s.backlog.over(senderOf(msg), q.weight); why != "" && a.Kind != streams.KindCtl {
		s.shed(events, why)
	} else {
		s.backlog.add(senderOf(msg), q.weight)
		if len(all) > 1 {
			q.events, q.left = len(all), len(events)
			if len(msg.Data) < len(all)*smallEvent {
				q.parsed = nil // these need more memory than the data, which is parsed again when the batch is opened
			}
			s.within += q.left - 1
			events = []*queued{q}
		}
		s.assign(events, s.lineFor(lineOf(msg)), intakeHeld)
	}
	s.push(events...)
	return nil
}

// push adds events to the ends of their lines.
func (s *intakeStage) push(events ...*queued) {
	for _, q := range events {
		q.line.queue = append(q.line.queue, q)
		s.queued++
	}
}

// undecidedOf returns those of the events of a queued message that are undecided. The last one gets the message's
// weight, because the stored message counts as decided once its last event is.
func (s *intakeStage) undecidedOf(q *queued, events []*Message) (undecided []*queued) {
	for _, e := range events {
		if !s.decided[e.Address.Partition].has(e.Position()) {
			undecided = append(undecided, &queued{since: q.since, size: storedSize(e), msg: e})
		}
	}
	if n := len(undecided); n > 0 {
		undecided[n-1].weight = q.weight
	}
	return undecided
}

// open replaces the batch at index i of a line by its undecided events. If the element there is no batch, it does
// nothing. It returns false if the intake does not answer.
func (s *intakeStage) open(ctx context.Context, l *line, i int) bool {
	q := l.queue[i]
	if q.events == 0 {
		return true
	}
	q.await()
	all := q.read
	if all == nil {
		var ok bool
		if all, ok = s.eventsIn(ctx, q); !ok {
			return false
		}
	}
	if all == nil { // the message was removed from the intake
		for i := range q.events {
			one := *q.msg
			one.Index = i
			all = append(all, &one)
		}
	}
	if !q.lean {
		s.held -= q.size
	}
	events := s.undecidedOf(q, all)
	s.assign(events, l, intakeHeld+intakeLoaded)
	l.queue = slices.Replace(l.queue, i, i+1, events...)
	s.queued += len(events) - 1
	s.within -= q.left - 1
	return true
}

// eventsIn returns the events of a queued message, and reads its data from the intake if it is not in memory. Its
// results are those of reread. It may run at the same time as the stage's loop.
func (s *intakeStage) eventsIn(ctx context.Context, q *queued) (events []*Message, ok bool) {
	switch {
	case q.lean:
		return s.reread(ctx, q.msg)
	case q.parsed != nil:
		return eachOf(q.msg, q.parsed), true
	default:
		return eventsOf(q.msg), true
	}
}

// storedSize returns how many bytes a message takes in the intake, without the server's overhead.
func storedSize(m *Message) int {
	n := len(m.Subject) + len(m.Data)
	for k, vs := range m.Header {
		for _, v := range vs {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// assign sets q.line of each event to l. While the queued data takes fewer than room bytes, the data of the events
// stays in memory. Once the queued data takes that many bytes, the data of events larger than leanFrom is dropped.
func (s *intakeStage) assign(events []*queued, l *line, room int) {
	for _, q := range events {
		q.line = l
		if s.held+q.size > room && q.size > leanFrom {
			q.dropData()
		} else {
			s.held += q.size
		}
	}
}

// dropData drops the message's data and headers from memory.
func (q *queued) dropData() {
	q.lean, q.msg.Data, q.msg.Header, q.msg.Prepared, q.parsed = true, nil, nil, nil, nil
}

// lineFor returns the line with a key. If there is none, it makes one, which gets the last turn.
func (s *intakeStage) lineFor(k lineKey) *line {
	l := s.lines[k]
	if l == nil {
		l = &line{lineKey: k}
		s.lines[k] = l
		s.turns = append(s.turns, l)
	}
	return l
}

// eventsOf returns the events of a message as messages: the events of a batch, or only m if m is not a batch.
func eventsOf(m *Message) []*Message { return eachOf(m, batchOf(m)) }

// batchOf returns the events of a message if it is a valid batch. If it is an invalid batch, batchOf sets m.Bad.
func batchOf(m *Message) (events []streams.BatchEvent) {
	if m.BadSubject == nil && m.Address.Kind != streams.KindCtl && streams.IsBatch(m.Header) {
		events, m.Bad = streams.ParseBatch(m.Address.Kind, m.Data)
	}
	return events
}

// eachOf returns a message for each of a batch's events. If there are none, it returns the message itself.
func eachOf(m *Message, events []streams.BatchEvent) []*Message {
	if len(events) == 0 {
		return []*Message{m}
	}
	all := make([]*Message, len(events))
	for i, e := range events {
		one := *m
		one.Index, one.Bad, one.Data, one.Header = i, e.Bad, e.Data, nats.Header{streams.HeaderCloudEventID: {e.ID}}
		if trace := m.Header.Get(streams.HeaderTraceparent); trace != "" {
			one.Header.Set(streams.HeaderTraceparent, trace)
		}
		all[i] = &one
	}
	return all
}

// unqueue removes the message at index i from a line, because the message is decided.
func (s *intakeStage) unqueue(l *line, i int) {
	q := l.queue[i]
	if i == 0 {
		l.queue = l.queue[1:]
	} else {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	if i < l.inFlight {
		l.inFlight--
	}
	s.queued--
	if !q.lean {
		s.held -= q.size
	}
	if q.why == nil && q.weight > 0 {
		s.backlog.remove(senderOf(q.msg), q.weight)
	}
}

// prune removes the message with position input from its line, because the ledger has a decision on it already: that of
// another process, or of this process before a restart. The message need not be at the front, because another process
// may have shed messages out of order.
func (s *intakeStage) prune(p int, input uint64) {
	for _, l := range s.turns {
		if l.partition != p {
			continue
		}
		i, ok := slices.BinarySearchFunc(l.queue, input, at)
		if !ok && i > 0 && l.queue[i-1].msg.Seq == position.Sequence(input) && l.queue[i-1].events > 0 {
			i, ok = i-1, true
		}
		if !ok {
			continue
		}
		if q := l.queue[i]; q.left > 1 {
			q.left--
			s.within--
		} else {
			s.unqueue(l, i)
		}
		return
	}
}

// resetInFlight sets the number of decided messages of each line to 0, after their decisions were dropped.
func (s *intakeStage) resetInFlight() {
	for _, l := range s.turns {
		l.inFlight = 0
	}
}

// load reads the data of the messages in batch that were queued without data. If the intake does not answer, it returns
// false, and the messages stay queued.
//
// A stored batch is read once for all its events. So load also sets the data of later events of that stored batch,
// while there is room.
func (s *intakeStage) load(ctx context.Context, batch []*queued) bool {
	var seq uint64
	var events []*Message // of the message that was read last
	for _, q := range batch {
		if !q.lean || q.why != nil {
			continue
		}
		q.await()
		if q.msg.Seq != seq {
			if events = q.read; events == nil {
				var ok bool
				if events, ok = s.reread(ctx, q.msg); !ok {
					return false
				}
			}
			seq = q.msg.Seq
			s.loadBehind(q, events)
		}
		s.fill(q, events)
	}
	return true
}

// reread reads the events of a message from the intake. ok is false if the intake does not answer. events is nil if the
// message was removed. Ingest then decides on its events as if they were empty.
func (s *intakeStage) reread(ctx context.Context, m *Message) (events []*Message, ok bool) {
	raw, err := messageNear(ctx, s.js, streams.IntakeStream, m.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, true
	}
	if err != nil {
		s.stats.refused(err)
		s.log.Warn("cannot read a queued message from the intake; it stays queued", "seq", m.Seq, "err", err)
		return nil, false
	}
	whole := *m
	whole.Index, whole.Header, whole.Data = 0, raw.Header, raw.Data
	return eventsOf(&whole), true
}

// loadBehind sets the data of q and of the events behind q that are from the same message, while there is room.
func (s *intakeStage) loadBehind(q *queued, events []*Message) {
	from, _ := slices.BinarySearchFunc(q.line.queue, q.msg.Position(), at)
	for _, b := range q.line.queue[from:] {
		if b.msg.Seq != q.msg.Seq || s.held+b.size > intakeHeld+intakeLoaded {
			return
		}
		s.fill(b, events)
	}
}

// eventAt returns the event of a stored message that has the index of m, or nil if there is none. There is none if the
// message was removed, or if the intake was created again and the sequence is that of another message.
func eventAt(events []*Message, m *Message) *Message {
	if m.Index >= len(events) {
		return nil
	}
	return events[m.Index]
}

// fill sets the data of an event that has none in memory. events are the events of its message, or nil if the message
// was removed.
func (s *intakeStage) fill(q *queued, events []*Message) {
	if !q.lean {
		return
	}
	q.await()
	if e := eventAt(events, q.msg); e != nil {
		q.msg.Data, q.msg.Header, q.msg.Prepared = e.Data, e.Header, e.Prepared
	}
	q.lean, q.read = false, nil
	s.held += q.size
}

// recallCost is a size in bytes. In the size of a batch, a recall counts as that many bytes, unless it is larger. A
// recall of some bytes may get an entry of 64 KiB, which ingest, the sentinels and the arbiter read. So the number of
// recalls in a batch is limited, and they do not delay the messages of other projects for long.
const recallCost = 64 << 10

// cost returns how many bytes the event counts in the size of a batch: its size, or recallCost if that is larger and it
// is a recall.
func (q *queued) cost() int {
	if q.why == nil && q.msg.Address.Kind == streams.KindRecall {
		return max(q.size, recallCost)
	}
	return q.size
}

// at compares the position of a queued message with position p.
func at(q *queued, p uint64) int { return position.Compare(q.msg.Position(), p) }

// undecided returns the lines that have undecided messages in partitions in which this process is active. Lines with
// control messages come first, then the others in the order of their turns. Lines of shed messages are left out.
// undecided also removes empty lines.
func (s *intakeStage) undecided() []*line {
	var commands, others []*line
	s.turns = slices.DeleteFunc(s.turns, func(l *line) bool {
		if len(l.queue) == 0 {
			delete(s.lines, l.lineKey)
			return true
		}
		if !s.active[l.partition] || s.unsure[l.partition] || l.inFlight == len(l.queue) || l.shed {
			return false
		}
		if l.commands() {
			commands = append(commands, l)
		} else {
			others = append(others, l)
		}
		return false
	})
	return append(commands, others...)
}

// next returns the next batch of undecided messages: first the messages that are shed, then an equal share of messages
// and bytes from each line, see queued.cost. If the maximum size of a batch does not suffice for one message of each
// line, the first line that got none comes first in the next batch.
//
// Control messages that concern a whole partition come first. If one must wait for the next batch, messages that
// arrived after it wait too.
//
// If proposals is false and the batch would contain a proposal, next returns only the messages that are shed, and no
// line uses its turn. If the intake does not answer, next returns false.
func (s *intakeStage) next(ctx context.Context, proposals bool) ([]*queued, bool) {
	lines := s.undecided()
	shed := s.sheds()
	var batch []*queued
	var fence [streams.Partitions]*queued // By partition: the first control message that must wait for the next batch
	var waiting *line                     // the first line that got no message
	var soon []*queued                    // messages that probably come next
	size := 0
	for _, l := range lines {
		if f := fence[l.partition]; f != nil && before(f, l.queue[l.inFlight]) {
			continue
		}
		if !s.open(ctx, l, l.inFlight) {
			return nil, false
		}
		head := l.queue[l.inFlight]
		if size > 0 && size+head.cost() > intakeBatchBytes || len(batch) >= intakeBatch {
			if waiting == nil {
				waiting = l
			}
			if l.commands() {
				fence[l.partition] = head
			}
			continue
		}
		share, i, end := 0, l.inFlight, l.inFlight+max(intakeBatch/len(lines), 1)
		for ; i < min(len(l.queue), end) && share < intakeBatchBytes/len(lines); i++ {
			if f := fence[l.partition]; f != nil && before(f, l.queue[i]) {
				break
			}
			if !s.open(ctx, l, i) {
				return nil, false
			}
			q := l.queue[i]
			if share += q.cost(); i > l.inFlight && share > intakeBatchBytes/len(lines) {
				break
			}
			batch, size = append(batch, q), size+q.cost()
		}
		if l.commands() && i < len(l.queue) {
			fence[l.partition] = l.queue[i]
		}
		soon = append(soon, l.soon(i, end-l.inFlight, intakeBatchBytes/len(lines))...)
	}
	if !proposals && slices.ContainsFunc(batch, (*queued).proposal) {
		return shed, true
	}
	if waiting != nil {
		i := slices.Index(s.turns, waiting)
		s.turns = slices.Concat(s.turns[i:], s.turns[:i])
	}
	s.lookAhead(ctx, soon)
	return append(shed, batch...), true
}
