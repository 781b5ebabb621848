package streams

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"

	"lazaret/pkg/position"
)

// A frame is one ledger message that holds several entries of one stage. Its entries are stored and delivered
// together or not at all. Its headers are those of its last entry, except for the type and the number of
// entries. Its body has a line and the entry's body for each entry:
//
//	<type> SP <src> SP <salt, hex> SP <length of the body, bytes> LF <body> LF
//
// Since format 6, the body is compressed with Snappy (block format, not the framing format), and HeaderEncoding says so.
// A body without that header is not compressed.
//
// Only ingest writes frames. All entries of a frame belong to one project and have the same At. A message can only be
// deleted as a whole. Therefore ingest puts only entries with the same data subject and user into one frame.
//
// A joint frame holds entries of several stages that one process decided together: first a proposal of ingest, then
// the answers to it. A joint frame is on a subject of its own, to which the credentials of single stages may not
// publish. Each line in a joint frame begins with the entry's stage. The time of all its entries is the time in the
// frame's header (HeaderTime), because the stages need a time when they decide, and the stream gives the message its
// time stamp only after that. An erasure that lists one answer also lists the proposal and all other answers to it. So
// a joint frame, too, can be deleted as a whole.

// TypeFrame is the type of a ledger message that holds several entries.
const TypeFrame Type = "frame"

const (
	// MaxFrame is the maximum number of entries in a frame.
	MaxFrame = 256
	// MaxFrameBytes is the maximum total size of the bodies in a frame.
	MaxFrameBytes = 512 << 10

	maxFrameLine = 512 // maximum length of the line before an entry's body, in bytes
	// maxFrameBody is the maximum size of a frame's decompressed body in bytes. A body of zeros is compressed to 5 % of
	// its size, so without this limit a small message could use a lot of memory.
	maxFrameBody = MaxFrameBytes + MaxFrame*(maxFrameLine+2)
	// maxSnappyRatio is the maximum size of a decompressed body divided by the size of the compressed one. In Snappy, a
	// copy element of 3 bytes yields at most 64 bytes. The decoder also reads S2, an extension of Snappy, in which a
	// body of 40 bytes could yield maxFrameBody bytes.
	maxSnappyRatio = 22

	encodingSnappy = "snappy" // value of HeaderEncoding
)

// Framed reports whether entries of this type may be in a frame that is not joint. An entry of another type has a
// message of its own, because other entries refer to it by the message's sequence.
func (t Type) Framed() bool { return t == TypeObservation }

// Position returns the entry's position in the ledger, or 0 if the entry is not published. If an entry answers another
// one, its Src is the other entry's position. See package position.
func (e *Entry) Position() uint64 { return position.At(e.Seq, e.Index) }

// Frame returns a message with the given entries, which must be of one stage and partition. If there are several, the
// message is a frame.
func Frame(entries []*Entry) Message {
	last := entries[len(entries)-1]
	m := last.Message()
	if len(entries) == 1 {
		return m
	}
	m.Header[HeaderType] = []string{string(TypeFrame)}
	m.Header[HeaderCount] = []string{strconv.Itoa(len(entries))}
	buf := frameBuffers.Get().(*frameBuffer)
	defer frameBuffers.Put(buf)
	buf.body = buf.body[:0]
	for _, e := range entries {
		buf.body = appendEntry(buf.body, e)
	}
	m.Header[HeaderEncoding] = []string{encodingSnappy}
	buf.packed = slices.Grow(buf.packed[:0], s2.MaxEncodedLen(len(buf.body)))
	m.Body = bytes.Clone(s2.EncodeSnappy(buf.packed[:cap(buf.packed)], buf.body))
	return m
}

// frameBuffer has the buffers for making a frame. They are large, so they are used again.
type frameBuffer struct{ body, packed []byte }

var frameBuffers = sync.Pool{New: func() any { return new(frameBuffer) }}

