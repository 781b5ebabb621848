package arbiter

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// This file has the approval of a source. A source is a content that the user named and that the session was shown. A
// person approves it together with a hold of an action that the source asks for. The approval is a consent given in
// advance, for a limited number of later actions. The verdict on such an action names it. The approval removes only
// those reasons to hold that the signed policy lists. If there is any other reason, the action stays held. The
// approval never removes a reason to deny.

// maxContents is the maximum number of sources that are stored for a session.
const maxContents = 8

// WithdrawnRule is the rule of the arbiter's alert about a withdrawn approval of a source. The subject of the alert is
// the hold with which the source was approved.
const WithdrawnRule = "source-approval-withdrawn"

// content is the place in the ledger of a source that the user named.
type content struct {
	Digest string `json:"digest"`
	Entry  uint64 `json:"entry"`
}

// grant is an approval of a source that is in force.
type grant struct {
	streams.ApprovedSource
	Hold  string `json:"hold"` // the hold with which the source was approved
	By    string `json:"by"`
	Key   string `json:"key"`
	Entry uint64 `json:"entry"` // ledger sequence of the signed resolution
	Used  int    `json:"used"`
}

// use returns the last use of the approval.
func (a *grant) use() *streams.SourceUse {
	return &streams.SourceUse{Hold: a.Hold, Digest: a.Digest, By: a.By, Key: a.Key, Entry: a.Entry, Number: a.Used,
		Actions: a.Actions}
}

func grantKey(project, agent, session, digest, hold string) []byte {
	return stage.Key(keyGrant, project, agent, session, digest, hold)
}

// grantOf returns the approval of a source that is in force in a session, or nil.
func grantOf(st *stage.State, project, agent, session, digest string, now time.Time) (a *grant, err error) {
	err = st.Scan(grantKey(project, agent, session, digest, ""), func(_, v []byte) (bool, error) {
		x := new(grant)
		if err := streams.Unmarshal(v, x); err != nil {
			return false, err
		}
		if now.Before(x.Expires) {
			a = x
		}
		return a == nil, nil
	})
	return a, err
}

// noteContent stores the ledger position of a content whose source the user named.
func (f *Fold) noteContent(st *stage.State, e *streams.Entry) error {
	if e.Decoded == nil && !bytes.Contains(e.Body, []byte(`"user_named":true`)) {
		return nil // no source was named; decoding every observation would cost too much
	}
	o, err := streams.Read[streams.ObservationEntry](e)
	if err != nil || !o.UserNamed || o.Session == "" {
		return nil
	}
	digest := o.ContentDigest()
	if digest == "" {
		return nil
	}
	key := o.Agent + "\x00" + o.Session
	var list []content
	known, err := st.Load(stage.Key(keyContent, e.Project, key), &list)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c content) bool { return c.Digest == digest })
	list = append(list, content{digest, e.Position()})
	return keep(st, keyContent, e.Project, key, known, maxSessions, list[max(0, len(list)-maxContents):])
}

// endSources ends all approvals of sources in a session that starts or ends.
func (f *Fold) endSources(st *stage.State, e *streams.Entry) error {
	h := new(streams.EntryHead)
	if err := streams.Unmarshal(e.Body, h); err != nil {
		f.log.Error("unreadable session", "seq", e.Seq, "err", err)
		return nil
	}
	if err := st.Delete(stage.Key(keyContent, e.Project, h.Agent+"\x00"+h.Session)); err != nil {
		return err
	}
	return st.DropPrefix(stage.Key(keyGrant, e.Project, h.Agent, h.Session, ""))
}

func contents(st *stage.State, project, agent, session string) (list []content, err error) {
	_, err = st.Load(stage.Key(keyContent, project, agent+"\x00"+session), &list)
	return list, err
}

