package stage

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// Offer is a proposal that a sender in this process passes to ingest without the intake. If ingest
// decides on it, the ledger is the first place that stores it, so its verdict waits for one sync. If
// ingest declines it, the sender publishes it to the intake.
//
// Ingest takes an offer only if it has decided every message of the intake. So the proposal comes
// after everything that its agent has seen. Its place is behind the intake's last message: it has that
// message's sequence and an index that no event of a batch has.
type Offer struct {
	msg       *Message // without its place
	answers   chan []streams.Entry
	decided   chan uint64
	concluded bool // decided has its value; ingest's loop owns it
}

const (
	// offerWait is how long a sender waits until ingest takes an offer. It is short because ingest is
	// idle if it can take one.
	offerWait = 100 * time.Microsecond
	// endWait is how long ingest waits until the server says whether the intake has more messages.
	endWait = 50 * time.Millisecond
	// OffersEnd is one more than the largest index of an offered proposal. With it, positions are exact
	// in JSON. After the last one, the next proposal takes the way through the intake.
	OffersEnd = 1 << 9
)

// Offer passes a proposal to ingest. It returns nil if ingest does not take it now. The caller must
// then publish it to the intake.
func (j *Joint) Offer(a streams.Address, m *nats.Msg) *Offer {
	if j == nil || !j.Offers || !j.offering.TryLock() {
		return nil
	}
	defer j.offering.Unlock()
	subject := streams.IntakePrefix + strconv.Itoa(a.Partition) + "." + strings.TrimPrefix(m.Subject, streams.IntakePrefix)
	o := &Offer{
		msg: &Message{Time: time.Now().UTC().Round(0), Subject: subject, Address: a, Header: maps.Clone(m.Header),
			Data: m.Data},
		answers: make(chan []streams.Entry, 1), decided: make(chan uint64, 1)}
	timeout := time.NewTimer(offerWait)
	defer timeout.Stop()
	select {
	case j.offers <- o:
		return o
	case <-timeout.C:
		return nil
	}
}

// Answers returns a channel with the entries of the joint frame. They are not in the ledger before
// Decided. If the stages do not decide jointly, nothing comes.
func (o *Offer) Answers() <-chan []streams.Entry { return o.answers }

// Decided returns a channel with the proposal's position in the order of ingest's inputs, once its
// entry is in the ledger. A 0 means that ingest declined the offer.
//
// After a 0 the entry may still be in the ledger, if the server did not answer. The proposal that the
// sender then publishes is a repeat of it.
func (o *Offer) Decided() <-chan uint64 { return o.decided }

// offers returns the channel of offers, or nil.
func (s *intakeStage) offers() <-chan *Offer {
	if s.cfg.Joint == nil {
		return nil
	}
	return s.cfg.Joint.offers
}

// offered decides on an offer together with the other stages, or declines it.
func (s *intakeStage) offered(ctx context.Context, o *Offer) error {
	defer o.conclude(0)
	p := o.msg.Address.Partition
	if s.queued+s.within+s.held > 0 || s.erasing || s.blind > 0 || s.known == 0 || !s.all() || !s.active[p] {
		return nil
	}
	if err := s.readOn(ctx); err != nil {
		return err
	}
	q := &queued{msg: o.msg, since: time.Now(), size: storedSize(o.msg), offer: o}
	if _, ok := s.joins(q); !ok {
		return nil
	}
	o.msg.Seq, o.msg.Index = s.seen, s.nextIndex()
	if o.msg.Index >= OffersEnd || s.decided[p].has(o.msg.Position()) || !s.atEnd() {
		return nil
	}
	asked := s.cfg.Joint.ask(ctx, p, s.known)
	s.hold([]*queued{q}, s.lineFor(lineOf(q.msg)), intakeHeld)
	s.push(q)
	s.stats.Offered.Add(1)
	s.store.early = q.msg.Address.Kind == streams.KindRecall
	err := s.together(ctx, []*queued{q}, asked)
	if l := q.line; !o.concluded && len(l.queue) > 0 && l.queue[0] == q {
		s.unqueue(l, 0) // the sender publishes it
	}
	return err
}

const _ = uint(OffersEnd - 1 - streams.MaxBatch) // a batch leaves room for offers

// nextIndex returns an index behind the last message that was read, which no earlier offer had.
func (s *intakeStage) nextIndex() int {
	if s.offersAfter != s.seen || s.offersNext == 0 {
		s.offersAfter, s.offersNext = s.seen, streams.MaxBatch
		for p := range s.decided { // before a restart
			if last := s.decided[p].last(); position.Sequence(last) == s.seen {
				s.offersNext = max(s.offersNext, position.Index(last)+1)
			}
		}
	}
	s.offersNext++
	return s.offersNext - 1
}

// atEnd asks the server whether ingest has read every message that is in the intake now.
func (s *intakeStage) atEnd() bool {
	next := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, s.seen+1)
	m, err := s.cfg.Conn.Request("$JS.API.DIRECT.GET."+streams.IntakeStream, next, endWait)
	return err == nil && m.Header.Get("Status") == "404"
}

// prepare passes the entries of a joint frame to the sender of its proposal.
func (o *Offer) prepare(entries []*streams.Entry) {
	if o == nil {
		return
	}
	all := make([]streams.Entry, len(entries))
	for i, e := range entries {
		all[i] = *e
	}
	o.answers <- all // it has room for one
}

// conclude tells the sender the proposal's position in the ledger's order of inputs, or 0. Only the
// first call counts.
func (o *Offer) conclude(at uint64) {
	if o != nil && !o.concluded {
		o.concluded = true
		o.decided <- at
	}
}
