package arbiter

import (
	"encoding/binary"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

func (f *Fold) openHold(st *stage.State, p *proposal, v *streams.VerdictEntry, now time.Time) error {
	if err := f.countHolds(st); err != nil {
		return err
	}
	f.countHold(p.Project, 1)
	p.Hold, v.Sources = v.Hold.ID, p.Sources
	h := &hold{ID: v.Hold.ID, Revision: v.Hold.Revision, Proposal: p.Seq, Project: p.Project, Agent: p.Agent,
		State: streams.HoldOpen, Opened: now, Expires: v.Hold.Expires, Entry: *v, Body: p.Body, Hints: p.Hints, Of: p.Of,
		Accepted: p.Accepted, Rests: p.dependencies(), Catalogue: p.Catalogue, From: p.From[:min(len(p.From), maxFrom)]}
	if err := f.addTimer(st, h.Expires, timerExpiry, []byte(p.Project+"\x00"+h.ID)); err != nil {
		return err
	}
	if p.Type == streams.TypeAction {
		if err := addOpenHolds(st, p.Project, p.Agent, p.Session, p.Tool, 1); err != nil {
			return err
		}
	}
	if err := h.index(st); err != nil {
		return err
	}
	if err := st.Put(stage.Key(keyHold, p.Project, h.ID), h); err != nil {
		return err
	}
	// The proposal's entry has the state that the belief's parents had when the entry was made. The parents may have
	// become unreliable since then.
	fell, err := p.fellSince(st, h)
	if err != nil || len(fell) == 0 {
		return err
	}
	return f.startRecheck(st, p.Project, holdSubject(h.ID), now)
}

// closeHold settles an open hold. It does nothing if the hold is not open.
func (f *Fold) closeHold(st *stage.State, project, id, state string, now time.Time) error {
	h := new(hold)
	key := stage.Key(keyHold, project, id)
	ok, err := st.Load(key, h)
	if err != nil || !ok || h.State != streams.HoldOpen {
		return err
	}
	if err := f.countHolds(st); err != nil {
		return err
	}
	f.countHold(project, -1)
	if err := h.unindex(st, nil); err != nil {
		return err
	}
	h.State, h.Body, h.Hints, h.Rests, h.From = state, "", "", nil, nil
	if err := f.dropTimer(st, h.Expires, timerExpiry, []byte(project+"\x00"+id)); err != nil {
		return err
	}
	if h.Entry.Type == streams.TypeAction {
		if err := addOpenHolds(st, project, h.Agent, h.Entry.Session, h.Entry.Tool, -1); err != nil {
			return err
		}
	}
	if err := f.forgetAt(st, now.Add(KeepHold), key); err != nil {
		return err
	}
	return st.Put(key, h)
}

// countHold adds `by` to the number of open holds in the metrics. Holds of recorded sessions that are replayed (in
// synthetic projects) are not counted.
func (f *Fold) countHold(project string, by int) {
	if !streams.IsSynthetic(project) {
		f.Metrics.Holds(by)
		f.holds[streams.PartitionOf(project)] += by
	}
}

func agentKey(project, agent string) []byte { return stage.Key(keyOpen, project, agent) }

// alikeKey is the key of the number of open holds of one tool in one session. It has a digest of the tool's name,
// because the name may contain any bytes.
func alikeKey(project, agent, session, tool string) []byte {
	return stage.Key(keyOpen, project, agent, session, streams.Digest([]byte(tool)))
}

func openHolds(st *stage.State, key []byte) (int, error) {
	v, ok, err := st.Get(key)
	if err != nil || !ok || len(v) != 8 {
		return 0, err
	}
	return int(binary.BigEndian.Uint64(v)), nil
}

// addOpenHolds adds `by`, which may be negative, to the agent's numbers of open holds.
func addOpenHolds(st *stage.State, project, agent, session, tool string, by int) error {
	for _, key := range [][]byte{agentKey(project, agent), alikeKey(project, agent, session, tool)} {
		n, err := openHolds(st, key)
		if err != nil {
			return err
		}
		if n += by; n <= 0 {
			err = st.Delete(key)
		} else {
			err = st.Set(key, binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepForLate stores a decided proposal for the time keepLate, because a late assessment can make its verdict stricter.
func (f *Fold) keepForLate(st *stage.State, p *proposal, now time.Time) error {
	key := proposalKey(p.Seq)
	if err := f.forgetAt(st, now.Add(keepLate), key); err != nil {
		return err
	}
	return st.Put(key, p)
}

// due handles a due entry, which the stage writes when a timer expires by the clock of its process. now is ledger
// time, from the server's clock. If now is still before the timer's time, due does nothing.
func (f *Fold) due(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	d := new(streams.DueEntry)
	if err := streams.Unmarshal(e.Body, d); err != nil {
		f.log.Error("unreadable due entry", "seq", e.Seq, "err", err)
		return nil, nil
	}
	if now.Before(d.Until) {
		return nil, nil // the server's clock is behind; the stage adds another due entry later
	}
	if d.Reaudit {
		return nil, f.nextReaudit(st, now)
	}
	if d.Recheck != "" {
		return f.rechecked(st, e.Project, d, now)
	}
	if d.Hold != "" {
		return f.expire(st, e.Project, d, now)
	}
	p := new(proposal)
	ok, err := st.Load(proposalKey(d.Proposal), p)
	if err != nil {
		return nil, err
	}
	if !ok || p.Decided != nil {
		return nil, f.dropTimer(st, d.Until, timerDeadline, seqKey(d.Proposal))
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	return f.decide(st, p, pol, now)
}

func (f *Fold) expire(st *stage.State, project string, d *streams.DueEntry, now time.Time) (*stage.Output, error) {
	h := new(hold)
	ok, err := st.Load(stage.Key(keyHold, project, d.Hold), h)
	if err != nil {
		return nil, err
	}
	if !ok || h.State != streams.HoldOpen {
		return nil, f.dropTimer(st, d.Until, timerExpiry, []byte(project+"\x00"+d.Hold))
	}
	w, err := f.lapse(st, h, streams.HoldExpired, streams.Reason{Code: streams.CodeExpired, Verdict: streams.Hold,
		Text: "nobody resolved the hold by " + h.Expires.Format(time.RFC3339) +
			"; expired is not denied, propose it again under a new id"}, now)
	if err != nil {
		return nil, err
	}
	return w.output()
}

func seqKey(seq uint64) []byte      { return binary.BigEndian.AppendUint64(nil, seq) }
func proposalKey(seq uint64) []byte { return append([]byte{keyProposal}, seqKey(seq)...) }

func waitingKey(p *proposal) []byte { return stage.Key(keyWaiting, p.Project, p.Agent, p.ID) }

func cut(b []byte) (before, after string, ok bool) {
	return strings.Cut(string(b), "\x00")
}
