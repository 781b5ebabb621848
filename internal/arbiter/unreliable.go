package arbiter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// fellRule begins the names of the rules of findings on beliefs that became less reliable. The changed axis (see
// beliefs.Axes) follows.
const fellRule = "belief-fell-"

// noteRevisions stores a finding on each belief that an attestation or a contradiction made less reliable. For each
// axis that changed, it drops the earlier finding. The findings apply to all proposals that cite the belief or a belief
// derived from it, also to open holds. A rollback, and the quarantine of an incident, end the belief's clearances.
func (f *Fold) noteRevisions(st *stage.State, e *streams.Entry, now time.Time) error {
	var b struct {
		Check     string             `json:"check"`
		Because   string             `json:"because"`
		Rollback  *streams.Rollback  `json:"rollback"`
		Revisions []beliefs.Revision `json:"revisions"`
	}
	if err := streams.Unmarshal(e.Body, &b); err != nil || b.Check != "" {
		return nil // another function folds the entry too, and logs the error
	}
	for _, rv := range b.Revisions {
		if e.Type == streams.TypeRevision && (b.Rollback != nil || b.Because == "incident" && quarantines(&rv)) {
			if err := st.Delete(clearedKey(e.Project, rv.Belief)); err != nil {
				return err
			}
		}
		for _, m := range rv.Moves {
			rule, under := fellRule+m.Axis.String(), beliefSubject(rv.Belief)
			if err := dropFinding(st, e.Project, under, rule); err != nil {
				return err
			}
			if !fell(m) {
				continue
			}
			fd := finding{Reason: streams.Reason{Code: streams.CodeRests, Verdict: streams.Hold, Rule: rule, Entry: e.Seq,
				Text: streams.Clip(fmt.Sprintf("%s by %s: %s", m.To, rv.Who, rv.Why), maxReasonText)}}
			if err := f.noteFinding(st, e.Project, under, fd, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// fellSince returns the reasons to hold a memory write because a parent became less reliable after the write was
// proposed. Earlier changes of the parents are in the write's own entry.
func (p *proposal) fellSince(st *stage.State, h *hold) ([]streams.Reason, error) {
	var out []streams.Reason
	for _, id := range h.From {
		rs, err := p.findings(st, dependency{Rel: relCited, Belief: id})
		if err != nil {
			return nil, err
		}
		rs = slices.DeleteFunc(rs, func(r streams.Reason) bool {
			return !strings.HasPrefix(r.Rule, fellRule) || r.Entry <= h.Proposal
		})
		out = joinReasons(maxBearing, out, rs)
	}
	return out, nil
}

// fell reports whether a change makes a belief so unreliable that actions which cite it are held.
func fell(m beliefs.Move) bool {
	switch m.To {
	case beliefs.Contradicted.String(), beliefs.Superseded.String(), beliefs.Blocked.String(), beliefs.Hidden.String(),
		beliefs.Expired.String(), beliefs.Suspicious.String(), beliefs.Quarantined.String(), beliefs.Malicious.String():
		return true
	}
	return false
}

// quarantines reports whether a revision quarantines its belief.
func quarantines(rv *beliefs.Revision) bool {
	return slices.ContainsFunc(rv.Moves, func(m beliefs.Move) bool {
		return m.Axis == beliefs.AxisSecurity && m.To == beliefs.Quarantined.String()
	})
}

// dropFinding removes the finding of a rule from a subject.
func dropFinding(st *stage.State, project, under, rule string) error {
	var fs []finding
	key := stage.Key(keyAlerted, project, under)
	ok, err := st.Load(key, &fs)
	if err != nil || !ok {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(fs), func(x finding) bool {
		return x.Reason.Rule == rule && x.Reason.Group == ""
	})
	if len(left) == len(fs) {
		return nil
	}
	return st.Put(key, left)
}
