package stage

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

// Offer is a proposal that its sender publishes to the intake while ingest already decides on it. So
// the intake's sync and the decision take place at the same time.
//
// Ingest decides as if the message were the next one of the intake. It publishes the decision only
// after the server acknowledged the message with that sequence. Otherwise it drops the decision, and
// makes it again when it reads the message.
type Offer struct {
	msg       *Message // without its sequence
	stored    chan uint64
	answers   chan []streams.Entry
	published chan struct{}
}

// offerWait is how long ingest waits until a message that it decided on is in the intake.
const offerWait = 50 * time.Millisecond

// offerBytes is the maximum size of an offered proposal. The server may take longer than offerWait to store
// a larger one.
const offerBytes = 64 << 10

// Offer passes a proposal to ingest that the caller is about to publish to the intake. The caller
// must call Stored afterwards. Ingest ignores an offer while it has other work. Offer returns nil if
// an earlier one waits, if the proposal is large, and if j is nil.
func (j *Joint) Offer(a streams.Address, m *nats.Msg) *Offer {
	if j == nil || len(m.Data) > offerBytes {
		return nil
	}
	subject := streams.IntakePrefix + strconv.Itoa(a.Partition) + "." + strings.TrimPrefix(m.Subject, streams.IntakePrefix)
	o := &Offer{
		msg: &Message{Time: time.Now().UTC().Round(0), Subject: subject, Address: a, Header: maps.Clone(m.Header),
			Data: m.Data},
		stored: make(chan uint64, 1), answers: make(chan []streams.Entry, 1), published: make(chan struct{})}
	select {
	case j.offers <- o:
		return o
	default:
		return nil
	}
}

// Stored says which sequence the message has in the intake, or 0 if it may not be there.
func (o *Offer) Stored(seq uint64) {
	if o != nil {
		o.stored <- seq
	}
}

// Answers returns a channel with the entries of the joint frame. They are not in the ledger before
// Published. If the stages do not decide jointly, nothing comes.
func (o *Offer) Answers() <-chan []streams.Entry {
	if o == nil {
		return nil
	}
	return o.answers
}

// Published returns a channel that is closed once the joint frame is in the ledger.
func (o *Offer) Published() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.published
}

// offers returns the channel of offers, or nil.
func (s *intakeStage) offers() <-chan *Offer {
	if s.cfg.Joint == nil {
		return nil
	}
	return s.cfg.Joint.offers
}

// offered decides on an offer together with the other stages. It ignores the offer if the message
// may not be the next one to decide: then ingest reads it from the intake.
func (s *intakeStage) offered(ctx context.Context, o *Offer) error {
	p := o.msg.Address.Partition
	s.missed = max(s.missed-1, 0)
	if s.queued+s.within+s.held > 0 || s.blind > 0 || s.known == 0 || !s.all() || !s.active[p] || len(o.stored) > 0 ||
		s.missed > 0 && (s.missedOf == (sender{}) || s.missedOf == senderOf(o.msg)) {
		return nil
	}
	if err := s.readOn(ctx); err != nil {
		return err
	}
	o.msg.Seq = s.seen + 1
	q := &queued{msg: o.msg, since: time.Now(), size: storedSize(o.msg), weight: storedSize(o.msg), offer: o}
	if _, ok := s.joins(q); !ok || s.decided[p].has(q.msg.Position()) {
		return nil
	}
	s.backlog.add(senderOf(q.msg), q.weight)
	s.hold([]*queued{q}, s.lineFor(lineOf(q.msg)), intakeHeld)
	s.push(q)
	s.stats.Offered.Add(1)
	s.store.early = q.msg.Address.Kind == streams.KindRecall
	return s.together(ctx, []*queued{q})
}

// arrived waits until an offered message is in the intake. If it is not there, or not with the
// sequence that ingest assumed, arrived drops the decision and returns false.
func (s *intakeStage) arrived(ctx context.Context, f *flight, q *queued) (bool, error) {
	if q.offer == nil {
		return true, nil
	}
	timeout := time.NewTimer(offerWait)
	defer timeout.Stop()
	var seq uint64
	refused := false
	select {
	case seq = <-q.offer.stored:
		refused = seq == 0
	case <-timeout.C:
	case <-ctx.Done():
	}
	q.offer = nil
	if seq == q.msg.Seq {
		s.seen = seq
		return true, nil
	}
	blind := s.blind
	err := s.undo(ctx, f.entries, 0, f.held, errBehind)
	s.blind, s.missed, s.missedOf = blind, mistaken, sender{}
	if refused {
		s.missedOf = senderOf(q.msg) // other senders' messages may be taken
	}
	s.unqueue(q.line, 0)
	return false, err
}

// answered passes the entries of a joint frame to the sender of its proposal.
func (o *Offer) answered(entries []*streams.Entry) {
	if o == nil {
		return
	}
	all := make([]streams.Entry, len(entries))
	for i, e := range entries {
		all[i] = *e
	}
	o.answers <- all // it has room for one
}

// succeed tells the sender that the joint frame is in the ledger.
func (o *Offer) succeed() {
	if o != nil {
		close(o.published)
	}
}