// JointFrame returns a joint frame with the given entries of several stages. at becomes the time of all these entries.
func JointFrame(entries []*Entry, at time.Time) Message {
	last := entries[len(entries)-1]
	m := last.Message()
	m.Subject = LedgerSubject(last.Partition, StageJoint)
	m.Header[HeaderType] = []string{string(TypeFrame)}
	m.Header[HeaderCount] = []string{strconv.Itoa(len(entries))}
	m.Header[HeaderTime] = []string{at.UTC().Format(time.RFC3339Nano)}
	delete(m.Header, HeaderAt)
	if at := entries[0].At; at != 0 {
		m.Header[HeaderAt] = []string{strconv.FormatUint(at, 10)}
	}
	var b []byte
	for _, e := range entries {
		b = append(append(b, e.Stage...), ' ')
		b = appendEntry(b, e)
	}
	m.Body = b
	return m
}

func appendEntry(b []byte, e *Entry) []byte {
	b = append(append(b, e.Type...), ' ')
	b = append(strconv.AppendUint(b, e.Src, 10), ' ')
	b = append(hex.AppendEncode(b, e.Salt[:]), ' ')
	b = append(strconv.AppendInt(b, int64(len(e.Body)), 10), '\n')
	return append(append(b, e.Body...), '\n')
}

var errFrame = errors.New("not a frame of entries")

// ParseEntries parses a stored ledger message: one entry, or the entries of a frame. It does not decode the entries'
// bodies. If body is not compressed, the entries' bodies share memory with it. If the message is not valid, it returns
// an error and one entry with the fields that could be read.
func ParseEntries(subject string, h map[string][]string, body []byte, seq uint64, stamp time.Time) ([]Entry, error) {
	head, err := ParseEntry(subject, h, body, seq, stamp)
	joint := head.Stage == StageJoint
	if err == nil && joint {
		err = head.joint(first(h, HeaderTime), stamp)
	}
	if err != nil || head.Type != TypeFrame {
		return []Entry{head}, err
	}
	if !joint && head.Stage != StageIngest {
		return []Entry{head}, fmt.Errorf("ledger message %d on %s: %w: only %s writes frames", seq, subject, errFrame,
			StageIngest)
	}
	if err := head.unpack(first(h, HeaderEncoding)); err != nil {
		return []Entry{head}, fmt.Errorf("ledger message %d on %s: %w", seq, subject, err)
	}
	entries, err := head.parts(first(h, HeaderCount))
	if err == nil && joint {
		err = checkJoint(entries)
	}
	if err != nil {
		return []Entry{head}, fmt.Errorf("ledger message %d on %s: %w", seq, subject, err)
	}
	return entries, nil
}

// joint checks the headers of a joint frame and sets the time of its entries.
func (e *Entry) joint(at string, stamp time.Time) error {
	t, err := time.Parse(time.RFC3339Nano, at)
	switch {
	case e.Type != TypeFrame:
		return fmt.Errorf("ledger message %d: %w: it is on the subject of joint frames and has type %q", e.Seq, errFrame,
			clip(string(e.Type)))
	case err != nil:
		return fmt.Errorf("ledger message %d: %w: header %s is %q, want a time", e.Seq, errFrame, HeaderTime, clip(at))
	case t.After(stamp.Add(jointAhead)):
		return fmt.Errorf("ledger message %d: %w: header %s is %q, which is too long after the message was stored at %s", e.Seq,
			errFrame, HeaderTime, clip(at), stamp.UTC().Format(time.RFC3339Nano))
	}
	e.Time, e.Joint = t.UTC(), true
	return nil
}

// jointAhead is how much later the time of a joint frame may be than the time stamp of its message. It can be later if
// the server's clock was set back.
const jointAhead = time.Minute

// checkJoint returns an error unless the first entry of a joint frame is a proposal of ingest and every other one
// answers an earlier entry.
func checkJoint(entries []Entry) error {
	if e := &entries[0]; e.Stage != StageIngest || !e.Type.Proposal() {
		return fmt.Errorf("%w: a joint frame begins with %s of %s, want a proposal of %s", errFrame, clip(string(e.Type)),
			clip(e.Stage), StageIngest)
	}
	for i := 1; i < len(entries); i++ {
		e := &entries[i]
		_, sentinel := SentinelGroup(e.Stage)
		src := position.Index(e.Src)
		if !sentinel && e.Stage != StageArbiter || position.Sequence(e.Src) != e.Seq || src >= i {
			return fmt.Errorf("%w: entry %d of a joint frame, by %s, does not answer an earlier entry of the frame", errFrame, i,
				clip(e.Stage))
		}
		e.At = 0
	}
	return nil
}