// follows sets p.Sources to the sources that the user named and whose steps the action carries out. If no approval of a
// source can cover the action because of its class, its data or its declared level, follows sets their Limit to the
// reason.
func (p *proposal) follows(st *stage.State, a *streams.ActionEntry, pol *policy.Policy, class policy.Class) error {
	if pol.Sources() == nil || len(a.Sources) == 0 || a.Session == "" {
		return nil
	}
	limit := class.Uncovered(a.Tool)
	switch {
	case limit != "":
	case a.Shown == nil || a.Shown.Marked || !a.Sensitivity.Within(beliefs.Internal):
		limit = "its data is more than internal"
	case classify(pol, p.call(), a.Annotations, beliefs.L0).Level != class.Level:
		limit = "the agent declares a higher level than the policy"
	}
	known, err := contents(st, p.Project, a.Agent, a.Session)
	if err != nil {
		return err
	}
	for _, g := range a.Sources[:min(len(a.Sources), maxContents)] {
		i := slices.IndexFunc(known, func(c content) bool { return c.Digest == g.Digest })
		if i < 0 {
			continue // the source was dropped because of maxContents
		}
		g.Entry = known[i].Entry
		if limit != "" {
			g.Limit = limit
		}
		p.Sources = append(p.Sources, g)
	}
	return nil
}

// call returns the action in the form in which a policy classifies it.
func (p *proposal) call() policy.Call {
	return policy.Call{Tool: p.Tool, Args: []byte(p.Body), Project: p.Project, Agent: p.Agent, Of: p.Of,
		Accepted: p.Accepted}
}

// cover allows a held action that the approval of a source covers. Each reason to hold it must be one that the policy
// lists, and must be about this source only.
func (f *Fold) cover(st *stage.State, p *proposal, pol *policy.Policy, v *streams.VerdictEntry, now time.Time) error {
	if pol == nil || p.Type != streams.TypeAction || v.Verdict != streams.Hold || p.Withdrawn || len(p.Sources) == 0 {
		return nil
	}
	class := classify(pol, p.call(), []byte(p.Hints), beliefs.L0)
	if pol.Sources() == nil || class.Uncovered(p.Tool) != "" {
		return nil
	}
	trust, _, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil || trust == nil {
		return err
	}
	for i := range p.Sources {
		g := &p.Sources[i]
		if g.Limit != "" || g.Strange != "" || !p.answeredBy(g, pol.Sources(), v.Reasons) {
			continue
		}
		a, err := grantOf(st, p.Project, p.Agent, p.Session, g.Digest, now)
		if err != nil {
			return err
		}
		if a == nil || a.Used >= a.Actions || !a.pinned(p, trust, pol.Approving(class)) {
			continue
		}
		a.Used++
		if err := st.Put(grantKey(p.Project, p.Agent, p.Session, a.Digest, a.Hold), a); err != nil {
			return err
		}
		v.Verdict = streams.Allow
		v.Covered = a.use()
		v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeSource, Verdict: streams.Allow, Entry: a.Entry,
			Text: streams.Clip(fmt.Sprintf("%s approved its source %s with hold %s until %s: action %d of at most %d", a.By,
				a.Source, a.Hold, a.Expires.Format(time.RFC3339), a.Used, a.Actions), maxReasonText)})
		return nil
	}
	return nil
}

// pinned reports whether the key that signed the approval is still in the trust file, with the roles that the action
// needs.
func (a *grant) pinned(p *proposal, trust *keys.Trust, roles []keys.Role) bool {
	return slices.ContainsFunc(trust.Pins(), func(pin keys.Pin) bool {
		return pin.Key == a.Key && pin.Agent != p.Project+"/"+p.Agent && !slices.ContainsFunc(roles, func(r keys.Role) bool {
			return !slices.Contains(pin.Roles, r)
		})
	})
}

