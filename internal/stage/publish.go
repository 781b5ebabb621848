package stage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// If a backlog waits, entries that may share a message are published in frames. If few entries wait, each gets its own
// message, because some readers can read only single entries.
//
// If many messages wait, they are published in an atomic batch. The server writes a file for each atomic batch. With
// sync_always, that costs about as much as a dozen single publishes. So fewer messages than batchFrom are published
// singly.
const (
	frameFrom = 16 // minimum number of entries in a frame
	// Maximum number of entries in a frame; it is below streams.MaxFrame, the most that readers accept.
	frameMost = 128
	// Maximum size in bytes of all bodies in a frame, unless a single body is larger. It is small because the server
	// copies each message for each reader into a buffer that it then reuses for other messages. So the buffer of a
	// small message may be as large as the largest frame.
	frameMostSize = 256 << 10
	batchFrom     = 12      // minimum number of messages in an atomic batch
	batchMaxMsgs  = 500     // maximum number; the server's limit is 1,000
	batchMaxBytes = 4 << 20 // maximum size of the bodies in bytes

	// A server that dies, or a cluster without a leader, never answers, and a stage cannot continue while it waits. So
	// requests time out and are sent again. Publishing an entry again is safe, because the stage recognizes an entry
	// that is already in the ledger by its salt.
	ackTimeout = 3 * time.Second
	askTries   = 4

	errCodeWrongLastSeq      = 10071 // JSStreamWrongLastSequenceErrF
	errCodeWrongLastSeqConst = 10164 // JSStreamWrongLastSequenceConstantErr
)

// pubAck is the server's acknowledgement of a message or of an atomic batch.
type pubAck struct {
	Sequence uint64              `json:"seq"`   // sequence of the last message
	Count    int                 `json:"count"` // number of messages in the batch
	Error    *jetstream.APIError `json:"error"`
}

// errFenced reports that another process of the same stage added an entry first.
var errFenced = errors.New("another process of this stage added an entry first")

// errUnmoved reports that the server refused a publish because of a wrong expected sequence, although no other process
// of the stage has added an entry in the partition of the publish's last entry. So the expected sequence of another
// partition, or of the whole ledger, was wrong.
var errUnmoved = fmt.Errorf("%w in another partition, or the ledger does not end with the expected sequence", errFenced)

// errBehind reports that the server refused an entry because the ledger has entries that the stage had not read when it
// decided.
var errBehind = errors.New("the ledger has entries that were not read before the decision")

// publisher adds entries to the ledger. Each publish is fenced: the server accepts it only if the last message on the
// stage's subject has the expected sequence.
type publisher struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	stage string // token of the ledger subject
	open  bool   // set streams.HeaderOpen: joint frames may follow
}

// Publisher adds entries to the ledger in the same messages as a stage would. A benchmark uses it to measure the server
// without a stage. Only one goroutine at a time may use a Publisher.
type Publisher struct {
	publisher
	fences [streams.Partitions]uint64
}

// NewPublisher returns a Publisher for a stage that has no entry in the ledger.
func NewPublisher(js jetstream.JetStream, stage string) *Publisher {
	return &Publisher{publisher: publisher{nc: js.Conn(), js: js, stage: stage}}
}

// Publish adds entries in order and sets their sequences. Adjacent entries of one project share frames.
func (p *Publisher) Publish(ctx context.Context, entries []*streams.Entry) error {
	_, err := p.publish(ctx, entries, func(i int) string { return entries[i].Project }, &p.fences)
	return err
}

// publish adds entries in order, and sets their Seq and Index. fences has the last sequence on the stage's subject by
// partition, and is updated. publish returns the number of entries that are certainly in the ledger. If the error is
// errFenced, the other entries are certainly not in the ledger. After any other error, some of them may be.
//
// Entries may share a message if together returns the same non-empty value for them. If together is nil, no entries
// may.
func (p *publisher) publish(ctx context.Context, entries []*streams.Entry, together func(i int) string,
	fences *[streams.Partitions]uint64) (int, error) {
	done := 0
	for all := frames(entries, together); len(all) > 0; {
		n := batchLen(all)
		var err error
		if n == 1 {
			err = p.send(ctx, all[0], wire.Msg(all[0]...), fences)
		} else {
			err = p.batch(ctx, all[:n], fences)
		}
		if err != nil {
			return done, err
		}
		for _, f := range all[:n] {
			done += len(f)
		}
		all = all[n:]
	}
	return done, nil
}

// A frame is the list of entries that share one message.
type frame []*streams.Entry

// frames groups entries into messages, without changing their order.
func frames(entries []*streams.Entry, together func(i int) string) []frame {
	all := make([]frame, 0, len(entries))
	for from := 0; from < len(entries); {
		n := 1
		if together != nil && len(entries)-from >= frameFrom {
			n = run(entries[from:], func(i int) string { return together(from + i) })
		}
		if n >= frameFrom {
			all, from = append(all, entries[from:from+n]), from+n
			continue
		}
		for range n {
			all, from = append(all, entries[from:from+1]), from+1
		}
	}
	return all
}

