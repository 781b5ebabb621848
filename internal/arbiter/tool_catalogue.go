package arbiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// maxOffers is the maximum number of keys that are stored for a project's catalogues of tools. A catalogue takes one
// key for each entry, and one that leads to its latest entry.
const maxOffers = 2000

// maxShownTools is the maximum size in bytes of a catalogue's ledger entry that an answer repeats.
const maxShownTools = 512 << 10

// offer is a catalogue of tools, with the alerts about it.
type offer struct {
	Seq    uint64           `json:"seq"` // ledger sequence of the catalogue's entry
	Server string           `json:"server"`
	Digest string           `json:"digest"`
	Tools  int              `json:"tools"`
	Alerts []streams.Reason `json:"alerts,omitzero"`
}

func offerKey(seq uint64) string { return fmt.Sprint("s", seq) }

// offerPointer returns the key that leads to the latest entry of a catalogue.
func offerPointer(agent, server, digest string) string {
	return "d" + streams.Digest([]byte(agent+"\x00"+server+"\x00"+digest))
}

// noteOffer stores which ledger entry has a catalogue of tools, so that an approver can see the whole catalogue.
func (f *Fold) noteOffer(st *stage.State, e *streams.Entry) error {
	t := new(streams.ToolsEntry)
	if err := streams.Unmarshal(e.Body, t); err != nil {
		f.log.Error("unreadable catalogue", "seq", e.Seq, "err", err)
		return nil
	}
	o := offer{Seq: e.Seq, Server: t.Server, Digest: streams.CatalogueDigest(t.Server, t.Instructions, t.Tools),
		Tools: len(t.Tools)}
	if err := keep(st, keyOffer, e.Project, offerKey(e.Seq), false, maxOffers, o); err != nil {
		return err
	}
	pointer := offerPointer(t.Agent, o.Server, o.Digest)
	_, known, err := st.Get(stage.Key(keyOffer, e.Project, pointer))
	if err != nil {
		return err
	}
	return keep(st, keyOffer, e.Project, pointer, known, maxOffers, e.Seq)
}

// noteOfferAlerts stores alerts about a catalogue of tools.
func (f *Fold) noteOfferAlerts(st *stage.State, e *streams.Entry, group string, alerts []streams.Alert,
	now time.Time) error {
	o := new(offer)
	key := stage.Key(keyOffer, e.Project, offerKey(e.Src))
	ok, err := st.Load(key, o)
	if err != nil || !ok {
		return err
	}
	var more []streams.Reason
	for _, al := range alerts {
		if _, named := alertVerdict(&al, streams.TypeAction); !named {
			continue
		}
		v := streams.Hold // whatever the alert asks for, the approver must see it
		if al.Exception != "" {
			v = streams.Allow
		}
		r := alertReason(streams.CodeRests, v, group, al)
		r.Entry = e.Seq
		more = append(more, r)
	}
	if strictest(more) > streams.Allow {
		if err := f.startRecheck(st, e.Project, offerSubject(e.Src), now); err != nil {
			return err
		}
	}
	o.Alerts = joinReasons(maxReasons, o.Alerts, more)
	return st.Put(key, o)
}

// catalogueOf returns the ledger sequence of the catalogue that an action asks to accept, or 0 if its agent did not
// record that catalogue.
func catalogueOf(st *stage.State, project string, a *streams.ActionEntry) (seq uint64, err error) {
	var args streams.ApproveToolsArgs
	if a.Tool != streams.ApproveTools || streams.Unmarshal(a.Args, &args) != nil {
		return 0, nil
	}
	ok, err := st.Load(stage.Key(keyOffer, project, offerPointer(a.Agent, args.Server, args.Digest)), &seq)
	if err != nil || !ok {
		return 0, err
	}
	if _, ok, err = st.Get(stage.Key(keyOffer, project, offerKey(seq))); err != nil || !ok {
		return 0, err // it was evicted by later catalogues
	}
	return seq, nil
}

// offered returns the reasons to show to a person who is asked to accept a catalogue: a description of the catalogue,
// and the alerts about it. It is not called if a standing permission of the policy accepts the catalogue.
func (p *proposal) offered(st *stage.State) ([]streams.Reason, error) {
	if p.Tool != streams.ApproveTools || p.Type != streams.TypeAction {
		return nil, nil
	}
	why := streams.Reason{Code: streams.CodeFloor, Verdict: streams.Hold, Path: []string{"action:" + p.ID, "tools"}}
	if p.Catalogue == 0 {
		why.Text = "it asks to accept a list of tools that its agent has not recorded, so nobody can look at the tools"
		return []streams.Reason{why}, nil
	}
	o := new(offer)
	if ok, err := st.Load(stage.Key(keyOffer, p.Project, offerKey(p.Catalogue)), o); err != nil || !ok {
		return nil, err // the catalogue's record was evicted since. The hold's reasons already have its alerts
	}
	why.Entry = o.Seq
	why.Text = streams.Clip(fmt.Sprintf("server %q offers a list of %d tools that a person has to accept", o.Server,
		o.Tools), maxReasonText)
	return append([]streams.Reason{why}, o.Alerts...), nil
}

// showTools adds the tools of a held catalogue to h, from the ledger. If it cannot, it sets h.Missing.
func showTools(ctx context.Context, js jetstream.JetStream, h *Hold) error {
	if h.Catalogue == 0 {
		return nil
	}
	e, err := stage.ReadEntry(ctx, js, h.Catalogue)
	if err != nil {
		h.Missing = err.Error()
		return ctx.Err()
	}
	t, args := new(streams.ToolsEntry), new(streams.ApproveToolsArgs)
	switch {
	case len(e.Body) > maxShownTools:
		h.Missing = fmt.Sprintf("they have %d bytes, more than an answer holds", len(e.Body))
		return nil
	case streams.Unmarshal(e.Body, t) != nil || streams.Unmarshal([]byte(h.Body), args) != nil:
		h.Missing = "they cannot be decoded"
		return nil
	case streams.CatalogueDigest(t.Server, t.Instructions, t.Tools) != args.Digest:
		h.Missing = "they are not the list that is to be accepted"
		return nil
	}
	h.Tools, h.Instructions = slices.Clip(t.Tools), t.Instructions
	return nil
}

// acceptedTools returns the levels that a statement signs for the tools of a held catalogue. If the
// statement names no levels, the policy's levels apply again, even to tools for which an earlier
// statement named a level. For a hold of another kind it returns nil.
func acceptedTools(h *hold, s *approval.Signed) (*streams.AcceptedTools, error) {
	args := new(streams.ApproveToolsArgs)
	if h.Entry.Tool != streams.ApproveTools || streams.Unmarshal([]byte(h.Body), args) != nil {
		if len(s.Levels) == 0 {
			return nil, nil
		}
		return nil, &approval.Error{Check: approval.CheckAction,
			Text: "it gives levels to tools, and the hold is not about a list of tools"}
	}
	out := &streams.AcceptedTools{Server: args.Server, Catalogue: args.Binding(), Levels: make(map[string]beliefs.Level,
		len(s.Levels))}
	for tool, level := range s.Levels {
		if !slices.ContainsFunc(args.Tools, func(t streams.ApprovedTool) bool { return t.Name == tool }) {
			return nil, &approval.Error{Check: approval.CheckAction,
				Text: fmt.Sprintf("it gives a level to %q, which the list does not have", streams.Clip(tool, 100))}
		}
		var l beliefs.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, err
		}
		out.Levels[tool] = l
	}
	return out, nil
}
