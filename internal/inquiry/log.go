package inquiry

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/chain"
	"lazaret/streams"
)

// Entry is one entry of the log in readable form.
type Entry struct {
	Index   int64     `json:"index"` // index of the leaf
	Seq     uint64    `json:"seq"`   // position in the ledger; for a gap, the first missing one
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"` // entry, gap or reset, see chain.Kind
	Type    string    `json:"type"`
	Project string    `json:"project"`
	Stage   string    `json:"stage"` // stage that wrote the entry
	Src     uint64    `json:"src"`   // position of the input from which the stage made the entry
	At      uint64    `json:"at"`    // for ingest: the ledger sequence up to which it had read
	Agent   string    `json:"agent"`
	Session string    `json:"session"`
	ID      string    `json:"id"` // id of the event, if the entry has one
	Bytes   int64     `json:"bytes"`
	// Commitment is SHA-256(salt ‖ payload), hex.
	Commitment string `json:"commitment"`
	Forgotten  bool   `json:"forgotten"`
	NotHeld    bool   `json:"not_held"` // imported from another log without its payload
	Covered    bool   `json:"covered"`  // whether the signed checkpoint covers the leaf
	// Redacted is the entry's sensitivity if its body was removed because of it.
	Redacted string         `json:"redacted,omitzero"`
	Body     jsontext.Value `json:"body,omitzero"`
}

// unread returns 1 if the payload was erased or the log never had it, and 0 otherwise.
func (e *Entry) unread() int {
	if e.Forgotten || e.NotHeld {
		return 1
	}
	return 0
}

// decode reads the body into v.
func (e *Entry) decode(v any) error {
	if err := streams.Unmarshal(e.Body, v); err != nil {
		return fmt.Errorf("log entry %d (%s): %w", e.Index, e.Type, err)
	}
	return nil
}

// Integrity counts the checks behind an answer.
type Integrity struct {
	// Status is the result of verifying the whole log. It is chain.Incomplete if only the entries that were
	// read were checked.
	Status     chain.Status `json:"status"`
	Size       int64        `json:"size"`       // number of leaves in the log
	Root       string       `json:"root"`       // base64
	Checkpoint int64        `json:"checkpoint"` // number of leaves that the signed checkpoint covers
	Signer     string       `json:"signer"`     // name of the log in the checkpoint
	Read       int64        `json:"read"`       // payloads checked against their commitments
	Proven     int64        `json:"proven"`     // leaves proven to be in the checkpoint's tree
	Uncovered  int64        `json:"uncovered"`  // leaves read that no checkpoint covers yet
	Forgotten  int64        `json:"forgotten"`  // erased payloads
	NotHeld    int64        `json:"not_held"`   // payloads that this log never held
	Problems   []string     `json:"problems,omitempty"`
}

// String formats the counts as one line.
func (i Integrity) String() string {
	what := fmt.Sprintf("%d payloads match their commitments, %d leaves proven in the tree of %d that %s signed", i.Read,
		i.Proven, i.Checkpoint, i.Signer)
	if i.Signer == "" {
		what = fmt.Sprintf("%d payloads match their commitments; no signed checkpoint covers them", i.Read)
	}
	if i.Uncovered > 0 {
		what += fmt.Sprintf(", %d not covered by it yet", i.Uncovered)
	}
	if i.Forgotten > 0 {
		what += fmt.Sprintf(", %d forgotten", i.Forgotten)
	}
	if i.NotHeld > 0 {
		what += fmt.Sprintf(", %d not held here", i.NotHeld)
	}
	switch i.Status {
	case chain.Verified:
		return "the whole log VERIFIED; " + what
	case chain.Failed:
		return "the log FAILED verification: " + strings.Join(i.Problems, "; ")
	}
	return "checked what was read: " + what
}

// Options configure the opening of a log.
type Options struct {
	MasterKey []byte
	Verifiers note.Verifiers // keys that may sign checkpoints
	// Lawful determines which payloads may be erased; used with Whole.
	Lawful *chain.Lawful
	// Whole verifies the whole log first.
	Whole bool
	// Progress, if set, is called with the progress of the verification of the whole log.
	Progress func(done, total int64)
}

// Log is an open log. It is not safe for concurrent use.
type Log struct {
	chain *chain.Log
	size  int64 // number of leaves that the checkpoint covers
	root  tlog.Hash
	cp    []byte
	told  Integrity

	closed bool
}

