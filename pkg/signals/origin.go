package signals

import (
	"cmp"
	"encoding/binary"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// origin describes the content that was the first in the project to have something, such as a carrier or a phrase. The
// number of an origin in the index is called its ref.
type origin struct {
	origin, event, src, session, agent, belief string
	external                                   bool
	userNamed                                  bool // the user named its source
	document                                   bool // it is a document
	at                                         time.Time
	// source, in and by are hashes of the content's source, session and agent; they tell members of a cluster apart.
	// cluster is the cluster of which this content is the first member.
	source, in, by uint32
	cluster        uint64
}

// ownOrigin returns the ref of the input's own origin. The first call also stores the origin.
func (s *State) ownOrigin(b *index.Index) uint32 {
	if s.noted {
		return s.ownRef
	}
	in := s.In
	e := index.Encoder(s.t.Take())
	flags := uint64(0)
	if s.extern {
		flags = 1
	}
	if in.userNamed {
		flags |= 2
	}
	if s.document() {
		flags |= 4
	}
	e.Num(flags)
	e.Num(uint64(in.Event.Time.UnixNano()))
	for _, v := range [...]string{s.origin, in.Event.ID, in.shortSource(), in.Event.Session, in.Event.Agent,
		in.belief} {
		e.Str(v)
	}
	for _, h := range s.member() {
		e = binary.BigEndian.AppendUint32(e, h)
	}
	e = binary.BigEndian.AppendUint64(e, s.founds)
	s.ownRef, s.noted = b.NewPosting(s.t.Give(e), index.MaxRef).Ref, true
	return s.ownRef
}

// document reports whether the input is a document that was read.
func (s *State) document() bool {
	return s.In.Event.Kind == "observation" && s.In.Event.Origin == string(beliefs.OriginDocument)
}

// shortSource returns the source that records have.
func (in *Input) shortSource() string {
	return streams.Clip(cmp.Or(in.Event.Source, in.Event.Tool), 120)
}

// member returns hashes of the input's source, session and agent. They tell the input apart from other members of its
// cluster.
func (s *State) member() [3]uint32 {
	if !s.memberRead {
		e := &s.In.Event
		agent := hash32(e.Agent)
		s.memberBy = [3]uint32{
			hash32(cmp.Or(e.Source, e.Tool, e.Origin)),
			intent.HashMore(intent.HashMore(agent, "\x00"), e.Session),
			agent,
		}
		s.memberRead = true
	}
	return s.memberBy
}

func readOrigin(b []byte) *origin {
	d := index.Decoder(b)
	flags := d.Num()
	h := &origin{external: flags&1 != 0, userNamed: flags&2 != 0, document: flags&4 != 0,
		at: time.Unix(0, int64(d.Num())).UTC()}
	texts := string(d) // one copy, which all fields share
	size := len(d)
	for _, v := range [...]*string{&h.origin, &h.event, &h.src, &h.session, &h.agent, &h.belief} {
		b := d.Raw()
		end := size - len(d)
		*v = texts[end-len(b) : end]
	}
	if len(d) == 20 {
		h.source, h.in = binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:])
		h.by, h.cluster = binary.BigEndian.Uint32(d[8:]), binary.BigEndian.Uint64(d[12:])
	}
	return h
}

// originOf returns the origin of a ref. For the input itself, the origin lacks the hashes that tell members of a
// cluster apart.
func (s *State) originOf(ref uint32) *origin {
	ref &^= index.NamedByUser
	if s.lastOrigin != nil && s.lastRef == ref {
		return s.lastOrigin
	}
	if in := s.In; s.noted && ref == s.ownRef {
		if s.ownRec == nil {
			s.ownRec = &origin{origin: s.origin, event: in.Event.ID, src: in.shortSource(), session: in.Event.Session,
				agent: in.Event.Agent, belief: in.belief, external: s.extern, userNamed: in.userNamed, document: s.document(),
				at: in.Event.Time}
		}
		return s.ownRec
	}
	s.lastOrigin, s.lastRef = readOrigin(s.t.Origin(ref)), ref
	return s.lastOrigin
}