// answeredBy reports whether the approval of a source removes every reason to hold.
func (p *proposal) answeredBy(g *intent.Grounds, s *policy.Sources, reasons []streams.Reason) bool {
	ofSource := func(observation string) bool {
		return slices.ContainsFunc(g.Observations, func(id string) bool { return streams.Clip(id, maxStep) == observation })
	}
	found := false
	for i := range reasons {
		r := &reasons[i]
		if r.Verdict == streams.Allow {
			continue
		}
		if !s.Covers(r) {
			return false
		}
		found = found || r.Rule != ""
		for _, step := range r.Path {
			if id, ok := strings.CutPrefix(step, "observation:"); ok && !ofSource(id) {
				return false
			}
			if strings.HasPrefix(step, "belief:") && !slices.ContainsFunc(r.Path, func(s string) bool {
				return strings.HasPrefix(s, "observation:")
			}) {
				return false
			}
		}
	}
	for i := range p.Answers {
		a := &p.Answers[i]
		// A list that has reached its limit may lack a reason or a dependency. So the approval does not count.
		if a.Failed || len(a.Reasons) >= maxReasons || len(a.Rests) >= maxRests {
			return false
		}
		for _, r := range a.Rests {
			if found && r.By == "instruction" && (!ofSource(r.Observation) || r.Agent != "" && r.Agent != p.Agent) {
				return false // another source asks for the action too
			}
		}
	}
	return true
}

// approvedSource returns the source that a statement approves together with a hold, or nil if it approves none.
func approvedSource(st *stage.State, h *hold, s *approval.Signed, pol *policy.Policy,
	now time.Time) (*streams.ApprovedSource, error) {
	x := s.Source
	if x == nil || s.Decision != approval.Approve {
		return nil, nil
	}
	refuse := func(c approval.Check, format string, args ...any) (*streams.ApprovedSource, error) {
		return nil, &approval.Error{Check: c, Text: fmt.Sprintf(format, args...)}
	}
	if pol == nil || pol.Sources() == nil {
		return refuse(approval.CheckPolicy, "the policy in force has no section sources, so nobody may approve a source")
	}
	i := slices.IndexFunc(h.Entry.Sources, func(g intent.Grounds) bool { return g.Digest == x.Digest })
	known, err := contents(st, h.Project, h.Agent, h.Entry.Session)
	if err != nil {
		return nil, err
	}
	most := pol.Sources()
	switch {
	case i < 0:
		return refuse(approval.CheckSource, "the held action does not follow a source with the digest %s", x.Digest)
	case x.Session != h.Entry.Session:
		return refuse(approval.CheckSource, "it approves a source for another session than the hold's")
	case !slices.ContainsFunc(known, func(c content) bool { return c.Digest == x.Digest }):
		return refuse(approval.CheckSource, "since the session was shown the source, it was started again or ended")
	case !now.Before(x.Expires), x.Expires.Sub(now) > most.MaxLife:
		return refuse(approval.CheckSource, "it approves the source until %s, but the policy permits at most %v from now",
			x.Expires.Format(time.RFC3339), most.MaxLife)
	case x.Actions > most.MaxActions:
		return refuse(approval.CheckSource, "it approves the source for %d actions, but the policy permits at most %d",
			x.Actions, most.MaxActions)
	}
	return &streams.ApprovedSource{Digest: x.Digest, Source: h.Entry.Sources[i].Source, Session: x.Session,
		Actions: x.Actions, Expires: x.Expires}, nil
}

// putGrant puts the approval of a source in force. It replaces an earlier approval of the same source.
func (f *Fold) putGrant(st *stage.State, in *resolution, h *hold, s *approval.Signed) error {
	if in.source == nil {
		return nil
	}
	if err := st.DropPrefix(grantKey(h.Project, h.Agent, in.source.Session, in.source.Digest, "")); err != nil {
		return err
	}
	key := grantKey(h.Project, h.Agent, in.source.Session, in.source.Digest, h.ID)
	if err := f.forgetAt(st, in.source.Expires, key); err != nil {
		return err
	}
	return st.Put(key, &grant{ApprovedSource: *in.source, Hold: h.ID, By: s.Signer, Key: s.Pin.Key, Entry: in.seq})
}

