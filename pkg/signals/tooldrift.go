package signals

import (
	"cmp"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// PartTools is the state of tool catalogues.
var PartTools = keep(orderTools, (*State).noteCatalogues)

func init() {
	register(PartTools, Signal{
		Name: "signal.tool_drift",
		Doc: "the called tool's description or schema is not that of its server's first catalogue, " +
			"or of the last one that a person accepted; or another server offered a tool of this name first",
		Key:    "tool",
		Window: "all",
		Bound:  "5000 tools",
		Cost:   "1",
	}, (*State).toolDrift)
	fieldParts["tools.items"] = PartTools // drift and shadows
}

// noteCatalogues stores the catalogue in the input: one that a server offers, or one that a person is asked to accept.
func (s *State) noteCatalogues() {
	switch {
	case s.In.Event.Kind == "tools":
		s.noteTools()
		s.noteOffer()
	case s.In.Event.Kind == "action" && s.accepts():
		s.noteProposed()
	}
}

// tableTools has the tools of catalogues.
var tableTools = index.NewTable(7, "tools", 5_000)

// noteTools compares the tools of a server's catalogue with those of its first catalogue, or of the last one that a
// person accepted.
func (s *State) noteTools() {
	for _, it := range s.In.Tools.Items {
		it.Drift, it.Shadows = false, ""
		base := s.t.Get(tableTools, s.t.NameKey(s.In.Tools.Server, "\x00", it.Name))
		if base == nil {
			s.t.Put(tableTools, s.t.NameKey(s.In.Tools.Server, "\x00", it.Name), []byte(it.print))
		} else if string(base) != it.print {
			it.Drift = true
		}
		// Under the tool's name without a server, the table says which server was the first to offer the tool, and
		// whether the tool has drifted.
		first := s.In.Tools.Server
		if b := s.t.Get(tableTools, s.t.NameKey("\x01", it.Name)); b != nil {
			d := index.Decoder(b)
			if first = d.Str(); first != s.In.Tools.Server {
				it.Shadows = cmp.Or(first, "(unnamed)")
			}
		}
		drift := uint64(0)
		if it.Drift || it.Shadows != "" {
			drift = 1
		}
		var e index.Encoder
		e.Str(first)
		e.Num(drift)
		s.t.Put(tableTools, s.t.NameKey("\x01", it.Name), e)
	}
}

func (s *State) toolDrift() bool {
	d := index.Decoder(s.t.Get(tableTools, s.t.NameKey("\x01", s.In.Action.Tool)))
	d.Raw()
	return d.Num() == 1
}

// These prefixes are for keys in tableTools that are not about a tool in its first catalogue.
const (
	keyOffered  = "\x02" // server → its current catalogue
	keyProposed = "\x03" // agent, proposal → the catalogue that a person is asked to accept
)

// offer has those parts of a server's catalogue that are compared.
type offer struct {
	server, digest string
	names, prints  []string
}

func (o *offer) bytes() []byte {
	var e index.Encoder
	e.Str(o.server)
	e.Str(o.digest)
	e.Num(uint64(len(o.names)))
	for i := range o.names {
		e.Str(o.names[i])
		e.Str(o.prints[i])
	}
	return e
}

func readOffer(b []byte) *offer {
	if b == nil {
		return nil
	}
	d := index.Decoder(b)
	o := &offer{server: d.Str(), digest: d.Str()}
	for n := d.Num(); n > 0; n-- {
		o.names, o.prints = append(o.names, d.Str()), append(o.prints, d.Str())
	}
	return o
}

// noteOffer stores a server's current catalogue.
func (s *State) noteOffer() {
	o := &offer{server: s.In.Tools.Server, digest: s.In.Tools.digest}
	for _, it := range s.In.Tools.Items {
		o.names, o.prints = append(o.names, it.Name), append(o.prints, it.print)
	}
	s.t.Put(tableTools, s.t.NameKey(keyOffered, o.server), o.bytes())
}

// noteProposed stores the catalogue that a person is asked to accept. It does so only if that catalogue is the one that
// the server offers now.
func (s *State) noteProposed() {
	server, _ := s.In.Action.Args["server"].(string)
	digest, _ := s.In.Action.Args["digest"].(string)
	if b := s.t.Get(tableTools, s.t.NameKey(keyOffered, server)); b != nil && digest != "" &&
		readOffer(b).digest == digest {
		s.t.Put(tableTools, s.t.NameKey(keyProposed, s.In.Event.Agent, "\x00", s.In.Event.ID), b)
	}
}

// accepts reports whether an input is an action that asks a person to accept a catalogue.
func (s *State) accepts() bool { return s.In.Action.Tool == streams.ApproveTools }

// Accept records that a person accepted a catalogue. From then on, the server's tools are compared with this catalogue.
func Accept(st index.Store, project, agent, id string) error {
	t := index.Open(st, project)
	accepted := readOffer(t.Get(tableTools, t.NameKey(keyProposed, agent, "\x00", id)))
	if accepted == nil {
		return t.Err
	}
	now := make(map[string]string)
	if o := readOffer(t.Get(tableTools, t.NameKey(keyOffered, accepted.server))); o != nil {
		for i, name := range o.names {
			now[name] = o.prints[i]
		}
	}
	for i, name := range accepted.names {
		t.Put(tableTools, t.NameKey(accepted.server, "\x00", name), []byte(accepted.prints[i]))
		var e index.Encoder
		e.Str(accepted.server)
		if p, ok := now[name]; ok && p != accepted.prints[i] {
			e.Num(1) // the tool that the server offers now differs from the one that the person accepted
		} else {
			e.Num(0)
		}
		t.Put(tableTools, t.NameKey("\x01", name), e)
	}
	return t.Close()
}
