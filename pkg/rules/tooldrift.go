package rules

import (
	"cmp"

	"lazaret/streams"
)

var noteTools = keep(orderTools, (*signals).noteCatalogues)

func init() {
	register(noteTools, Signal{
		Name: "signal.tool_drift",
		Doc: "the tool that is called has another description or schema than in the first catalogue of its server, " +
			"or the last one that a person accepted",
		Key:    "tool",
		Window: "all",
		Bound:  "5000 tools",
		Cost:   "1",
	}, (*signals).toolDrift)
	fieldNeeds["tools.items"] = noteTools // drift and shadows
}

// noteCatalogues keeps what servers offer and what a person is asked to accept.
func (s *signals) noteCatalogues() {
	switch {
	case s.in.Event.Kind == "tools":
		s.noteTools()
		s.noteOffer()
	case s.in.Event.Kind == "action" && s.accepts():
		s.noteProposed()
	}
}

// tableTools holds the tools of catalogues.
var tableTools = newTable(7, "tools", 5_000)

// noteTools compares a catalogue with the first one of its server, or with the
// last one that a person accepted.
func (s *signals) noteTools() {
	for _, it := range s.in.Tools.Items {
		it.Drift, it.Shadows = false, ""
		base := s.t.get(tableTools, s.t.named(s.in.Tools.Server, "\x00", it.Name))
		if base == nil {
			s.t.put(tableTools, s.t.named(s.in.Tools.Server, "\x00", it.Name), []byte(it.print))
		} else if string(base) != it.print {
			it.Drift = true
		}
		// By the bare name: who offers it, and whether it drifted.
		first := s.in.Tools.Server
		if b := s.t.get(tableTools, s.t.named("\x01", it.Name)); b != nil {
			d := dec(b)
			if first = d.str(); first != s.in.Tools.Server {
				it.Shadows = cmp.Or(first, "(unnamed)")
			}
		}
		drift := uint64(0)
		if it.Drift || it.Shadows != "" {
			drift = 1
		}
		var e enc
		e.str(first)
		e.num(drift)
		s.t.put(tableTools, s.t.named("\x01", it.Name), e)
	}
}

func (s *signals) toolDrift() bool {
	d := dec(s.t.get(tableTools, s.t.named("\x01", s.in.Action.Tool)))
	d.raw()
	return d.num() == 1
}

// A tool is compared with what its server offered first, or with what a person
// accepted later. These are the keys of tableTools besides those of noteTools.
const (
	keyOffered  = "\x02" // server → what it offers now
	keyProposed = "\x03" // agent, proposal → what a person is asked to accept
)

// offer is a catalogue, as far as later ones are compared with it.
type offer struct {
	server, digest string
	names, prints  []string
}

func (o *offer) bytes() []byte {
	var e enc
	e.str(o.server)
	e.str(o.digest)
	e.num(uint64(len(o.names)))
	for i := range o.names {
		e.str(o.names[i])
		e.str(o.prints[i])
	}
	return e
}

func readOffer(b []byte) *offer {
	if b == nil {
		return nil
	}
	d := dec(b)
	o := &offer{server: d.str(), digest: d.str()}
	for n := d.num(); n > 0; n-- {
		o.names, o.prints = append(o.names, d.str()), append(o.prints, d.str())
	}
	return o
}

// noteOffer keeps what a server offers now.
func (s *signals) noteOffer() {
	o := &offer{server: s.in.Tools.Server, digest: s.in.Tools.digest}
	for _, it := range s.in.Tools.Items {
		o.names, o.prints = append(o.names, it.Name), append(o.prints, it.print)
	}
	s.t.put(tableTools, s.t.named(keyOffered, o.server), o.bytes())
}

// noteProposed keeps which catalogue a person is asked to accept, if it is the
// one that its server offers.
func (s *signals) noteProposed() {
	server, _ := s.in.Action.Args["server"].(string)
	digest, _ := s.in.Action.Args["digest"].(string)
	if b := s.t.get(tableTools, s.t.named(keyOffered, server)); b != nil && digest != "" && readOffer(b).digest == digest {
		s.t.put(tableTools, s.t.named(keyProposed, s.in.Event.Agent, "\x00", s.in.Event.ID), b)
	}
}

// accepts says whether an input is a proposal to accept a catalogue.
func (s *signals) accepts() bool { return s.in.Action.Tool == streams.ApproveTools }
