package arbiter

import (
	"cmp"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A finding is a stored alert about a belief, an event or a source. This file records which findings on a belief a
// person has cleared, by approving the hold of a memory's write or by confirming the belief. A cleared finding does not
// make a recall withhold the belief. It still counts against actions that cite the belief, and against other beliefs. A
// finding that the signature does not cover is not cleared: a recall still withholds the belief because of it. A
// finding that comes after the signature is not cleared either, unless the same rule says the same again, as in a
// re-audit of all beliefs.

// clearance is one signature that cleared findings on a belief.
type clearance struct {
	By    string `json:"by"`    // name of the signing key
	Entry uint64 `json:"entry"` // position of the entry with the signature
	// Findings are the keys of the cleared findings: those among the reasons of the hold, or those that the
	// confirmation names.
	Findings []string `json:"findings"`
}

// maxClearances is the maximum number of clearances of one belief. The oldest is removed first.
const maxClearances = 8

// keys returns the keys of a finding on a subject, one for each of its texts.
func (fd finding) keys(subject string) (out []string) {
	for _, text := range append([]string{fd.Reason.Text}, fd.Also...) {
		out = append(out, streams.FindingKey(subject, fd.Reason.Group, fd.Reason.Rule, fd.Reason.Verdict, text))
	}
	return out
}

func clearedKey(project, belief string) []byte { return stage.Key(keyCleared, project, belief) }

// clearances returns the clearances of a belief. It returns none for an empty id.
func clearances(st *stage.State, project, belief string) (out []clearance, err error) {
	if belief == "" {
		return nil, nil
	}
	_, err = st.Load(clearedKey(project, belief), &out)
	return out, err
}

// clears returns the first clearance that covers a finding on a subject, or nil. A clearance covers a finding if it has
// the keys of all texts of the finding, and no text is missing in the state (finding.More).
func clears(all []clearance, subject string, fd finding) *clearance {
	i := slices.IndexFunc(all, func(c clearance) bool {
		return !fd.More && !slices.ContainsFunc(fd.keys(subject), func(key string) bool {
			return !slices.Contains(c.Findings, key)
		})
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func addClearance(st *stage.State, project, belief string, c clearance) error {
	all, err := clearances(st, project, belief)
	if err != nil {
		return err
	}
	all = append(all, c)
	return st.Put(clearedKey(project, belief), all[max(0, len(all)-maxClearances):])
}

// clearApproved records which findings on a memory's belief the approval of its hold covers. Each of these findings is
// a reason of the hold, and the signature covers the hold's revision, a digest of its reasons.
func clearApproved(st *stage.State, in *resolution, h *hold) error {
	b := h.Entry.Belief
	if b == nil {
		return nil
	}
	c := clearance{By: in.signer, Entry: in.seq}
	p := &proposal{Type: h.Entry.Type, Project: h.Project, ID: h.Entry.ID, Agent: h.Agent}
	r := ref(*b)
	r.Rel, r.Agent = relFound, h.Agent
	err := p.bearing(st, r, func(fd finding, under string, _ []string, _ bool, by *clearance) {
		if by == nil && slices.ContainsFunc(h.Entry.Reasons, func(x streams.Reason) bool {
			return x.Verdict > streams.Allow && x.Group == fd.Reason.Group && x.Rule == fd.Reason.Rule &&
				x.Alert == fd.Reason.Alert
		}) {
			c.Findings = append(c.Findings, fd.keys(under)[0]) // of the text that the hold shows
		}
	})
	if err != nil || len(c.Findings) == 0 {
		return err
	}
	slices.Sort(c.Findings)
	c.Findings = slices.Compact(c.Findings)
	return addClearance(st, h.Project, b.ID, c)
}

// clearConfirmed records which findings a signed confirmation of a belief clears. Ingest verified the confirmation; the
// arbiter verifies its signature and the signer's role again. A confirmation that ingest refused clears nothing. A
// decision against the belief ends all clearances; its signature is not verified again. A rollback and the quarantine
// of an incident also end them, see noteRevisions.
func (f *Fold) clearConfirmed(st *stage.State, e *streams.Entry) error {
	c := new(streams.ConfirmationEntry)
	if streams.Unmarshal(e.Body, c) != nil || c.Check != "" {
		return nil // refused by ingest, or unreadable: attested logs it
	}
	if approval.Decision(c.Decision).Withdraws() {
		return st.Delete(clearedKey(e.Project, c.Belief))
	}
	if len(c.Findings) == 0 {
		return nil
	}
	trust, _, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil || trust == nil {
		return err
	}
	s, err := approval.OpenBelief([]byte(c.Note), trust)
	if err != nil || s.Project != e.Project || s.Belief != c.Belief || s.Decision != approval.Confirm {
		f.log.Warn("the signature of a confirmation does not cover its findings", "seq", e.Seq, "err", err)
		return nil
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil || pol == nil || !s.Person(pol.Approver()) {
		return err // only a person's confirmation clears findings
	}
	return addClearance(st, e.Project, c.Belief, clearance{By: s.Signer, Entry: e.Seq, Findings: s.Findings})
}

// AskFindings is the name of the query for the findings because of which recalls withhold a belief.
const AskFindings = "findings"

// FindingsRequest asks for the findings on a belief. Belief is the belief as ingest's query AskBeliefs returned it.
type FindingsRequest struct {
	Project string            `json:"project"`
	Agent   string            `json:"agent"` // the agent that wrote or read the belief
	Belief  streams.BeliefRef `json:"belief"`
}

// Finding is a finding that makes recalls withhold a belief.
type Finding struct {
	Key  string `json:"key"` // see streams.FindingKey
	Text string `json:"text"`
	// More is set if the rule said more than is stored, or if there are further findings that are not stored. No
	// signature can clear this finding then.
	More bool `json:"more,omitzero"`
}

// listFindings answers AskFindings: the findings that nobody has cleared.
func listFindings(st *stage.State, req []byte) (any, error) {
	var q FindingsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	out := []Finding{}
	p := &proposal{Type: streams.TypeRecall, Project: q.Project, Agent: q.Agent}
	r := ref(q.Belief)
	r.Rel, r.Agent = relFound, cmp.Or(r.Agent, q.Agent)
	err := p.bearing(st, r, func(fd finding, under string, path []string, named bool, by *clearance) {
		found := p.because(r, fd.Reason, path, named)
		if by != nil || found.Verdict == streams.Allow {
			return
		}
		on := subjectText(under)
		if under == eventSubject(r.Observation) {
			on += ", which the belief comes from"
		}
		texts := append([]string{fd.Reason.Text}, fd.Also...)
		for i, key := range fd.keys(under) {
			out = append(out, Finding{Key: key, Text: fd.Reason.Rule + " on " + on + ": " + texts[i], More: fd.More})
		}
	})
	return out, err
}

// refuseFound withholds each belief that a recall found and on which there is a finding that asks for a hold or deny.
// The recall serves its other beliefs. refuseFound returns the findings as reasons whose verdict is allow, because the
// recall itself is allowed. In learn mode nothing is withheld.
func (p *proposal) refuseFound(st *stage.State, learn bool) ([]streams.Reason, error) {
	if p.Type != streams.TypeRecall {
		return nil, nil
	}
	var out []streams.Reason
	gone, did := make(map[string]bool), "withheld: "
	if learn {
		did = "would be withheld: "
	}
	for _, r := range p.Rests {
		if r.Rel != relFound {
			continue
		}
		rs, err := p.findings(st, r)
		if err != nil {
			return nil, err
		}
		rs = slices.DeleteFunc(rs, func(r streams.Reason) bool { return r.Verdict == streams.Allow && p.said(r) })
		_, rs = judge(rs)
		rs = uniqueFindings(rs)
		if len(rs) > 0 && rs[0].Verdict > streams.Allow && !gone[r.Belief] {
			gone[r.Belief] = true
			if !learn {
				p.Withheld = append(p.Withheld, streams.Refusal{ID: r.Belief, Reason: beliefs.ReasonFinding, Text: rs[0].Text})
			}
		}
		for i := range rs {
			if rs[i].Verdict > streams.Allow {
				rs[i].Verdict, rs[i].Text = streams.Allow, streams.Clip(did+rs[i].Text, maxReasonText)
			}
		}
		out = joinReasons(maxBearing, out, rs)
	}
	if !learn {
		// The session does not get these beliefs, so its later actions do not depend on them.
		p.Rests = slices.DeleteFunc(p.Rests, func(r dependency) bool { return gone[r.Belief] })
	}
	return out, nil
}

// uniqueFindings removes each reason about a finding that an earlier reason is about too. A finding on a memory is
// stored twice, under its belief and under its event.
func uniqueFindings(rs []streams.Reason) []streams.Reason {
	var out []streams.Reason
	for _, r := range rs {
		if !slices.ContainsFunc(out, func(x streams.Reason) bool {
			return x.Group == r.Group && x.Rule == r.Rule && x.Alert == r.Alert && x.Entry == r.Entry
		}) {
			out = append(out, r)
		}
	}
	return out
}
