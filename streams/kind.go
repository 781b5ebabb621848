package streams

import "slices"

// Kind is the kind of an intake event, a token of its subject.
type Kind string

// KindCtl is a signed command of an operator. It is not registered as an event kind, because operators' commands are
// published on another subject than clients' events.
const KindCtl Kind = "ctl"

// EventKind describes a kind of event in the protocol. Each kind has a file that registers it, with
// its event, the body of its entries and the checks of its fields.
type EventKind struct {
	Kind     Kind
	Type     Type     // of the kind's entries
	Order    int      // place of the kind in docs/protocol.md
	Origin   bool     // the subject of an event of this kind names an origin
	Proposal bool     // its events wait for a verdict
	Required []string // fields that are required
	Title    string   // for docs/protocol.md
	Fields   string   // for docs/protocol.md
	fresh    func() Event
}

// Kinds lists the kinds that a client may publish, in the order of the docs.
var Kinds []Kind

var (
	kinds = make(map[Kind]*EventKind)
	types = make(map[Type]*EventKind)
)

// register adds a kind whose events are of type E.
func register[E any, P interface {
	*E
	Event
}](k EventKind) {
	k.fresh = func() Event { return P(new(E)) }
	kinds[k.Kind], types[k.Type] = &k, &k
	i := slices.IndexFunc(Kinds, func(o Kind) bool { return kinds[o].Order > k.Order })
	if i < 0 {
		i = len(Kinds)
	}
	Kinds = slices.Insert(Kinds, i, k.Kind)
}

// About returns the registration of a kind, or nil if there is no such kind.
func (k Kind) About() *EventKind { return kinds[k] }

// HasOrigin reports whether events of kind k name their origin in the subject.
func (k Kind) HasOrigin() bool { return k.valid() && kinds[k].Origin }

// Proposal reports whether events of kind k wait for a verdict.
func (k Kind) Proposal() bool { return k.valid() && kinds[k].Proposal }

func (k Kind) valid() bool { return kinds[k] != nil }

func newEvent(k Kind) Event {
	if !k.valid() {
		return nil
	}
	return kinds[k].fresh()
}

// Event reports whether an entry of this type is made from a client's event.
func (t Type) Event() bool { return types[t] != nil }

// Proposal reports whether an entry of this type waits for a verdict.
func (t Type) Proposal() bool { return t.Event() && types[t].Proposal }
