package signals

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
	"unicode/utf8"

	"lazaret/pkg/intent"
	"lazaret/pkg/signals/index"
)

const (
	noteText  = 2 << 10 // bytes of a directive's text that are stored
	planNames = 16      // maximum number of identifiers in a document that is stored as a plan
)

var partDirectives = keep(orderDirectives, (*State).noteDirectives)

// noteDirectives stores the instructions in untrusted content. It also stores instructions in memories that the model
// itself wrote, because a recall shows them to the model again. It leaves out memories of the model that have no
// external content.
func (s *State) noteDirectives() {
	if s.hasExternalContent() || s.hasContent() && s.In.Event.Kind == "memory" && s.origin == "agent" && !s.In.graded {
		s.noteDirective()
	}
}

// tableNotes has the stored directives of untrusted content. A stored directive is called a note in this package.
var tableNotes = index.NewTable(3, "directives", 4_000)

// directive is the stored form of an instruction.
type directive struct {
	sum                                []byte // hash of kind and text
	event, source, text, agent, belief []byte
	at                                 time.Time
	memory                             bool // it is in a memory
	own                                bool // the agent wrote it
	commands                           bool // it has one of the markers in the set commanding
	userNamed                          bool // the user named its source
	handed                             bool // the user asked the agent to do what its source says
	document                           bool // it is in a document that was read
	carriers, names                    []uint32
	sentences                          [][]uint32
	named                              [][]uint32 // carriers in each sentence
}

func (n *directive) bytes(e index.Encoder) index.Encoder {
	for _, v := range [...][]byte{n.sum, n.event, n.source, n.text, n.agent, n.belief} {
		e.Bytes(v)
	}
	e.Num(uint64(n.at.UnixNano()))
	e.Hashes(n.carriers)
	e.Hashes(n.names)
	flags := uint64(0)
	if n.memory {
		flags |= 1
	}
	if n.commands {
		flags |= 2
	}
	if n.userNamed {
		flags |= 4
	}
	if n.own {
		flags |= 8
	}
	if n.handed {
		flags |= 16
	}
	if n.document {
		flags |= 32
	}
	e.Num(flags)
	e.Num(uint64(len(n.sentences)))
	for _, st := range n.sentences {
		e.Hashes(st)
	}
	for _, cs := range n.named {
		e.Hashes(cs)
	}
	return e
}

// read decodes a record to n. To allocate nothing, n uses the memory of b, and the hashes are appended to buf. read
// returns buf.
func (n *directive) read(b []byte, buf []uint32) []uint32 {
	d := index.Decoder(b)
	n.sum, n.event, n.source, n.text, n.agent, n.belief = d.Raw(), d.Raw(), d.Raw(), d.Raw(), d.Raw(), d.Raw()
	n.at = time.Unix(0, int64(d.Num())).UTC()
	n.carriers, buf = d.Into(buf)
	n.names, buf = d.Into(buf)
	flags := d.Num()
	n.memory, n.commands, n.userNamed, n.own = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	n.handed, n.document = flags&16 != 0, flags&32 != 0
	n.sentences = n.sentences[:0]
	for range min(d.Num(), maxSentences) {
		var st []uint32
		st, buf = d.Into(buf)
		n.sentences = append(n.sentences, st)
	}
	n.named = n.named[:0]
	for range n.sentences {
		var cs []uint32
		cs, buf = d.Into(buf)
		n.named = append(n.named, cs)
	}
	return buf
}