// Open opens the log in dir for reading. chain.ErrLocked means that a process has locked it; ask that
// process for a snapshot.
func Open(ctx context.Context, dir string, o Options) (_ *Log, err error) {
	c, err := chain.Open(dir, chain.Options{MasterKey: o.MasterKey, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	l := &Log{chain: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	h := c.Head()
	l.told = Integrity{Status: chain.Incomplete, Size: h.Size, Root: h.Root.String()}
	if h.Checkpoint != nil {
		if err := l.openCheckpoint(h.Checkpoint, o.Verifiers); err != nil {
			l.told.Status = chain.Failed
			l.told.Problems = append(l.told.Problems, "the last checkpoint: "+err.Error())
		}
	}
	if o.Whole {
		rep, err := c.Verify(ctx, chain.VerifyOptions{Verifiers: o.Verifiers, Lawful: o.Lawful, Progress: o.Progress})
		if err != nil {
			return nil, err
		}
		if l.told.Status != chain.Failed {
			l.told.Status = rep.Status
		}
		l.told.Problems = append(l.told.Problems, rep.Problems...)
	}
	return l, nil
}

// openCheckpoint verifies a checkpoint, and that the stored tree hashes give its root.
func (l *Log) openCheckpoint(b []byte, vs note.Verifiers) error {
	if vs == nil {
		return errors.New("no keys were given to verify it")
	}
	hs, err := l.chain.Handovers()
	if err != nil {
		return err
	}
	c, err := chain.OpenSigned(b, vs, hs)
	if err != nil {
		return err
	}
	size, root := c.Size, c.Root
	if size > l.chain.Head().Size {
		return fmt.Errorf("it covers %d leaves, but the log has only %d: the log was "+
			"truncated", size, l.chain.Head().Size)
	}
	if size == 0 {
		return nil
	}
	got, err := l.chain.Root(size)
	if err != nil {
		return err
	}
	if got != root {
		return fmt.Errorf("its root differs from that of the log's first %d leaves", size)
	}
	l.size, l.root, l.cp = size, root, b
	l.told.Checkpoint, l.told.Signer = size, c.Origin
	return nil
}

// Integrity returns the counts of the checks so far.
func (l *Log) Integrity() Integrity { return l.told }

// Handovers returns the signed checkpoints that handed the log over to a new key.
func (l *Log) Handovers() ([][]byte, error) { return l.chain.Handovers() }

// Size returns the number of leaves.
func (l *Log) Size() int64 { return l.chain.Head().Size }

// Find returns the index of the leaf of the ledger entry at a position, or chain.ErrRange.
func (l *Log) Find(at uint64) (int64, error) { return l.chain.FindSeq(at) }

// Close closes the log; a second call does nothing.
func (l *Log) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	return l.chain.Close()
}

// Range calls fn for the entries of the leaves from <= i < to, in order. A payload that does not match
// its leaf's commitment is an error. wanted, if set, selects the leaves whose payload is read; other
// entries have no body.
//
// Range does not prove that a leaf is in the checkpoint's tree: call Prove for returned entries.
func (l *Log) Range(ctx context.Context, from, to int64, wanted func(*Entry) bool, fn func(*Entry) error) error {
	from, to = max(from, 0), min(to, l.Size())
	if from >= to {
		return nil
	}
	return l.chain.Range(from, to, func(i int64, leaf chain.Leaf) error {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := &Entry{Index: i, Seq: leaf.Seq, Time: leaf.Time, Kind: leaf.Kind.String(), Type: leaf.Type,
			Project: leaf.Project,
			Bytes:   int64(leaf.Length), Commitment: hex.EncodeToString(leaf.Commitment[:]), Covered: i < l.size}
		if leaf.Kind == chain.KindEntry && (wanted == nil || wanted(e)) {
			if err := l.fill(e); err != nil {
				return err
			}
		}
		return fn(e)
	})
}

// fill reads and checks the payload of an entry.
func (l *Log) fill(e *Entry) error {
	p, err := l.chain.Payload(e.Index)
	if errors.Is(err, chain.ErrForgotten) {
		e.Forgotten = true
		l.told.Forgotten++
		return nil
	}
	if errors.Is(err, chain.ErrNotHeld) {
		e.NotHeld = true
		l.told.NotHeld++
		return nil
	}
	if err != nil {
		return err
	}
	l.told.Read++
	if err := e.take(p); err != nil {
		return fmt.Errorf("log entry %d: %w", e.Index, err)
	}
	return nil
}

// take parses a payload, see auditor.Payload.
func (e *Entry) take(p []byte) error {
	head, body, ok := bytes.Cut(p, []byte{'\n'})
	f := strings.Split(string(head), " ")
	if !ok || len(f) != 3 {
		return errors.New("the payload has no head of stage, src and at")
	}
	var err error
	e.Stage = f[0]
	if e.Src, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return fmt.Errorf("src: %w", err)
	}
	if e.At, err = strconv.ParseUint(f[2], 10, 64); err != nil {
		return fmt.Errorf("at: %w", err)
	}
	v := jsontext.Value(body)
	if !v.IsValid() {
		return nil // not JSON, so no stage wrote it; the entry has no body
	}
	e.Body = v
	var h struct {
		ID      string `json:"id"`
		Agent   string `json:"agent"`
		Session string `json:"session"`
	}
	if streams.Unmarshal(body, &h) == nil {
		e.ID, e.Agent, e.Session = h.ID, h.Agent, h.Session
	}
	return nil
}

// Prove verifies that an entry's leaf is in the checkpoint's tree, and returns the proof. It returns
// nil for an entry that no checkpoint covers yet.
func (l *Log) Prove(e *Entry) (tlog.RecordProof, error) {
	if !e.Covered {
		l.told.Uncovered++
		return nil, nil
	}
	leaf, err := l.chain.Leaf(e.Index)
	if err != nil {
		return nil, err
	}
	raw, err := chain.AppendLeaf(nil, &leaf)
	if err != nil {
		return nil, err
	}
	p, err := l.chain.ProveInclusion(e.Index, l.size)
	if err == nil {
		err = tlog.CheckRecord(p, l.size, l.root, e.Index, tlog.RecordHash(raw))
	}
	if err != nil {
		l.told.Status = chain.Failed
		l.told.Problems = append(l.told.Problems, fmt.Sprintf("leaf %d is not in the tree of the checkpoint: %v", e.Index,
			err))
		return nil, fmt.Errorf("leaf %d is not in the tree of the checkpoint of size %d: %w", e.Index, l.size, err)
	}
	l.told.Proven++
	return p, nil
}

// proofText returns the proof of one entry in the C2SP tlog-proof format, with the leaf, and with
// payload and salt if they are readable.
func (l *Log) proofText(e *Entry) ([]byte, error) {
	p, err := l.chain.Prove(e.Index)
	if err != nil {
		return nil, err
	}
	if p.Salt, p.Payload, err = l.chain.Salted(e.Index); err != nil && !errors.Is(err, chain.ErrForgotten) &&
		!errors.Is(err, chain.ErrNotHeld) {
		return nil, err
	}
	return p.MarshalText()
}