// run returns how many entries at the start of the list may share one message.
func run(entries []*streams.Entry, together func(i int) string) int {
	first, key, size := entries[0], together(0), len(entries[0].Body)
	if key == "" || !first.Type.Framed() {
		return 1
	}
	for i := 1; i < len(entries); i++ {
		e := entries[i]
		size += len(e.Body)
		if i == frameMost || size > frameMostSize || !e.Type.Framed() || e.Partition != first.Partition ||
			e.Project != first.Project || e.At != first.At || together(i) != key {
			return i
		}
	}
	return len(entries)
}

// batchLen returns how many of the messages to publish next: 1 for a single publish, or the size of an atomic batch.
func batchLen(all []frame) int {
	if len(all) < batchFrom {
		return 1
	}
	size := 0
	for i, f := range all {
		for _, e := range f {
			size += len(e.Body)
		}
		if i > 0 && (size > batchMaxBytes || i == batchMaxMsgs) {
			return i
		}
	}
	return len(all)
}

// atEnd publishes one entry on the condition that the last sequence of the ledger is end. If it is not, atEnd returns
// errBehind, and the entry is not in the ledger.
func (p *publisher) atEnd(ctx context.Context, e *streams.Entry, fences *[streams.Partitions]uint64, end uint64) error {
	m := wire.Msg(e)
	m.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(end, 10)}
	err := p.send(ctx, frame{e}, m, fences)
	if errors.Is(err, errUnmoved) {
		return errBehind
	}
	return err
}

func (p *publisher) send(ctx context.Context, f frame, m *nats.Msg, fences *[streams.Partitions]uint64) error {
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fences[f[0].Partition], 10)}
	p.mark(m)
	ack, err := p.request(ctx, m)
	if err == nil {
		number([]frame{f}, ack.Sequence, fences)
		return nil
	}
	return p.settleLostAck(ctx, []frame{f}, fences, err)
}

func (p *publisher) mark(m *nats.Msg) {
	if p.open {
		m.Header[streams.HeaderOpen] = []string{"1"}
	}
}

func (p *publisher) batch(ctx context.Context, all []frame, fences *[streams.Partitions]uint64) error {
	id := nuid.Next()
	var fenced [streams.Partitions]bool
	for i, f := range all {
		e, m := f[0], wire.Msg(f...)
		p.mark(m)
		// In an atomic batch, only the first message on each subject may have an expected sequence. The server checks
		// it for the whole batch.
		if !fenced[e.Partition] {
			fenced[e.Partition] = true
			m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fences[e.Partition], 10)}
		}
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		if i < len(all)-1 {
			if err := p.nc.PublishMsg(m); err != nil {
				return fmt.Errorf("publishing a batch of %d messages: %w", len(all), err)
			}
			continue
		}
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		ack, err := p.request(ctx, m)
		if err != nil {
			return p.settleLostAck(ctx, all, fences, err)
		}
		if ack.Count != len(all) {
			return fmt.Errorf("batch %s: the server acknowledged %d of %d messages", id, ack.Count, len(all))
		}
		number(all, ack.Sequence, fences)
	}
	return nil
}

// number sets Seq and Index of the entries of consecutive messages, of which the last one got sequence last.
func number(all []frame, last uint64, fences *[streams.Partitions]uint64) {
	seq := last - uint64(len(all))
	for _, f := range all {
		seq++
		for i, e := range f {
			e.Seq, e.Index, fences[e.Partition] = seq, i, seq
		}
	}
}

// settleLostAck determines, after a publish failed with cause, whether the entries are in the ledger nevertheless. That
// is possible because an acknowledgement can be lost. The stage then repeats the publish, and the server refuses it,
// because the first attempt has changed the last sequence.
func (p *publisher) settleLostAck(ctx context.Context, all []frame, fences *[streams.Partitions]uint64,
	cause error) error {
	final := all[len(all)-1]
	last := final[len(final)-1] // the headers of a frame have the salt and input of its last entry
	raw, err := lastOn(ctx, p.js, streams.LedgerSubject(last.Partition, p.stage))
	if err != nil {
		return errors.Join(cause, err)
	}
	if raw != nil {
		got, err := wire.RawEntry(raw)
		if err == nil && got.Salt == last.Salt && got.Src == last.Src {
			// So all entries of this publish are in the ledger, because the server stores them together or not at all.
			number(all, raw.Sequence, fences)
			return nil
		}
		if raw.Sequence != fences[last.Partition] {
			return errFenced
		}
	} else if fences[last.Partition] != 0 {
		return fmt.Errorf("ledger subject %s lost its last entry %d: the stream was recreated or purged",
			streams.LedgerSubject(last.Partition, p.stage), fences[last.Partition])
	}
	if isFenceError(cause) {
		// Another process added an entry in another partition of the batch, or the server has not finished an earlier
		// publish of this process.
		return errUnmoved
	}
	return cause
}

