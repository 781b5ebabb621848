package arbiter

import (
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// This file records which findings on a memory's belief a person has cleared by approving the hold of the write. A
// cleared finding does not make a recall withhold the belief. It still counts against actions that cite the belief, and
// against other beliefs. Findings that were no reason of the hold count. So do later ones, unless the same rule says the
// same again, as when all beliefs are judged again.

// clearance is one approval that cleared findings on a belief.
type clearance struct {
	By    string `json:"by"`    // name of the signing key
	Entry uint64 `json:"entry"` // position of the approval's entry
	// Findings are the keys of the cleared findings: those among the reasons of the hold.
	Findings []string `json:"findings"`
}

// maxClearances is the maximum number of clearances of one belief. The oldest is removed first.
const maxClearances = 8

func (fd finding) key() string {
	return streams.FindingKey(fd.Reason.Group, fd.Reason.Rule, fd.Reason.Text)
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

// clears returns the first clearance that covers a finding, or nil.
func clears(all []clearance, fd finding) *clearance {
	i := slices.IndexFunc(all, func(c clearance) bool {
		return !fd.More && slices.Contains(c.Findings, fd.key())
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

// clearApproved records which findings on a memory's belief the approval of its hold covers. Each is a reason of the
// hold, so the signed revision covers it.
func clearApproved(st *stage.State, in *resolution, h *hold) error {
	b := h.Entry.Belief
	if b == nil {
		return nil
	}
	c := clearance{By: in.signer, Entry: in.seq}
	p := &proposal{Type: h.Entry.Type, Project: h.Project, ID: h.Entry.ID, Agent: h.Agent}
	r := ref(*b)
	r.Rel, r.Agent = relFound, h.Agent
	err := p.bearing(st, r, func(fd finding, _ []string, _ bool, by *clearance) {
		if by == nil && slices.ContainsFunc(h.Entry.Reasons, func(x streams.Reason) bool {
			return x.Verdict > streams.Allow && x.Group == fd.Reason.Group && x.Rule == fd.Reason.Rule &&
				x.Alert == fd.Reason.Alert
		}) {
			c.Findings = append(c.Findings, fd.key())
		}
	})
	if err != nil || len(c.Findings) == 0 {
		return err
	}
	slices.Sort(c.Findings)
	c.Findings = slices.Compact(c.Findings)
	return addClearance(st, h.Project, b.ID, c)
}

// refuseFound withholds each belief that a recall found and on which there is a finding that asks for a hold or deny.
// The recall serves the others. It returns the findings as reasons that ask for nothing. In learn mode nothing is
// withheld.
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

// uniqueFindings removes reasons about a finding that an earlier reason has: a finding on a memory is stored under its
// belief and under its event.
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
