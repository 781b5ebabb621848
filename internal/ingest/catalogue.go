package ingest

import (
	"cmp"
	"slices"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// A catalogue of tools comes from a tool server, and the agent is shown it in all its sessions. If one of its tools
// reads like an order, has hidden text or could not be read completely, or if a rule has a critical finding on it, the
// catalogue counts as foreign text in every session of the agent. This ends when a person or the policy accepts the
// catalogue. The addresses and accounts that a catalogue names count as external content in any case.
//
// A description reads like an order if it has at least orderPoints points of the text model. The same limit applies to
// the notes of agents (see grade.go). The shipped policy has a lower limit for other foreign text, 25 points. About
// half of the catalogues of well-known servers have more than 25, because they tell the model when to use a tool.

// Limits of the catalogues that are stored for an agent.
const (
	// maxOffers is the maximum number of catalogues that are not accepted. Beyond it, the oldest catalogue that does
	// not count as foreign is retired or, if all count as foreign, the oldest of all.
	maxOffers    = 64
	maxProposals = 64 // proposals to accept a catalogue that wait for a verdict; the oldest is dropped
)

// offer is the latest catalogue of tools that a server offers to an agent, stored until somebody accepts the catalogue.
type offer struct {
	ID       string        `json:"id"` // of the event
	Intake   uint64        `json:"intake"`
	Agent    string        `json:"agent"`
	Server   string        `json:"server,omitzero"`
	Digest   string        `json:"digest"`
	Shown    streams.Shown `json:"shown,omitzero"` // Foreign is 0 if the catalogue does not count as foreign text
	Carriers []string      `json:"carriers,omitzero"`
}

// Parts of keyOffer. Each comment lists the parts of the key after this one and, after the arrow, the value.
const (
	offerLatest   = "l" // agent, server → offer
	offerCarrier  = "c" // a carrier follows in the same part of the key; agent, server → nothing
	offerProposed = "p" // agent → proposals to accept a catalogue
	offerAccepted = "a" // digest → nothing: the catalogue is accepted
)

func (o *offer) key(project string) []byte {
	return stage.Key(keyOffer, project, offerLatest, o.Agent, o.Server)
}

// readOffer returns what a catalogue shows to an agent.
func readOffer(e *streams.ToolsEntry, digest string) *offer {
	o := &offer{ID: e.ID, Intake: e.Intake, Agent: e.Agent, Server: e.Server, Digest: digest}
	var all streams.Shown
	read := func(parts ...string) {
		ft := text.Analyze(strings.Join(parts, "\n"))
		add(&all, &ft, false)
		o.Carriers = append(o.Carriers, distinctive(&ft)...)
	}
	read(e.Server, e.Instructions)
	for _, t := range e.Tools {
		read(t.Name, t.Description, string(t.InputSchema), string(t.Annotations))
	}
	if all.Order >= orderPoints || all.Unread {
		o.Shown = streams.Shown{Foreign: 1, Order: all.Order, Unread: all.Unread}
	}
	slices.Sort(o.Carriers)
	o.Carriers = slices.Compact(o.Carriers)
	return o
}

// noteOffer stores a server's catalogue (its list of tools) that nobody has accepted yet. It replaces the agent's
// earlier catalogue of that server that nobody has accepted.
func (f *Fold) noteOffer(st *stage.State, project string, e *streams.ToolsEntry) error {
	digest := streams.CatalogueDigest(e.Server, e.Instructions, e.Tools)
	was := new(offer)
	known, err := st.Load((&offer{Agent: e.Agent, Server: e.Server}).key(project), was)
	if err != nil || known && was.Digest == digest {
		return err
	}
	if known {
		if err := f.retireOffer(st, project, was); err != nil {
			return err
		}
	}
	_, accepted, err := st.Get(stage.Key(keyOffer, project, offerAccepted, digest))
	if err != nil || accepted {
		return err
	}
	all, err := offersTo(st, project, e.Agent)
	if err != nil {
		return err
	}
	if len(all) >= maxOffers {
		oldest := slices.MinFunc(all, func(a, b *offer) int {
			return cmp.Or(cmp.Compare(a.Shown.Foreign, b.Shown.Foreign), cmp.Compare(a.Intake, b.Intake))
		})
		if err := f.retireOffer(st, project, oldest); err != nil {
			return err
		}
	}
	o := readOffer(e, digest)
	for _, c := range o.Carriers {
		if err := st.Set(stage.Key(keyOffer, project, offerCarrier+c, o.Agent, o.Server), nil); err != nil {
			return err
		}
	}
	return st.Put(o.key(project), o)
}

// offersTo returns the stored catalogues of an agent, or of all agents of a project if agent is empty.
func offersTo(st *stage.State, project, agent string) (all []*offer, err error) {
	prefix := stage.Key(keyOffer, project, offerLatest, "")
	if agent != "" {
		prefix = stage.Key(keyOffer, project, offerLatest, agent, "")
	}
	err = st.Scan(prefix, func(_, v []byte) (bool, error) {
		o := new(offer)
		all = append(all, o)
		return true, streams.Unmarshal(v, o)
	})
	return all, err
}

// dropOffer removes a catalogue and its carriers.
func dropOffer(st *stage.State, project string, o *offer) error {
	for _, c := range o.Carriers {
		if err := st.Delete(stage.Key(keyOffer, project, offerCarrier+c, o.Agent, o.Server)); err != nil {
			return err
		}
	}
	return st.Delete(o.key(project))
}

// retireOffer removes a catalogue that another one replaces, or that makes room for another one. The agent may have
// been shown the removed catalogue. So it counts as foreign text in the sessions that are open, and its carriers
// (addresses, accounts and the like) stay external.
func (f *Fold) retireOffer(st *stage.State, project string, o *offer) error {
	if err := dropOffer(st, project, o); err != nil {
		return err
	}
	if o.Shown.Foreign > 0 {
		if err := addShown(st, project, &streams.EntryHead{Agent: o.Agent}, o.Shown); err != nil {
			return err
		}
	}
	return f.noteForeign(st, project, brought{o.Agent, o.ID, beliefs.OriginTool}, nil, o.Carriers)
}

// offered returns a summary of the catalogues that an agent is shown and that are not accepted.
func offered(st *stage.State, project, agent string) (s streams.Shown, err error) {
	all, err := offersTo(st, project, agent)
	for _, o := range all {
		s = joinShown(s, o.Shown)
	}
	return s, err
}

// noteOfferAlerts marks the catalogues on which a rule has a critical finding.
func noteOfferAlerts(st *stage.State, project string, alerts []streams.Alert) error {
	for i := range alerts {
		al := &alerts[i]
		s, err := beliefs.ParseSeverity(al.Severity)
		if err != nil || s < beliefs.Critical || al.Subject.Kind != "tool" || al.Mode != alertEnforced ||
			al.Exception != "" || al.Agent == "" {
			continue
		}
		all, err := offersTo(st, project, al.Agent)
		if err != nil {
			return err
		}
		for _, o := range all {
			if !slices.Contains(al.Events, o.ID) {
				continue
			}
			o.Shown.Foreign, o.Shown.Order = 1, max(o.Shown.Order, orderPoints)
			if err := st.Put(o.key(project), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// proposedOffer is a proposal to accept a catalogue.
type proposedOffer struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// noteProposed stores a proposal to accept a catalogue.
func noteProposed(st *stage.State, project string, e *streams.ActionEntry) error {
	var args streams.ApproveToolsArgs
	if e.Tool != streams.ApproveTools || streams.Unmarshal(e.Args, &args) != nil || len(args.Digest) != digestLen {
		return nil
	}
	key := stage.Key(keyOffer, project, offerProposed, e.Agent)
	var all []proposedOffer
	if _, err := st.Load(key, &all); err != nil {
		return err
	}
	all = append(all, proposedOffer{e.ID, args.Digest})
	return st.Put(key, all[max(0, len(all)-maxProposals):])
}

// acceptOffer folds the verdict on a proposal to accept a catalogue. An accepted catalogue no longer counts as foreign,
// whichever agent it is offered to.
func acceptOffer(st *stage.State, project string, v *streams.VerdictEntry) error {
	if v.Type != streams.TypeAction || v.Tool != streams.ApproveTools || v.Verdict == streams.Hold || v.Learn {
		return nil
	}
	key := stage.Key(keyOffer, project, offerProposed, v.Agent)
	var all []proposedOffer
	if ok, err := st.Load(key, &all); err != nil || !ok {
		return err
	}
	i := slices.IndexFunc(all, func(p proposedOffer) bool { return p.ID == v.ID })
	if i < 0 {
		return nil
	}
	digest := all[i].Digest
	if err := st.Put(key, slices.Delete(all, i, i+1)); err != nil || v.Verdict != streams.Allow {
		return err
	}
	if err := st.Set(stage.Key(keyOffer, project, offerAccepted, digest), nil); err != nil {
		return err
	}
	offers, err := offersTo(st, project, "")
	if err != nil {
		return err
	}
	for _, o := range offers {
		if o.Digest != digest {
			continue
		}
		if err := dropOffer(st, project, o); err != nil {
			return err
		}
	}
	return nil
}
