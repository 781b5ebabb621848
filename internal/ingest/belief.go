package ingest

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// record is a belief as the state stores it.
type record struct {
	Ref     streams.BeliefRef `json:"ref"`
	Content string            `json:"content,omitzero"` // a memory's whole text; the beginning of read content
	Agent   string            `json:"agent,omitzero"`
	Session string            `json:"session,omitzero"`
	Tool    string            `json:"tool,omitzero"`
	// DataSubject is the person whom the belief concerns. About is the user whom it concerns, if that is not the user
	// of its namespace.
	DataSubject string `json:"data_subject,omitzero"`
	About       string `json:"about,omitzero"`
	// Adopted is the state that the belief's origin and evidence allow. A memory gets this state when the arbiter's
	// verdict admits it.
	Adopted beliefs.Adoption `json:"adopted"`
	At      time.Time        `json:"at"` // event time of the last confirmation, not of the last reading
	From    time.Time        `json:"valid_from,omitzero"`
	To      time.Time        `json:"valid_to,omitzero"`
	Intake  uint64           `json:"intake"`
	Count   uint64           `json:"count"` // number of readings, without those that the field `again` counts
	Memory  bool             `json:"memory,omitzero"`
	// Writer, Inherited, Category and Channel are set for a memory only. They are needed when the memory is judged
	// again.
	Writer    beliefs.Origin `json:"writer,omitzero"`
	Inherited beliefs.Origin `json:"inherited,omitzero"`
	Category  string         `json:"category,omitzero"`
	Channel   string         `json:"channel,omitzero"`
	// Evidence is the evidence for and against the belief, at most beliefs.MaxEvidence of each.
	Evidence beliefs.EvidenceSet `json:"evidence,omitzero"`
	Parents  []streams.Parent    `json:"parents,omitzero"` // texts that a memory derives from
	Triples  []beliefs.Triple    `json:"triples,omitzero"`
	Digest   string              `json:"digest,omitzero"` // SHA-256 of the whole content
	Print    string              `json:"print,omitzero"`  // for a memory: digest of its normalized content
	// Seal is a hash of the belief's identity, copied from the belief's entry. intact compares it with the record, to
	// detect that the state was changed.
	Seal string `json:"seal,omitzero"`
	// The belief is no longer fresh after Stale, and no longer served after Expires.
	Stale   time.Time `json:"stale,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Since   time.Time `json:"since,omitzero"` // start of both periods
	// StagedFor is the reason why a person must confirm the belief before it is more than context. It is empty if that
	// is not needed.
	StagedFor string `json:"staged_for,omitzero"`
	// Signed is the name of the key with which a person confirmed the belief.
	Signed string `json:"signed,omitzero"`
	// Conflicts are the ids of beliefs that contradict this one: they state another object for the same subject and
	// predicate. Successor is the id of the belief that superseded it.
	Conflicts []string `json:"conflicts,omitzero"`
	Successor string   `json:"successor,omitzero"`
	// Cleared are the findings of rules that a person saw when they approved the hold of the memory or confirmed the
	// belief, see streams.FindingKey. If a rule has one of these findings again, the finding does not restrict the
	// belief.
	Cleared []string `json:"cleared,omitzero"`
	// Flag is the reason why a person should review the belief, or "". Attestations name a digest of the belief that
	// covers this text (see revision). So do not reword a text that the code computes for Flag: a fold of an old ledger
	// would then give another digest than the one that the attestation names.
	Flag string `json:"flag,omitzero"`
	// Doc is the belief's document number in its word index, plus one. It is 0 if earlier versions wrote the record.
	Doc uint32 `json:"doc,omitzero"`

	// again is how often the content was read again, and readAt when it was last read. The state stores both under
	// keyAgain, not in the record.
	again  uint64
	readAt time.Time
}

// The kinds of influence that a belief can have on an event. Keys under keyImpact contain the kind.
const (
	impactMemory   = "memory"   // the event is a memory that derives from the belief
	impactDecision = "decision" // the event is a decision that cites the belief
	impactAction   = "action"   // the event is an action that cites the belief, or whose decision cites it
)

// influence records that a belief influenced an event.
func (f *Fold) influence(st *stage.State, project, belief, kind, agent, event string) error {
	return st.Set(stage.Key(keyImpact, project, belief, kind, agent, event), nil)
}

// previewLen is the number of bytes of read content in a belief's record. The ledger has the whole content.
const previewLen = 240

// beliefID returns a belief's id, a hash of parts. So the same parts give the same id in every process.
func beliefID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "b" + beliefEncoding.EncodeToString(sum[:10])
}

// beliefEncoding is base32 with lower-case letters.
var beliefEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func (f *Fold) belief(st *stage.State, project, id string) (*record, error) {
	v, ok, err := st.Get(stage.Key(keyBelief, project, id))
	if err != nil || !ok {
		return nil, err
	}
	r := new(record)
	if err := readRecord(id, v, r); err != nil {
		return nil, err
	}
	return r, again(st, project, r)
}

// beliefRef returns the reference to the belief with an id. ok is false if there is none. It reads less than belief.
func (f *Fold) beliefRef(st *stage.State, project, id string) (ref streams.BeliefRef, ok bool, err error) {
	v, ok, err := st.Get(stage.Key(keyBelief, project, id))
	if err != nil || !ok {
		return ref, false, err
	}
	if len(v) > 0 && v[0] == shortRecord {
		_, err = readShort(id, v, &ref)
		return ref, err == nil, err
	}
	var r record
	err = readRecord(id, v, &r)
	return r.Ref, err == nil, err
}

// cited returns a reference to the belief for the entry of an event that cites it.
func (r *record) cited() streams.BeliefRef {
	b := r.Ref
	b.Agent = r.Agent
	return b
}

// cite returns references to the beliefs with the given ids, with their state at the time now.
func (f *Fold) cite(st *stage.State, project string, ids []string, now time.Time) ([]streams.BeliefRef, error) {
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
		b := r.cited()
		b.Axes = r.axesAt(now)
		out = append(out, b)
	}
	return out, nil
}

// applyAlerts restricts the beliefs that a sentinel's alerts name. An alert never removes a restriction.
func (f *Fold) applyAlerts(st *stage.State, e *streams.Entry) error {
	var a struct {
		Alerts []streams.Alert `json:"alerts"`
	}
	if err := streams.Unmarshal(e.Body, &a); err != nil {
		f.log.Error("cannot decode the alerts of a sentinel", "seq", e.Seq, "err", err)
		return nil
	}
	if err := f.findings(st, e, a.Alerts); err != nil {
		return err
	}
	if err := noteOfferAlerts(st, e.Project, a.Alerts); err != nil {
		return err
	}
	group, _ := streams.SentinelGroup(e.Stage)
	for _, al := range a.Alerts {
		asks, binding := al.Asks("")
		if !binding || al.Subject.Kind != "belief" {
			continue
		}
		r, err := f.belief(st, e.Project, al.Subject.ID)
		if err != nil {
			return err
		}
		if r == nil || slices.Contains(r.Cleared, streams.FindingKey(streams.BeliefSubject(r.Ref.ID), group, al.Rule, asks,
			al.Message)) {
			continue
		}
		axes := beliefs.Restrict(r.Ref.Axes, r.Ref.Quality, al.Effect)
		if axes == r.Ref.Axes {
			continue
		}
		r.Ref.Axes = axes
		if err := f.saveRecord(st, e.Project, r); err != nil {
			return err
		}
		if axes.Security >= beliefs.Quarantined && r.Ref.Kind != beliefs.Envelope {
			if err := f.bury(st, e.Project, r, buriedQuarantined, e.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyArbiterAlerts opens incidents for findings of the arbiter. An alert that only reports how the arbiter answered a
// signed resolution or order is not a finding.
func (f *Fold) applyArbiterAlerts(st *stage.State, e *streams.Entry) error {
	a := new(streams.AlertsEntry)
	if err := streams.Unmarshal(e.Body, a); err != nil {
		f.log.Error("cannot decode the alerts of the arbiter", "seq", e.Seq, "err", err)
		return nil
	}
	if a.Answers != "" {
		return nil
	}
	return f.findings(st, e, a.Alerts)
}

// applyVerdict folds a verdict of the arbiter. A verdict on a memory write changes the state of the memory's belief.
func (f *Fold) applyVerdict(st *stage.State, e *streams.Entry) error {
	if e.Type != streams.TypeVerdict {
		return nil
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(e.Body, v); err != nil {
		f.log.Error("cannot decode a verdict", "seq", e.Seq, "err", err)
		return nil
	}
	if err := noteDecided(st, v.Proposal); err != nil {
		return err
	}
	if v.Alert != nil && v.Answers == "" {
		if err := f.findings(st, e, []streams.Alert{*v.Alert}); err != nil {
			return err
		}
	}
	if err := f.judged(st, e.Project, v); err != nil {
		return err
	}
	if err := f.lookedUp(st, e.Project, v); err != nil {
		return err
	}
	if err := acceptOffer(st, e.Project, v); err != nil {
		return err
	}
	// If a proposal is sent again, its verdict repeats the resolution of the first verdict. Do not apply the resolution
	// twice.
	if v.Resolved != nil && v.Resolved.Accepted != nil && v.Verdict == streams.Allow && !v.Again {
		return noteAccepted(st, e.Project, v.Resolved.Accepted)
	}
	if v.Resolved != nil && v.Resolved.Prompt != nil && v.Verdict == streams.Allow && !v.Again {
		return notePrompt(st, e.Project, v)
	}
	if v.Type != streams.TypeMemory || v.Belief == nil || v.Again {
		return nil
	}
	r, err := f.belief(st, e.Project, v.Belief.ID)
	if err != nil || r == nil {
		return err
	}
	if r.Signed != "" {
		return f.verdictOnSigned(st, e.Project, r, v)
	}
	next := r.Adopted.Admit(v.Verdict.String())
	// resolved is set if a person resolved the hold and the belief has not changed since the hold. Then the person's
	// decision replaces the restrictions by the findings that caused the hold. A finding after the hold changes the
	// belief, so its restriction stays.
	resolved := v.Resolved != nil && r.Ref.Axes == r.Adopted.Admit(streams.Hold.String())
	switch was := r.Ref.Axes; {
	case resolved || was == (beliefs.Axes{}):
	case v.Resolved == nil && was == (beliefs.Axes{Security: beliefs.Suspicious, Freshness: was.Freshness}):
		// A rule had a finding on this memory before its first verdict. Until then, the memory was a hidden candidate,
		// and the finding made no difference. So the finding's restriction is applied now.
		next = beliefs.Restrict(next, r.Ref.Quality, streams.EffectRestrict)
	default: // keep restrictions by findings and decisions that came after the hold
		next = stricter(next, was)
	}
	next.Freshness = r.Ref.Axes.Freshness
	r.Ref.Axes = next
	if v.Verdict == streams.Deny && !v.Learn {
		why := buriedDenied
		if v.Resolved != nil {
			why = buriedRejected
		}
		if err := f.bury(st, e.Project, r, why, v.Time); err != nil {
			return err
		}
	}
	if resolved && v.Verdict == streams.Allow {
		r.Cleared = cleared(r.Ref.ID, v)
	}
	if resolved && v.Verdict == streams.Allow && r.Ref.Procedure {
		f.signProcedure(r, v)
	}
	if err := f.saveRecord(st, e.Project, r); err != nil || v.Verdict != streams.Allow {
		return err
	}
	if err := f.takeKey(st, e.Project, r, v.Time); err != nil {
		return err
	}
	return f.compareStatements(st, e.Project, r.Ref.ID, v.Time)
}

// cleared returns the keys (streams.FindingKey) of the findings for which an approved memory was held, as findings on
// its belief.
func cleared(belief string, v *streams.VerdictEntry) (out []string) {
	for _, r := range v.Reasons {
		if r.Verdict > streams.Allow && r.Rule != "" {
			out = append(out, streams.FindingKey(streams.BeliefSubject(belief), r.Group, r.Rule, r.Verdict, r.Text))
		}
	}
	return out
}

// signProcedure confirms a procedure (a skill) whose hold a person approved. The approval counts as the person's
// confirmation of it, because the signed digest covers every byte of the procedure.
func (f *Fold) signProcedure(r *record, v *streams.VerdictEntry) {
	word := beliefs.Evidence{Observation: v.Resolved.Hold, Quality: beliefs.HumanAssertion,
		Source: "key:" + v.Resolved.By, At: v.Resolved.Time}
	s, _, err := r.standing().Confirm(word, beliefs.ByUser)
	if err != nil {
		return // there was another finding after the hold
	}
	r.Ref.Axes, r.Evidence, r.Ref.Scope = s.Axes, s.Evidence, s.Scope
	r.Ref.Quality, r.Ref.Confidence = s.Quality(), s.Confidence()
	r.Ref.Staged, r.StagedFor, r.Signed = false, "", v.Resolved.By
}

// verdictOnSigned applies a verdict to a belief that a person has signed for. A deny withholds the belief. Other
// verdicts change nothing.
func (f *Fold) verdictOnSigned(st *stage.State, project string, r *record, v *streams.VerdictEntry) error {
	if v.Verdict != streams.Deny || v.Learn {
		return nil
	}
	r.Ref.Axes, r.Signed = stricter(r.Adopted.Admit(v.Verdict.String()), r.Ref.Axes), ""
	if err := f.bury(st, project, r, buriedDenied, v.Time); err != nil {
		return err
	}
	return f.saveRecord(st, project, r)
}

// takeKey makes an admitted memory the holder of its memory key, unless the belief that holds the key has stronger
// evidence. A user's new memory supersedes the earlier memory of the same user under the key.
func (f *Fold) takeKey(st *stage.State, project string, r *record, at time.Time) error {
	if r.Ref.Key == "" || r.Ref.Axes.Security >= beliefs.Quarantined {
		return nil
	}
	key := nameKey(project, r.Ref.Namespace, r.Ref.Key)
	id, ok, err := st.Get(key)
	if err != nil {
		return err
	}
	if ok && string(id) != r.Ref.ID {
		old, err := f.belief(st, project, string(id))
		if err != nil {
			return err
		}
		if old != nil && old.Ref.Axes.Security == beliefs.Clean && old.Ref.Axes.Truth != beliefs.Superseded {
			if old.Ref.Quality.Stronger(r.Ref.Quality) {
				return nil
			}
			if old.ownWord() && r.ownWord() && old.Ref.Source == r.Ref.Source && old.Digest != r.Digest &&
				r.Ref.Axes.Truth == beliefs.Supported {
				if _, moves, err := old.standing().Supersede(r.Ref.ID, beliefs.ByUser); err == nil {
					rv := beliefs.Revision{Belief: old.Ref.ID, Moves: moves, By: beliefs.ByUser, Who: old.Ref.Source,
						Why:   "the same person or source stated another value under key " + streams.Clip(r.Ref.Key, 80),
						Other: r.Ref.ID, At: at}
					if err := f.revise(st, project, &rv); err != nil {
						return err
					}
					if err := f.queueRevisions(st, project, becauseConflict, []beliefs.Revision{rv}, at); err != nil {
						return err
					}
				}
			}
		}
	}
	return st.Set(key, []byte(r.Ref.ID))
}

// nameKey returns the state key of the belief that holds a memory key in a namespace.
func nameKey(project string, in beliefs.Namespace, key string) []byte {
	if in == (beliefs.Namespace{}) {
		return stage.Key(keyName, project, key)
	}
	return stage.Key(keyName, project, key, in.String())
}

// stricter returns, for each axis, the more restrictive of two values.
func stricter(a, b beliefs.Axes) beliefs.Axes {
	a.Security, a.Freshness = max(a.Security, b.Security), max(a.Freshness, b.Freshness)
	if reach(b.Retrieval) > reach(a.Retrieval) {
		a.Retrieval = b.Retrieval
	}
	if a.Security >= beliefs.Quarantined && a.Retrieval != beliefs.Blocked {
		a.Retrieval = beliefs.Hidden
	}
	if a.Retrieval == beliefs.Normal && a.Security != beliefs.Clean {
		a.Retrieval = beliefs.Restricted
	}
	if b.Truth != beliefs.Supported {
		a.Truth = b.Truth
	}
	return a
}

// reach ranks a retrieval state by how much it restricts a belief. 0 is no restriction.
func reach(r beliefs.Retrieval) int {
	switch r {
	case beliefs.Normal:
		return 0
	case beliefs.Restricted:
		return 1
	case beliefs.PrivilegedOnly:
		return 2
	case beliefs.Hidden:
		return 3
	}
	return 4
}
