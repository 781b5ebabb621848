package rules

import (
	"lazaret/streams"
)

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

// Accept folds in that an action of tool streams.ApproveTools was allowed: what
// it showed is what the tools of its server are compared with from then on.
func (ev *Evaluator) Accept(st Store, project, agent, id string) error {
	if ev.only&noteTools == 0 {
		return nil
	}
	t := openTables(st, project)
	accepted := readOffer(t.get(tableTools, t.named(keyProposed, agent, "\x00", id)))
	if accepted == nil {
		return t.err
	}
	now := make(map[string]string)
	if o := readOffer(t.get(tableTools, t.named(keyOffered, accepted.server))); o != nil {
		for i, name := range o.names {
			now[name] = o.prints[i]
		}
	}
	for i, name := range accepted.names {
		t.put(tableTools, t.named(accepted.server, "\x00", name), []byte(accepted.prints[i]))
		var e enc
		e.str(accepted.server)
		if p, ok := now[name]; ok && p != accepted.prints[i] {
			e.num(1) // it has changed again
		} else {
			e.num(0)
		}
		t.put(tableTools, t.named("\x01", name), e)
	}
	return t.close()
}

// accepts says whether an input is a proposal to accept a catalogue.
func (s *signals) accepts() bool { return s.in.Action.Tool == streams.ApproveTools }
