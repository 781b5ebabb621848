package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// Reader reads the ledger by direct gets, so that its credential need not be allowed to create
// consumers. A credential that may create consumers can make the server deliver messages to the
// inboxes of other credentials. A Reader is not safe for concurrent use.
type Reader struct {
	Conn   *nats.Conn
	recent map[uint64]*streams.Entry
	ring   []uint64
	size   int // bytes in recent
}

const (
	batchEntries = 256     // entries per direct get
	batchBytes   = 4 << 20 // bytes per direct get
	keepRecent   = 4096    // entries kept in memory, because verdicts refer to recent proposals
	keepBytes    = 32 << 20
	readTimeout  = 10 * time.Second
)

var directGet = "$JS.API.DIRECT.GET." + streams.LedgerStream

// Last returns the last sequence of the ledger.
func (r *Reader) Last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := r.Conn.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+streams.LedgerStream, nil)
	if err != nil {
		return 0, fmt.Errorf("reading the ledger's stream info: %w", err)
	}
	var info struct {
		State struct {
			Last uint64 `json:"last_seq"`
		} `json:"state"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := streams.Unmarshal(m.Data, &info); err != nil {
		return 0, fmt.Errorf("reading the ledger's stream info: %w", err)
	}
	if info.Error != nil {
		return 0, fmt.Errorf("reading the ledger's stream info: %s", info.Error.Description)
	}
	return info.State.Last, nil
}

// After returns the next entries after a sequence, or none if there are none yet. For a message that
// is not from a stage of Lazaret, it returns an entry with only the sequence set.
func (r *Reader) After(ctx context.Context, seq uint64) ([]*streams.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	inbox := r.Conn.NewRespInbox()
	sub, err := r.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	req := fmt.Sprintf(`{"seq":%d,"batch":%d,"max_bytes":%d,"next_by_subj":"lz.ledger.>"}`, seq+1, batchEntries,
		batchBytes)
	if err := r.Conn.PublishRequest(directGet, inbox, []byte(req)); err != nil {
		return nil, err
	}
	var out []*streams.Entry
	for n := 0; ; {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the ledger after entry %d: %w", seq, err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404":
			return out, nil
		default:
			return nil, fmt.Errorf("reading the ledger after entry %d: %s %s", seq, status, m.Header.Get("Description"))
		}
		entries, err := entriesOf(m)
		if len(entries) == 0 {
			return nil, err
		}
		if err != nil {
			entries = []streams.Entry{{Seq: entries[0].Seq}}
		}
		for i := range entries {
			r.keep(&entries[i])
			out = append(out, &entries[i])
		}
		if n++; m.Header.Get("Nats-Num-Pending") == "0" && n == batchEntries {
			return out, nil
		}
	}
}

// Read returns the entry at a position, or nil if it was removed.
func (r *Reader) Read(at uint64) (*streams.Entry, error) {
	if e := r.recent[at]; e != nil {
		return e, nil
	}
	m, err := r.Conn.Request(directGet, fmt.Appendf(nil, `{"seq":%d}`, position.Sequence(at)), readTimeout)
	if err != nil {
		return nil, &ReadError{fmt.Errorf("reading ledger entry %d: %w", at, err)}
	}
	if m.Header.Get("Status") != "" {
		return nil, nil
	}
	entries, err := entriesOf(m)
	if err != nil {
		return nil, err
	}
	i := position.Index(at)
	if i >= len(entries) {
		return nil, nil
	}
	r.keep(&entries[i])
	return &entries[i], nil
}

// ReadError reports a failed read of the ledger. A later try may succeed.
type ReadError struct{ error }

func (r *Reader) keep(e *streams.Entry) {
	if r.recent == nil {
		r.recent = make(map[uint64]*streams.Entry)
	}
	at := e.Position()
	if r.recent[at] != nil {
		return
	}
	r.ring, r.recent[at], r.size = append(r.ring, at), e, r.size+len(e.Body)
	for len(r.ring) > keepRecent || r.size > keepBytes && len(r.ring) > 1 {
		r.size -= len(r.recent[r.ring[0]].Body)
		delete(r.recent, r.ring[0])
		r.ring = r.ring[1:]
	}
}

func entriesOf(m *nats.Msg) ([]streams.Entry, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, errors.New("a direct get's answer has no sequence")
	}
	stamp, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return nil, fmt.Errorf("ledger entry %d: its time stamp: %w", seq, err)
	}
	h := m.Header
	// The server adds this header once. If it is there twice, the stored message had it already: that message
	// is itself an answer of the server to a read, see Stored.
	if len(h[headerAnswer]) > 1 {
		h = nil
	}
	return streams.ParseEntries(m.Header.Get("Nats-Subject"), h, m.Data, seq, stamp)
}
