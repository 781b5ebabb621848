package ingest

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// record is a belief as it is kept in the state.
type record struct {
	Ref     streams.BeliefRef `json:"ref"`
	Content string            `json:"content,omitzero"` // clipped for what was read; whole for memories
	Agent   string            `json:"agent,omitzero"`
	Session string            `json:"session,omitzero"`
	Tool    string            `json:"tool,omitzero"`
	// Adopted is how its evidence would have it stand; a memory gets there by
	// the arbiter's verdict.
	Adopted beliefs.Adoption `json:"adopted"`
	At      time.Time        `json:"at"` // event time of its last confirmation
	From    time.Time        `json:"valid_from,omitzero"`
	To      time.Time        `json:"valid_to,omitzero"`
	Intake  uint64           `json:"intake"`
	Count   uint64           `json:"count"` // how often it was read
	Memory  bool             `json:"memory,omitzero"`
	// Of a memory, for those who judge it again.
	Writer    beliefs.Origin `json:"writer,omitzero"`
	Inherited beliefs.Origin `json:"inherited,omitzero"`
	Category  string         `json:"category,omitzero"`
	Channel   string         `json:"channel,omitzero"`
	// Evidence is what speaks for and against it, within bounds.
	Evidence beliefs.EvidenceSet `json:"evidence,omitzero"`
	Parents  []streams.Parent    `json:"parents,omitzero"` // of a memory: what it derives from
	Triples  []beliefs.Triple    `json:"triples,omitzero"`
	Digest   string              `json:"digest,omitzero"` // SHA-256 of the content, whole
	// Stale and Expires are when it ceases to be fresh, and to be served.
	Stale   time.Time `json:"stale,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// StagedFor says why it waits, while it does.
	StagedFor string `json:"staged_for,omitzero"`
	// Signed is the name of the key that somebody vouched for it with.
	Signed string `json:"signed,omitzero"`
	// Conflicts are beliefs that say otherwise, of the same subject and
	// predicate; Successor is the one that took its place.
	Conflicts []string `json:"conflicts,omitzero"`
	Successor string   `json:"successor,omitzero"`
	// Flag says why somebody should look at it again.
	Flag string `json:"flag,omitzero"`
}

// Kinds of influence, in the index by keyImpact.
const (
	impactMemory   = "memory"   // derives from it
	impactDecision = "decision" // cites it
	impactAction   = "action"   // cites it, itself or by its decision
)

// influence notes what a belief influenced.
func (f *Fold) influence(st *stage.State, project, belief, kind, agent, event string) error {
	return st.Set(stage.Key(keyImpact, project, belief, kind, agent, event), nil)
}

// previewLen is how much of what was read is kept in the state, in bytes. The
// whole of it stands in the ledger.
const previewLen = 240

// beliefID names a belief after what it is about, the same in every process.
func beliefID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "b" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10]))
}

func (f *Fold) belief(st *stage.State, project, id string) (*record, error) {
	r := new(record)
	ok, err := st.Load(stage.Key(keyBelief, project, id), r)
	if err != nil || !ok {
		return nil, err
	}
	return r, nil
}

// cited is the belief for an event that refers to it.
func (r *record) cited() streams.BeliefRef {
	b := r.Ref
	b.Agent = r.Agent
	return b
}

// cite looks up the beliefs that an event names, as they stand now.
func (f *Fold) cite(st *stage.State, project string, ids []string) ([]streams.BeliefRef, error) {
	var out []streams.BeliefRef
	done := make(map[string]bool, len(ids))
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		r, err := f.belief(st, project, id)
		if err != nil {
			return nil, err
		}
		if r == nil {
			out = append(out, streams.BeliefRef{ID: id})
			continue
		}
		out = append(out, r.cited())
	}
	return out, nil
}

// applyAlerts lets a sentinel's findings restrict the beliefs that they name.
// Nothing that a sentinel says can loosen one.
func (f *Fold) applyAlerts(st *stage.State, e *streams.Entry) error {
	var a struct {
		Alerts []streams.Alert `json:"alerts"`
	}
	if err := streams.Unmarshal(e.Body, &a); err != nil {
		f.log.Error("unreadable findings of a sentinel", "seq", e.Seq, "err", err)
		return nil
	}
	for _, al := range a.Alerts {
		if _, binding := al.Asks(""); !binding || al.Subject.Kind != "belief" {
			continue
		}
		r, err := f.belief(st, e.Project, al.Subject.ID)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		axes := beliefs.Restrict(r.Ref.Axes, r.Ref.Quality, al.Effect)
		if axes == r.Ref.Axes {
			continue
		}
		r.Ref.Axes = axes
		if err := st.Put(stage.Key(keyBelief, e.Project, r.Ref.ID), r); err != nil {
			return err
		}
	}
	return nil
}

// applyVerdict lets the arbiter's verdict on a memory write decide how its
// candidate stands.
func (f *Fold) applyVerdict(st *stage.State, e *streams.Entry) error {
	if e.Type != streams.TypeVerdict {
		return nil
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(e.Body, v); err != nil {
		f.log.Error("unreadable verdict", "seq", e.Seq, "err", err)
		return nil
	}
	if err := noteDecided(st, v.Proposal); err != nil {
		return err
	}
	if v.Type != streams.TypeMemory || v.Belief == nil || v.Again {
		return nil
	}
	r, err := f.belief(st, e.Project, v.Belief.ID)
	if err != nil || r == nil {
		return err
	}
	next := r.Adopted.Admit(v.Verdict.String())
	// A person who decides on what the hold left clears it, unless something
	// else was found since.
	resolved := v.Resolved != nil && r.Ref.Axes == r.Adopted.Admit(streams.Hold.String())
	if !resolved && (v.Late || r.Ref.Axes.Security != beliefs.Clean) {
		// What was found in the meantime stays.
		next = stricter(next, r.Ref.Axes)
	}
	r.Ref.Axes = next
	if v.Verdict == streams.Allow && r.Ref.Key != "" {
		if err := st.Set(stage.Key(keyName, e.Project, r.Ref.Key), []byte(r.Ref.ID)); err != nil {
			return err
		}
	}
	return st.Put(stage.Key(keyBelief, e.Project, r.Ref.ID), r)
}

// stricter is axis by axis the less trusting of two.
func stricter(a, b beliefs.Axes) beliefs.Axes {
	if b.Security > a.Security {
		a.Security = b.Security
	}
	if a.Security >= beliefs.Quarantined && a.Retrieval != beliefs.Blocked {
		a.Retrieval = beliefs.Hidden
	}
	if b.Retrieval == beliefs.Blocked {
		a.Retrieval = beliefs.Blocked
	}
	if a.Retrieval == beliefs.Normal && a.Security != beliefs.Clean {
		a.Retrieval = beliefs.Restricted
	}
	if b.Truth == beliefs.Contradicted {
		a.Truth = b.Truth
	}
	return a
}
