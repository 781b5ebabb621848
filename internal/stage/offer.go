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

// Offer is a proposal that a sender in this process passes to ingest without the intake. The intake then need not store
// the proposal first, so the verdict waits for only one sync, that of the ledger. If ingest declines it, the sender
// publishes it to the intake.
//
// Ingest takes an offer only if it has decided every message of the intake. So the proposal comes after everything that
// its agent has seen. In the order of ingest's inputs it comes right after the intake's last message: it has that
// message's sequence, and an index that no event of a batch has.
type Offer struct {
	msg       *Message // sequence and index are set by ingest
	answers   chan []streams.Entry
	decided   chan uint64
	concluded bool // set once decided has received its value; used only by ingest's loop
}

const (
	// offerWait is how long a sender waits for ingest to take an offer. It is short, because ingest takes an offer at
	// once if it is idle.
	offerWait = 100 * time.Microsecond
	// endWait is how long ingest waits for the server to say whether the intake has more messages.
	endWait = 50 * time.Millisecond
	// OffersEnd is one more than the largest index of an offered proposal. The limit keeps positions exact in JSON
	// numbers. Once OffersEnd is reached, ingest declines offers, and the declined proposals are published to the
	// intake. After the next message there, indexes begin anew.
	OffersEnd = 1 << 9
)

// Offer passes a proposal to ingest. a is the proposal's address, and m the message for the intake. If ingest does not
// take the proposal now, or if j is nil, Offer returns nil, and the caller must publish m to the intake.
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

// Answers returns a channel that receives the entries of the joint frame before they are stored. They are in the ledger
// only once Decided has sent a position. If the stages do not decide jointly, the channel receives nothing.
func (o *Offer) Answers() <-chan []streams.Entry { return o.answers }

// Decided returns a channel that receives one value: the proposal's position in the order of ingest's inputs, once the
// proposal's entry is in the ledger, or 0 if ingest declined the offer.
//
// If the server did not answer, the value is 0 although the entry may be in the ledger. The sender then publishes the
// proposal to the intake. If the entry is in the ledger, ingest treats the proposal as a repeat.
func (o *Offer) Decided() <-chan uint64 { return o.decided }

// offers returns the channel on which offers arrive, or nil if this process decides nothing jointly.
func (s *intakeStage) offers() <-chan *Offer {
	if s.cfg.Joint == nil {
		return nil
	}
	return s.cfg.Joint.offers
}

// offered decides on an offer jointly with the other stages, or declines it.
func (s *intakeStage) offered(ctx context.Context, o *Offer) error {
	defer o.conclude(0)
	p := o.msg.Address.Partition
	if s.queued+s.within+s.held > 0 || s.erasing || s.pauseLeft > 0 || s.known == 0 || !s.all() || !s.active[p] {
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
	s.assign([]*queued{q}, s.lineFor(lineOf(q.msg)), intakeHeld)
	s.push(q)
	s.stats.Offered.Add(1)
	s.store.early = q.msg.Address.Kind == streams.KindRecall
	err := s.together(ctx, []*queued{q}, asked)
	if l := q.line; !o.concluded && len(l.queue) > 0 && l.queue[0] == q {
		s.unqueue(l, 0) // the offer is declined, and the sender publishes the proposal to the intake
	}
	return err
}

const _ = uint(OffersEnd - 1 - streams.MaxBatch) // does not compile if the indexes of a batch leave none for offers

// nextIndex returns the index for an offer that comes after the last intake message that was read. No earlier offer
// after that message had this index.
func (s *intakeStage) nextIndex() int {
	if s.offersAfter != s.seen || s.offersNext == 0 {
		s.offersAfter, s.offersNext = s.seen, streams.MaxBatch
		for p := range s.decided { // offers that were decided before a restart
			if last := s.decided[p].last(); position.Sequence(last) == s.seen {
				s.offersNext = max(s.offersNext, position.Index(last)+1)
			}
		}
	}
	s.offersNext++
	return s.offersNext - 1
}

// atEnd reports whether ingest has read every message that is in the intake now. It returns false if the server does
// not answer.
func (s *intakeStage) atEnd() bool {
	next := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, s.seen+1)
	m, err := s.cfg.Conn.Request("$JS.API.DIRECT.GET."+streams.IntakeStream, next, endWait)
	return err == nil && m.Header.Get("Status") == "404"
}

// prepare sends the entries of a joint frame to the sender of the proposal. A nil Offer is ignored.
func (o *Offer) prepare(entries []*streams.Entry) {
	if o == nil {
		return
	}
	all := make([]streams.Entry, len(entries))
	for i, e := range entries {
		all[i] = *e
	}
	o.answers <- all // the buffer has room, because prepare is called once
}

// conclude tells the sender the proposal's position in the order of ingest's inputs, or 0 if ingest declines the offer.
// Later calls have no effect. A nil Offer is ignored.
func (o *Offer) conclude(at uint64) {
	if o != nil && !o.concluded {
		o.concluded = true
		o.decided <- at
	}
}