// granted returns the approval of a source that is in force and was given together with this hold, or nil.
func granted(st *stage.State, h *hold, s *approval.Signed, now time.Time) (*grant, error) {
	a, err := grantOf(st, h.Project, h.Agent, s.Source.Session, s.Source.Digest, now)
	if a != nil && a.Hold != h.ID {
		a = nil
	}
	return a, err
}

// withdrawSource ends the approval of a source.
func (f *Fold) withdrawSource(st *stage.State, in *resolution, h *hold, s *approval.Signed,
	now time.Time) (*stage.Output, error) {
	if err := f.useNonce(st, s); err != nil {
		return nil, err
	}
	if err := st.Delete(grantKey(h.Project, h.Agent, s.Source.Session, s.Source.Digest, h.ID)); err != nil {
		return nil, err
	}
	a := newAlert(WithdrawnRule, "info", h.Project, in.seq, streams.AlertSubject{Kind: "approval", ID: h.ID}, now)
	a.RuleDigest, a.Agent, a.Session, a.Events = in.trust, h.Agent, h.Entry.Session, []string{h.Entry.ID}
	a.Message = streams.Clip(fmt.Sprintf("%s withdrew the approval of the source of hold %s; its later actions are held "+
		"again", s.Signer, h.ID), maxReasonText)
	a.Detail = map[string]any{"entry": fmt.Sprint(in.seq), "signer": s.Signer, "digest": s.Source.Digest}
	return stage.NewOutput(streams.TypeAlerts, h.Project, &streams.AlertsEntry{Group: streams.StageArbiter,
		Digest: in.trust, Alerts: []streams.Alert{a}, Answers: in.id, Intake: in.intake}, alertLive(&a)...)
}

// ShownSource is a source whose steps a held action carries out, with its text.
type ShownSource struct {
	intent.Grounds
	// Texts are the blocks of the source, or Missing says why they are not shown.
	Texts   []string `json:"texts,omitzero"`
	Missing string   `json:"missing,omitzero"`
	// Approved is the approval of the source that is in force in the session, or nil.
	Approved *streams.SourceUse `json:"approved,omitzero"`
}

// Lines returns the lines of the source. Those that name a value of the held action are marked. args are the action's
// arguments as JSON.
func (s *ShownSource) Lines(args string) (lines []intent.Line) {
	var values map[string]any
	if err := streams.Unmarshal([]byte(args), &values); err != nil {
		values = nil
	}
	for _, t := range s.Texts {
		lines = append(lines, intent.Steps(t, values, s.Values)...)
	}
	return lines
}

// maxShownSource is the maximum size in bytes of a source's ledger entry that an answer repeats.
const maxShownSource = 512 << 10

// listSources adds the sources of a hold to an answer about that hold.
func listSources(st *stage.State, x *Hold, h *hold) error {
	now, err := ledgerTime(st)
	if err != nil {
		return err
	}
	for _, g := range h.Entry.Sources {
		s := ShownSource{Grounds: g}
		a, err := grantOf(st, h.Project, h.Agent, h.Entry.Session, g.Digest, now)
		if err != nil {
			return err
		}
		if a != nil {
			s.Approved = a.use()
		}
		x.Sources = append(x.Sources, s)
	}
	return nil
}

// showSources adds the texts of the sources, from the ledger.
func showSources(ctx context.Context, js jetstream.JetStream, h *Hold) error {
	for i := range h.Sources {
		s := &h.Sources[i]
		e, err := stage.ReadEntry(ctx, js, s.Entry)
		if err != nil {
			if s.Missing = err.Error(); ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		o, err := streams.Read[streams.ObservationEntry](&e)
		switch {
		case len(e.Body) > maxShownSource:
			s.Missing = fmt.Sprintf("it has %d bytes, more than an answer holds", len(e.Body))
		case err != nil || o.ContentDigest() != s.Digest:
			s.Missing = fmt.Sprintf("ledger entry %s does not have the text of this source", position.Text(s.Entry))
		default:
			for j := range o.Blocks {
				s.Texts = append(s.Texts, o.Blocks[j].Text)
			}
		}
	}
	return nil
}