// noteDirective stores untrusted content that has an instruction. The note can then be found by its session, by the
// words of its sentences, and by its carriers.
func (s *State) noteDirective() {
	in := s.In
	names := in.names
	if len(in.Content.Markers) == 0 && len(in.directives.sentences) == 0 {
		// Content without an instruction is stored too if it names a few tools, because it may be a plan.
		if in.Event.Origin != "document" && in.Event.Kind != "memory" || len(names) == 0 ||
			len(names) > planNames && in.Event.Kind != "memory" {
			return
		}
	}
	own, mark := in.Event.Kind == "memory" && in.Memory.Origin == "agent", byte(0)
	if own {
		mark = 1 // so that an agent's own memory and a content of somebody else with the same text are different notes
	}
	buf := append(append(s.t.Text[:0], in.Event.Kind...), mark)
	kind := len(buf)
	for i, v := range in.Content.Views {
		if i > 0 {
			buf = append(buf, '\n')
		}
		if buf = append(buf, v...); len(buf) > kind+noteText {
			break
		}
	}
	text := clipBytes(buf[kind:], noteText)
	s.t.Text = buf
	sum := sha256.Sum256(buf[:kind+len(text)])
	n := &directive{
		memory:    in.Event.Kind == "memory",
		own:       own,
		event:     []byte(in.Event.ID),
		agent:     []byte(in.Event.Agent),
		belief:    []byte(in.belief),
		source:    []byte(in.shortSource()),
		at:        in.Event.Time,
		sum:       sum[:8],
		sentences: in.directives.sentences,
		names:     names,
		userNamed: in.userNamed,
		handed:    in.handed,
		document:  s.document(),
		commands:  in.directives.found&commanding != 0,
	}
	if n.commands {
		n.text = in.directives.commandText() // notes that do not command are compared only by their words
	}
	n.named = in.directives.carriers(in)
	for _, cs := range n.named {
		n.carriers = append(n.carriers, cs...)
	}
	n.carriers = distinct(n.carriers)
	// The same text is stored only once, however often it is read. The note's number is made from a hash of the text.
	// If another text has this number, the next number is used.
	id := binary.BigEndian.Uint32(sum[8:])
	for b := s.t.Get(tableNotes, s.t.NumberKey(id)); b != nil; b = s.t.Get(tableNotes, s.t.NumberKey(id)) {
		if d := index.Decoder(b); string(d.Raw()) == string(n.sum) {
			s.noteHere(notesRead, id)
			s.linkBelief(n.belief, id)
			return
		}
		id++
	}
	s.t.Put(tableNotes, s.t.NumberKey(id), s.t.Give(n.bytes(s.t.Take())))
	s.noteHere(notesRead, id)
	s.linkBelief(n.belief, id)
	b := s.t.Index()
	if b == nil {
		return
	}
	b.LinkAll(index.LinkTargets, n.carriers, id)
	words := s.t.Words[:0]
	words = append(words, n.names...)
	for _, st := range n.sentences {
		words = append(words, st...)
	}
	s.t.Words = words
	b.LinkAll(index.LinkWords, distinct(words), id)
}

// commandText returns the text of those sentences that command the reader.
func (d *directives) commandText() []byte {
	var b []byte
	for i, words := range d.sentences {
		if hasHash(words, intent.Command) {
			b = append(append(b, d.said[i]...), '\n')
		}
	}
	for i, c := range b {
		if c == '\n' {
			b[i] = ' '
		}
	}
	return clipBytes(b, noteText)
}

// clipBytes returns at most the first n bytes of b. It does not cut inside a rune.
func clipBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// The notes of a session.
const (
	notesRead     = "n" // of contents that it read
	notesRecalled = "m" // of contents that a recall served
)

// noteHere adds a note to the session's list. kind says whether the session read the content or a recall served it. If
// the list is full, the oldest note is dropped.
func (s *State) noteHere(kind string, id uint32) {
	k := s.sessionKey(kind)
	ids := s.t.Get(tableSessions, k)
	for b := ids; len(b) >= 4; b = b[4:] {
		if binary.BigEndian.Uint32(b) == id {
			return
		}
	}
	e := append(s.t.Take(), ids[max(0, len(ids)-4*(index.MaxDirectives-1)):]...)
	s.t.Put(tableSessions, k, s.t.Give(binary.BigEndian.AppendUint32(e, id)))
}

// notesHere appends to ids the notes in the session's list, beginning with the latest.
func (s *State) notesHere(kind string, ids []uint32) []uint32 {
	for b := s.t.Get(tableSessions, s.sessionKey(kind)); len(b) >= 4; b = b[:len(b)-4] {
		ids = append(ids, binary.BigEndian.Uint32(b[len(b)-4:]))
	}
	return ids
}

// linkBelief links a belief to the note of its content, so that the note is found when a recall serves the belief.
func (s *State) linkBelief(belief []byte, id uint32) {
	if b := s.t.Index(); b != nil && len(belief) > 0 && !slices.Contains(s.notesOf(string(belief), nil), id) {
		b.LinkAll(index.LinkTargets, []uint32{beliefLink(string(belief))}, id)
	}
}

// notesOf appends to ids the notes that linkBelief linked to a belief.
func (s *State) notesOf(belief string, ids []uint32) []uint32 {
	if b := s.t.Index(); b != nil {
		ids = b.Linked(index.LinkTargets, index.LinkKey(beliefLink(belief)), ids)
	}
	return ids
}

func beliefLink(belief string) uint32 { return hash32("belief\x00" + belief) }
