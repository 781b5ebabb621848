package rules

import (
	"cmp"
	"encoding/binary"
	"time"

	"lazaret/streams"
)

// headRec says whose content it was that brought something into the project.
type headRec struct {
	origin, event, src, session, agent, belief string
	external                                   bool
	userNamed                                  bool // the user named where it came from
	at                                         time.Time
	// What tells clusters' members apart, and the cluster that this founds.
	source, in, by uint32
	cluster        uint64
}

// ownGroup is the ref of the input's own head.
func (s *signals) ownGroup(b *book) uint32 {
	if s.noted {
		return s.ownRef
	}
	in := s.in
	e := enc(s.t.take())
	flags := uint64(0)
	if s.extern {
		flags = 1
	}
	if in.userNamed {
		flags |= 2
	}
	e.num(flags)
	e.num(uint64(in.Event.Time.UnixNano()))
	for _, v := range [...]string{s.origin, in.Event.ID, streams.Clip(cmp.Or(in.Event.Source, in.Event.Tool), 120), in.Event.Session, in.Event.Agent, in.belief} {
		e.str(v)
	}
	source, session, agent := s.member()
	for _, h := range [...]uint32{source, session, agent} {
		e = binary.BigEndian.AppendUint32(e, h)
	}
	e = binary.BigEndian.AppendUint64(e, s.founds)
	s.ownRef, s.noted = b.newGroup(s.t.give(e), maxRef).ref, true
	return s.ownRef
}

// member is what tells the input apart from others of its cluster.
func (s *signals) member() (source, session, agent uint32) {
	in := s.in
	return hash32(cmp.Or(in.Event.Source, in.Event.Tool, in.Event.Origin)), hash32(in.Event.Agent + "\x00" + in.Event.Session), hash32(in.Event.Agent)
}

func readHead(b []byte) *headRec {
	d := dec(b)
	flags := d.num()
	h := &headRec{external: flags&1 != 0, userNamed: flags&2 != 0, at: time.Unix(0, int64(d.num())).UTC()}
	for _, v := range [...]*string{&h.origin, &h.event, &h.src, &h.session, &h.agent, &h.belief} {
		*v = d.str()
	}
	if len(d) == 20 {
		h.source, h.in, h.by, h.cluster = binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:]), binary.BigEndian.Uint32(d[8:]), binary.BigEndian.Uint64(d[12:])
	}
	return h
}

// headOf is the head that a ref leads to.
func (s *signals) headOf(ref uint32) *headRec {
	ref &^= refNamed
	if s.lastHead == nil || s.lastRef != ref {
		s.lastHead, s.lastRef = readHead(s.t.posts.head(ref)), ref
	}
	return s.lastHead
}