// parts parses the body of a frame into its entries.
func (e *Entry) parts(count string) ([]Entry, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > MaxFrame {
		return nil, fmt.Errorf("%w: header %s is %q, want 1 to %d", errFrame, HeaderCount, clip(count), MaxFrame)
	}
	entries := make([]Entry, 0, n)
	for rest := e.Body; len(rest) > 0; {
		if len(entries) == n {
			return nil, fmt.Errorf("%w: it has more than the %d entries that header %s says", errFrame, n, HeaderCount)
		}
		p, after, err := e.part(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", errFrame, len(entries), err)
		}
		p.Index = len(entries)
		entries, rest = append(entries, p), after
	}
	if len(entries) < n {
		return nil, fmt.Errorf("%w: it has %d entries, but header %s says %d", errFrame, len(entries), HeaderCount, n)
	}
	if last := &entries[len(entries)-1]; last.Src != e.Src || last.Salt != e.Salt {
		return nil, fmt.Errorf("%w: its headers are not those of its last entry", errFrame)
	}
	return entries, nil
}

// unpack decompresses the body of a frame. encoding is the value of HeaderEncoding.
func (e *Entry) unpack(encoding string) error {
	switch encoding {
	case "":
		return nil
	case encodingSnappy:
	default:
		return fmt.Errorf("%w: header %s is %q, want %s or no such header", errFrame, HeaderEncoding, clip(encoding),
			encodingSnappy)
	}
	n, err := s2.DecodedLen(e.Body)
	if err == nil && n > maxFrameBody {
		return fmt.Errorf("%w: its body has %d bytes when decompressed, want at most %d", errFrame, n, maxFrameBody)
	}
	if err == nil && n > maxSnappyRatio*len(e.Body) {
		return fmt.Errorf("%w: its body has %d bytes and would have %d when decompressed, want at most %d times as many",
			errFrame, len(e.Body), n, maxSnappyRatio)
	}
	var body []byte
	if err == nil {
		body, err = s2.Decode(nil, e.Body)
	}
	if err != nil {
		return fmt.Errorf("%w: its body is not in the block format of Snappy: %w", errFrame, err)
	}
	e.Body = body
	return nil
}

// part parses the first entry in b, the rest of a frame's body. It returns the entry and the new rest.
func (e *Entry) part(b []byte) (p Entry, rest []byte, err error) {
	line, rest, ok := bytes.Cut(b, []byte{'\n'})
	fields := bytes.Fields(line)
	p = *e
	if e.Joint && len(fields) == 5 {
		p.Stage, fields = string(fields[0]), fields[1:]
	} else if e.Joint {
		return p, nil, errors.New("no line of stage, type, source, salt and length")
	}
	if !ok || len(fields) != 4 || len(line) > maxFrameLine {
		return p, nil, errors.New("no line of type, source, salt and length")
	}
	p.Type = Type(fields[0])
	switch {
	case e.Joint:
		if !ValidID(p.Stage) || !ValidID(string(p.Type)) {
			return p, nil, fmt.Errorf("stage %q or type %q is no name", clip(p.Stage), clip(string(p.Type)))
		}
	case !p.Type.Framed():
		return p, nil, fmt.Errorf("an entry of type %q must be a message of its own, but is in a frame", clip(string(p.Type)))
	default:
		p.Type = TypeObservation // an observation's type is this constant, so no new string is allocated
	}
	if p.Src, err = strconv.ParseUint(string(fields[1]), 10, 64); err != nil {
		return p, nil, fmt.Errorf("source: %w", err)
	}
	if len(fields[2]) != 2*SaltSize {
		return p, nil, fmt.Errorf("the salt is not %d hex digits", 2*SaltSize)
	}
	if _, err := hex.Decode(p.Salt[:], fields[2]); err != nil {
		return p, nil, fmt.Errorf("the salt is not %d hex digits", 2*SaltSize)
	}
	n, err := strconv.ParseUint(string(fields[3]), 10, 31)
	if err != nil {
		return p, nil, fmt.Errorf("length: %w", err)
	}
	if uint64(len(rest)) < n+1 || rest[n] != '\n' {
		return p, nil, fmt.Errorf("no body of %d bytes and an end of line", n)
	}
	p.Body = rest[:n:n]
	return p, rest[n+1:], nil
}
