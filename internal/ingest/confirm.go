package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeConfirmation, (*Fold).applyConfirmation)
}

// revision returns the digest of a belief's state. An attestation names this digest. A new finding changes the state.
// So an attestation that was signed before the finding is refused.
func (r *record) revision() string {
	b, err := streams.Marshal(struct {
		Axes      beliefs.Axes
		Evidence  beliefs.EvidenceSet
		Conflicts []string
		Successor string
		Flag      string
	}{r.Ref.Axes, r.Evidence, r.Conflicts, r.Successor, r.Flag})
	if err != nil {
		b = fmt.Append(nil, r.Ref.Axes, r.Evidence)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// standing returns the belief's state as package beliefs uses it.
func (r *record) standing() beliefs.Standing {
	return beliefs.Standing{Axes: r.Ref.Axes, Evidence: r.Evidence, Scope: r.Ref.Scope}
}

// confirmation records a signed attestation of a belief and its effects. A forged attestation is recorded too, as
// evidence. The decision depends only on earlier ledger entries.
func (f *Fold) confirmation(st *stage.State, m *stage.Message, c *streams.Control,
	head streams.EntryHead) (*stage.Admission, error) {
	invalid := func(err error) (*stage.Admission, error) {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	if _, err := streams.ResolveSubject(c.Project, c.Belief); err != nil {
		return invalid(err)
	}
	if err := streams.CheckID("id", c.ID); err != nil {
		return invalid(err)
	}
	if p := streams.PartitionOf(c.Project); p != m.Address.Partition {
		return invalid(fmt.Errorf("the command came in another partition: project %s is in partition %d", c.Project, p))
	}
	e := &streams.ConfirmationEntry{EntryHead: head, Belief: c.Belief, Note: c.Note}
	if len(c.Note) > streams.MaxResolution {
		e.Note, e.Size = streams.Clip(c.Note, streams.MaxResolution), len(c.Note)
	}
	err := f.judgeAttestation(st, c, e)
	var refused *approval.Error
	if errors.As(err, &refused) {
		e.Check, e.Text, e.Revisions, e.Tombstone = string(refused.Check), refused.Text, nil, false
	} else if err != nil {
		return nil, err
	}
	return admission(streams.TypeConfirmation, c.Project, e)
}

// judgeAttestation verifies an attestation and sets its effects in e. It returns an *approval.Error if it refuses the
// attestation.
func (f *Fold) judgeAttestation(st *stage.State, c *streams.Control, e *streams.ConfirmationEntry) error {
	trust, _, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil {
		return err
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return err
	}
	s, err := approval.OpenBelief([]byte(c.Note), trust)
	if err != nil {
		return err
	}
	e.Decision, e.Signer, e.Key, e.Counter = string(s.Decision), s.Signer, s.Pin.Key, s.Counter
	r, err := f.belief(st, c.Project, c.Belief)
	if err != nil {
		return err
	}
	bc := approval.BeliefCase{Project: c.Project, Now: e.Time}
	if pol != nil {
		bc.Role = pol.Approver()
	}
	if r != nil {
		bc.Agent, bc.Belief, bc.Content, bc.Revision = r.Agent, r.Ref.ID, r.Digest, r.revision()
	}
	if _, bc.Used, err = st.Get(stage.Key(keyNonce, c.Project, s.Nonce)); err != nil {
		return err
	}
	if bc.Counter, err = passkeyCount(st, c.Project, s.Pin.Key); err != nil {
		return err
	}
	if err := s.Judge(&bc); err != nil {
		return err
	}
	if s.Decision == approval.Supersede {
		next, err := f.belief(st, c.Project, s.Successor)
		if err != nil {
			return err
		}
		switch {
		case next == nil || next.Ref.ID == r.Ref.ID:
			return &approval.Error{Check: approval.CheckMove, Text: "the successor " + s.Successor +
				" is not another belief of the project"}
		case next.Ref.Axes.Security != beliefs.Clean || next.Ref.Axes.Truth != beliefs.Supported:
			return &approval.Error{Check: approval.CheckMove,
				Text: fmt.Sprintf("the successor %s is %s and %s: confirm it first", s.Successor, next.Ref.Axes.Truth,
					next.Ref.Axes.Security)}
		}
	}
	by, class := beliefs.ByUser, beliefs.HumanAssertion
	if !s.Person(bc.Role) {
		by, class = beliefs.ByProbe, beliefs.DirectObservation
	}
	word := beliefs.Evidence{Observation: e.ID, Quality: class, Source: "key:" + s.Signer, At: e.Time}
	next, moves, err := decideOn(r.standing(), s.Decision, s.Successor, word, by)
	unsigned := r.Ref.Procedure && r.Signed == ""
	if unsigned && s.Decision == approval.Confirm && by != beliefs.ByUser {
		return &approval.Error{Check: approval.CheckRole, Text: "only a person can sign for a procedure"}
	}
	if err == nil && unsigned && s.Decision != approval.Confirm && next.Axes.Security == beliefs.Clean &&
		next.Axes.Retrieval == beliefs.Restricted {
		// A procedure that nobody signed stays hidden. An attestation that only clears a suspicion does not approve it.
		var more []beliefs.Move
		next, more, err = next.Set(beliefs.Change{Axis: beliefs.AxisRetrieval, To: beliefs.Hidden.String()}, by)
		moves = append(moves, more...)
	}
	if err != nil {
		return &approval.Error{Check: approval.CheckMove, Text: err.Error()}
	}
	rv := beliefs.Revision{Belief: r.Ref.ID, Moves: moves, By: by, Who: s.Signer, Why: s.Reason, Other: s.Successor,
		At: e.Time}
	switch s.Decision {
	case approval.Confirm:
		rv.Evidence, rv.Scope = beliefs.EvidenceSet{word}, next.Scope
	case approval.Contradict:
		word.Relation = beliefs.Contradicts
		rv.Evidence = beliefs.EvidenceSet{word}
	}
	e.Revisions = append(e.Revisions, rv)
	if next.Axes.Truth == beliefs.Contradicted && r.Ref.Axes.Truth != beliefs.Contradicted ||
		next.Axes.Security >= beliefs.Quarantined && r.Ref.Axes.Security < beliefs.Quarantined {
		flags, err := f.flagDependants(st, c.Project, r.Ref.ID, fmt.Sprintf("it derives from %s, which %s contradicted "+
			"or quarantined", r.Ref.ID, s.Signer), e.Time)
		if err != nil {
			return err
		}
		e.Revisions = append(e.Revisions, flags...)
	}
	e.Text, e.Nonce, e.Until = s.Reason, s.Nonce, s.Expires
	if s.Person(bc.Role) {
		e.Findings = s.Findings
	}
	e.Tombstone = s.Decision == approval.RejectBelief || s.Decision == approval.Malicious
	return nil
}

func passkeyKey(project, key string) []byte {
	return stage.Key(keyPasskey, project, streams.Digest([]byte(key)))
}

// passkeyCount returns the highest counter of a passkey in accepted attestations of the project's beliefs. The
// authenticator has one counter for all its signatures. For resolutions of holds, the arbiter stores the highest
// counter separately.
func passkeyCount(st *stage.State, project, key string) (uint32, error) {
	v, ok, err := st.Get(passkeyKey(project, key))
	if err != nil || !ok || len(v) != 4 {
		return 0, err
	}
	return binary.BigEndian.Uint32(v), nil
}

// decideOn returns the state of a belief after decision d, and the changes. word is the evidence that the person's
// signed statement gives.
func decideOn(s beliefs.Standing, d approval.Decision, successor string, word beliefs.Evidence,
	by beliefs.Authority) (beliefs.Standing, []beliefs.Move, error) {
	set := func(x beliefs.Axis, to string) (beliefs.Standing, []beliefs.Move, error) {
		return s.Set(beliefs.Change{Axis: x, To: to}, by)
	}
	switch d {
	case approval.Confirm:
		return s.Confirm(word, by)
	case approval.RejectBelief, approval.Quarantine:
		return s.Quarantine(by)
	case approval.ClearBelief:
		return s.Clear(by)
	case approval.Supersede:
		return s.Supersede(successor, by)
	case approval.Contradict:
		return set(beliefs.AxisTruth, beliefs.Contradicted.String())
	case approval.Malicious:
		return set(beliefs.AxisSecurity, beliefs.Malicious.String())
	case approval.Block:
		return set(beliefs.AxisRetrieval, beliefs.Blocked.String())
	case approval.Unblock, approval.EndAuditOnly:
		if from := map[approval.Decision]beliefs.Retrieval{approval.Unblock: beliefs.Blocked,
			approval.EndAuditOnly: beliefs.PrivilegedOnly}[d]; s.Axes.Retrieval != from {
			return s, nil, fmt.Errorf("%s is for a belief whose retrieval is %s, but its retrieval is %s", d, from,
				s.Axes.Retrieval)
		}
		if d == approval.EndAuditOnly {
			return set(beliefs.AxisRetrieval, beliefs.Restricted.String())
		}
		return set(beliefs.AxisRetrieval, beliefs.Hidden.String())
	case approval.Restrict:
		if s.Axes.Retrieval != beliefs.Normal {
			return s, nil, fmt.Errorf("%s is for a belief whose retrieval is %s, but its retrieval is %s", d, beliefs.Normal,
				s.Axes.Retrieval)
		}
		return set(beliefs.AxisRetrieval, beliefs.Restricted.String())
	case approval.AuditOnly:
		return set(beliefs.AxisRetrieval, beliefs.PrivilegedOnly.String())
	}
	return s, nil, fmt.Errorf("decision %q is unknown", d)
}

func (f *Fold) applyConfirmation(st *stage.State, project string, e *streams.ConfirmationEntry) error {
	if e.Check != "" {
		return nil
	}
	if err := f.useNonce(st, project, e.Nonce, e.Until, e.Time); err != nil {
		return err
	}
	if e.Counter > 0 {
		if err := st.Set(passkeyKey(project, e.Key), binary.BigEndian.AppendUint32(nil, e.Counter)); err != nil {
			return err
		}
	}
	for _, rv := range e.Revisions {
		if err := f.revise(st, project, &rv); err != nil {
			return err
		}
	}
	r, err := f.belief(st, project, e.Belief)
	if err != nil || r == nil {
		return err
	}
	if approval.Decision(e.Decision).Withdraws() {
		r.Cleared = nil
	}
	switch approval.Decision(e.Decision) {
	case approval.Confirm:
		r.Signed, r.StagedFor, r.Flag = e.Signer, "", ""
		r.Ref.Staged = false
		r.At = e.Time
		r.Cleared = append(r.Cleared, e.Findings...)
		r.Cleared = r.Cleared[max(0, len(r.Cleared)-2*approval.MaxFindings):]
		if err := f.renew(st, project, r, e.Time); err != nil {
			return err
		}
		if err := f.takeKey(st, project, r, e.Time); err != nil {
			return err
		}
		if err := f.exhume(st, project, r.Ref.ID); err != nil {
			return err
		}
	case approval.ClearBelief:
		if err := f.exhume(st, project, r.Ref.ID); err != nil {
			return err
		}
	}
	if e.Tombstone {
		r.Signed = ""
		if err := f.bury(st, project, r, buriedRejected, e.Time); err != nil {
			return err
		}
	}
	if err := f.saveRecord(st, project, r); err != nil || approval.Decision(e.Decision) != approval.Confirm {
		return err
	}
	return f.compareStatements(st, project, r.Ref.ID, e.Time)
}

// saveRecord stores a belief's record. Before that, it saves the former state if a restore point needs it, and notes
// which events relied on a belief that is no longer reliable.
func (f *Fold) saveRecord(st *stage.State, project string, r *record) error {
	if err := f.noteBefore(st, project, r); err != nil {
		return err
	}
	if err := f.noteFall(st, project, r); err != nil {
		return err
	}
	return putRecord(st, project, r)
}

// useNonce records that a signed statement was accepted, so that the same statement is refused later. The record is
// removed once the statement has expired, because an expired statement is refused anyway.
func (f *Fold) useNonce(st *stage.State, project, nonce string, until, now time.Time) error {
	stamp := func(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }
	key := stage.Key(keyNonce, project, nonce)
	if err := st.Set(key, stamp(until)); err != nil {
		return err
	}
	if err := st.Set(append(append([]byte{keyNonceEnd}, stamp(until)...), key...), nil); err != nil {
		return err
	}
	var gone [][]byte
	err := st.Scan([]byte{keyNonceEnd}, func(k, _ []byte) (bool, error) {
		if len(k) < 9 || int64(binary.BigEndian.Uint64(k[1:9])) > now.UnixNano() || len(gone) == 4 {
			return false, nil
		}
		gone = append(gone, append([]byte(nil), k...))
		return true, nil
	})
	for _, k := range gone {
		err = errors.Join(err, st.Delete(k), st.Delete(k[9:]))
	}
	return err
}