func (p *publisher) request(ctx context.Context, m *nats.Msg) (*pubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	r, err := p.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("publishing to %s: %w", m.Subject, err)
	}
	var ack pubAck
	if err := streams.Unmarshal(r.Data, &ack); err != nil {
		return nil, fmt.Errorf("publishing to %s: unreadable acknowledgement: %w", m.Subject, err)
	}
	if ack.Error != nil {
		return nil, fmt.Errorf("publishing to %s: %w", m.Subject, ack.Error)
	}
	return &ack, nil
}

func isFenceError(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == errCodeWrongLastSeq || api.ErrorCode == errCodeWrongLastSeqConst)
}

// lastOn returns the last message of the ledger on a subject, or nil if there is none. The subject may have wildcards.
func lastOn(ctx context.Context, js jetstream.JetStream, subject string) (*jetstream.RawStreamMsg, error) {
	return LastOn(ctx, js, streams.LedgerStream, subject)
}

// LastOn returns the last message of a stream on a subject, or nil if there is none. The subject may have wildcards.
func LastOn(ctx context.Context, js jetstream.JetStream, stream, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := message(ctx, js, stream, struct {
		Last string `json:"last_by_subj"`
	}{subject})
	if err != nil {
		return nil, fmt.Errorf("asking for the last message on %s: %w", subject, err)
	}
	return m, nil
}

// messageAt returns the message of a stream with sequence seq, or the error jetstream.ErrMsgNotFound.
func messageAt(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) (*jetstream.RawStreamMsg,
	error) {
	m, err := message(ctx, js, stream, struct {
		Seq uint64 `json:"seq"`
	}{seq})
	if err == nil && m == nil {
		err = jetstream.ErrMsgNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading message %d of %s: %w", seq, stream, err)
	}
	return m, nil
}

// messageNear is like messageAt, but faster for a message that is probably in the stream. It first sends a direct get,
// whose answer is the message itself and not JSON. A replica that lags may answer that there is no such message. The
// same answer results if the stored message has headers like those of an error. In both cases, messageNear asks the
// leader.
func messageNear(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) (*jetstream.RawStreamMsg,
	error) {
	soon, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	m, err := js.Conn().RequestWithContext(soon, "$JS.API.DIRECT.GET."+stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err == nil {
		if raw := wire.Direct(m, seq); raw != nil {
			return raw, nil
		}
	}
	return messageAt(ctx, js, stream, seq)
}

// EntryAt returns the ledger entry at a position, or the error jetstream.ErrMsgNotFound. If no stage wrote the message,
// ReadEntry returns an error. EntryAt returns an entry with only the fields that could be read.
func EntryAt(ctx context.Context, js jetstream.JetStream, at uint64) (streams.Entry, error) {
	e, err := ReadEntry(ctx, js, at)
	if err != nil && e.Seq > 0 {
		return e, nil
	}
	return e, err
}

// message returns the message of a stream that a request selects, or nil if there is none. It asks the stream's leader,
// because a replica, which may lag, could answer a direct get.
func message(ctx context.Context, js jetstream.JetStream, stream string, request any) (*jetstream.RawStreamMsg, error) {
	req, err := streams.Marshal(request)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		soon, cancel := context.WithTimeout(ctx, ackTimeout)
		m, err := ask(soon, js.Conn(), "$JS.API.STREAM.MSG.GET."+stream, req)
		cancel()
		var api *jetstream.APIError
		again := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) ||
			errors.As(err, &api) && api.Code == 503
		if !again || try == askTries || ctx.Err() != nil {
			return m, err
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func ask(ctx context.Context, nc *nats.Conn, subject string, req []byte) (*jetstream.RawStreamMsg, error) {
	m, err := nc.RequestWithContext(ctx, subject, req)
	if err != nil {
		return nil, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := streams.Unmarshal(m.Data, &resp); err != nil {
		return nil, err
	}
	if resp.Error != nil {
		if resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, nil
		}
		return nil, resp.Error
	}
	if resp.Message == nil {
		return nil, errors.New("empty answer")
	}
	var h nats.Header
	if len(resp.Message.Header) > 0 { // copies on the live stream have none
		// Any publisher can send malformed headers. Treat such headers as missing.
		h, _ = nats.DecodeHeadersMsg(resp.Message.Header)
		h = wire.Stored(h)
	}
	return &jetstream.RawStreamMsg{Subject: resp.Message.Subject, Sequence: resp.Message.Seq, Header: h,
		Data: resp.Message.Data, Time: resp.Message.Time}, nil
}
