package streams

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lazaret/pkg/position"
)

// A frame is one ledger message that holds several entries of one stage. Its entries are stored and
// delivered together or not at all. Its headers are those of its last entry, except for the type
// and the number of entries. Its body has a line and the entry's body for each entry:
//
//	<type> SP <src> SP <salt, hex> SP <length of the body, bytes> LF <body> LF
//
// All entries of a frame belong to one project and have the same At. A message can only be deleted
// as a whole. Therefore the writer puts only entries with the same data subject and user into one
// frame.

// TypeFrame is the type of a ledger message that holds several entries.
const TypeFrame Type = "frame"

const (
	// MaxFrame is the maximum number of entries in a frame.
	MaxFrame = 256
	// MaxFrameBytes is the maximum total size of the bodies in a frame.
	MaxFrameBytes = 512 << 10
)

// Framed reports whether entries of this type may share a ledger message. Other types have a
// message each: proposals, and entries that are found by their ledger sequence alone.
func (t Type) Framed() bool { return t == TypeObservation }

// Position returns the entry's position in the ledger, or 0 if it is not published. The Src of an
// entry that answers another one is such a position. See package position.
func (e *Entry) Position() uint64 { return position.At(e.Seq, e.Index) }

// Frame returns entries of one stage and partition as one message: a frame, or the entry's own
// message if there is only one.
func Frame(entries []*Entry) Message {
	last := entries[len(entries)-1]
	m := last.Message()
	if len(entries) == 1 {
		return m
	}
	m.Header[HeaderType] = []string{string(TypeFrame)}
	m.Header[HeaderCount] = []string{strconv.Itoa(len(entries))}
	size := 0
	for _, e := range entries {
		size += frameLine(e) + len(e.Body)
	}
	b := make([]byte, 0, size)
	for _, e := range entries {
		b = append(append(b, e.Type...), ' ')
		b = append(strconv.AppendUint(b, e.Src, 10), ' ')
		b = append(hex.AppendEncode(b, e.Salt[:]), ' ')
		b = append(strconv.AppendInt(b, int64(len(e.Body)), 10), '\n')
		b = append(append(b, e.Body...), '\n')
	}
	m.Body = b
	return m
}

// frameLine returns an upper bound for the bytes that a frame adds to an entry's body.
func frameLine(e *Entry) int { return len(e.Type) + 2*SaltSize + 2*20 + 5 }

var errFrame = errors.New("not a frame of entries")

// ParseEntries parses a stored ledger message: one entry, or the entries of a frame. It does not
// decode their bodies, which share memory with body. On an error it returns one entry with the
// fields that could be read.
func ParseEntries(subject string, h map[string][]string, body []byte, seq uint64, stamp time.Time) ([]Entry, error) {
	head, err := ParseEntry(subject, h, body, seq, stamp)
	if err != nil || head.Type != TypeFrame {
		return []Entry{head}, err
	}
	entries, err := head.parts(first(h, HeaderCount))
	if err != nil {
		return []Entry{head}, fmt.Errorf("ledger message %d on %s: %w", seq, subject, err)
	}
	return entries, nil
}

// parts cuts the body of a frame into its entries.
func (e *Entry) parts(count string) ([]Entry, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > MaxFrame {
		return nil, fmt.Errorf("%w: header %s is %q, want 1 to %d", errFrame, HeaderCount, clip(count), MaxFrame)
	}
	entries := make([]Entry, 0, n)
	for rest := e.Body; len(rest) > 0; {
		if len(entries) == n {
			return nil, fmt.Errorf("%w: it has more than the %d that header %s says", errFrame, n, HeaderCount)
		}
		p, after, err := e.part(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", errFrame, len(entries), err)
		}
		p.Index = len(entries)
		entries, rest = append(entries, p), after
	}
	if len(entries) < n {
		return nil, fmt.Errorf("%w: it has %d, and header %s says %d", errFrame, len(entries), HeaderCount, n)
	}
	if last := &entries[len(entries)-1]; last.Src != e.Src || last.Salt != e.Salt {
		return nil, fmt.Errorf("%w: its headers are not those of its last entry", errFrame)
	}
	return entries, nil
}

// part reads the first entry off the body of a frame.
func (e *Entry) part(b []byte) (p Entry, rest []byte, err error) {
	line, rest, ok := bytes.Cut(b, []byte{'\n'})
	fields := bytes.Fields(line)
	if !ok || len(fields) != 4 || len(line) > 256 {
		return p, nil, errors.New("no line of type, source, salt and length")
	}
	p = *e
	p.Type = Type(fields[0])
	if !p.Type.Framed() {
		return p, nil, fmt.Errorf("type %q has a message of its own", clip(string(p.Type)))
	}
	p.Type = TypeObservation // shares the constant's string instead of allocating one
	if p.Src, err = strconv.ParseUint(string(fields[1]), 10, 64); err != nil {
		return p, nil, fmt.Errorf("source: %w", err)
	}
	if len(fields[2]) != 2*SaltSize {
		return p, nil, fmt.Errorf("the salt is not %d bytes of hex", SaltSize)
	}
	if _, err := hex.Decode(p.Salt[:], fields[2]); err != nil {
		return p, nil, fmt.Errorf("the salt is not %d bytes of hex", SaltSize)
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
