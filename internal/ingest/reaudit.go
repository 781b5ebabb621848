package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	writes(streams.TypeBelief, (*Fold).applyReaudit)
}

// A re-audit adds entries with all live beliefs: those that can still reach a context or an action. So the rules in
// force judge beliefs that were accepted under older rules. It starts at an entry: the activation of a rule set, or
// the arbiter's entry that a re-audit is due. Its progress is part of the state and advances with its own entries, so
// that it continues after a crash. If it is started again while it runs, it begins again with the first belief.

// reaudit is the progress of a re-audit.
type reaudit struct {
	Run   string    `json:"run"`
	Index int       `json:"index"`
	Next  [2]string `json:"next"` // project and id of the belief after which the re-audit continues
	// Named is set in the second pass, over beliefs that concern a person (see walk). Of is the person whom the belief
	// in Next concerns.
	Named bool           `json:"named,omitzero"`
	Of    streams.Person `json:"of,omitzero"`
}

// maxLooked is the maximum number of records that are examined for one entry. If none of these records is a live
// belief, the entry has no beliefs.
const maxLooked = 4096

// startReaudit starts a re-audit, unless the partition has no beliefs. run is the name of the re-audit in its entries.
func (f *Fold) startReaudit(st *stage.State, run string) error {
	any := false
	if err := st.Scan([]byte{keyBelief}, func(_, _ []byte) (bool, error) {
		any = true
		return false, nil
	}); err != nil || !any {
		return err
	}
	return st.Put([]byte{keyReaudit}, &reaudit{Run: run})
}

// reauditDue reports whether an entry of the arbiter starts a re-audit.
func reauditDue(e *streams.Entry) bool {
	var d streams.DueEntry
	return e.Stage == streams.StageArbiter && streams.Unmarshal(e.Body, &d) == nil && d.Reaudit && !e.Time.Before(d.Until)
}

func (f *Fold) applyDue(st *stage.State, e *streams.Entry) error {
	if !reauditDue(e) {
		return nil
	}
	return f.startReaudit(st, "schedule "+e.Time.Format("2006-01-02T15:04:05.000000000Z07:00"))
}

// Wakes implements stage.IntakeFold.
func (f *Fold) Wakes(e *streams.Entry) bool {
	wakes := f.wakes[e.Partition]
	f.wakes[e.Partition] = false
	switch e.Type {
	case streams.TypeActivation, streams.TypeBelief, streams.TypeRevision, streams.TypeIncident,
		streams.TypeRestore, streams.TypeForgotten, streams.TypeErased, streams.TypeExpired, streams.TypeDropped:
		return true
	case streams.TypeDue:
		return wakes || reauditDue(e)
	}
	return wakes
}

// FollowUp implements stage.IntakeFold. It returns the next pending entry: one that reports dropped data, one of an
// incident, of a rollback or with revisions, a step of an expiry, or a part of a re-audit.
func (f *Fold) FollowUp(st *stage.State) (*stage.Admission, error) {
	if ad, err := f.pendingDrop(st); ad != nil || err != nil {
		return ad, err
	}
	if a, err := f.pendingIncident(st); err != nil || a != nil {
		return a, err
	}
	if a, err := f.rollback(st); err != nil || a != nil {
		return a, err
	}
	if a, err := f.revisions(st); err != nil || a != nil {
		return a, err
	}
	if a, err := f.pendingExpiryStep(st); err != nil || a != nil {
		return a, err
	}
	run := new(reaudit)
	ok, err := st.Load([]byte{keyReaudit}, run)
	if err != nil || !ok {
		return nil, err
	}
	e := &streams.BeliefsEntry{Run: run.Run, Index: run.Index, Next: run.Next, Named: run.Named, Of: run.Of, Last: true}
	from := walk{run.Next[0], run.Next[1], run.Named, run.Of}
	if !run.Named {
		e.Of = streams.Person{}
	}
	looked, size := 0, 0
	err = walkBeliefs(st, "", from, func(at walk, r *record) (bool, error) {
		// An entry concerns one project and one person. So end the entry before a belief of another project or person.
		// Also end it at its limits, which leave room for a belief of any size.
		if len(e.Beliefs) > 0 && (at.project != e.Next[0] || at.named != e.Named || r != nil && at.of != e.Of) ||
			len(e.Beliefs) == streams.MaxAudited || size >= streams.MaxAuditedBytes || looked == maxLooked {
			e.Last = false
			return false, nil
		}
		looked++
		if e.Next, e.Named = [2]string{at.project, at.belief}, at.named; r == nil {
			return true, nil
		}
		if len(e.Beliefs) == 0 {
			e.Of = at.of
		}
		if !live(r) {
			return true, nil
		}
		b, n, err := f.audited(st, at.project, r)
		if err != nil {
			return false, err
		}
		e.Beliefs = append(e.Beliefs, b)
		size += n
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	e.EntryHead = named(e.EntryHead, e.Of)
	project := e.Next[0]
	if project == "" {
		project = streams.SystemProject
	}
	if e.Time, err = f.clock(st, project); err != nil {
		return nil, err
	}
	return admission(streams.TypeBelief, project, e)
}

// audited returns a belief as a re-audit's entry has it, and its size there in bytes.
func (f *Fold) audited(st *stage.State, project string, r *record) (b streams.AuditedBelief, size int, err error) {
	b = streams.AuditedBelief{BeliefRef: r.Ref, Agent: r.Agent, Session: r.Session, Tool: r.Tool, Category: r.Category,
		Channel: r.Channel, Writer: r.Writer, Inherited: r.Inherited, Content: r.Content}
	if !r.Memory {
		whole := false
		if b.Content, whole, err = f.beliefText(st, project, r); err != nil {
			return b, 0, err
		}
		b.Partial = !whole
	}
	b.Features = text.Analyze(b.Content)
	v, err := streams.Marshal(&b)
	return b, len(v), err
}

// live reports whether a belief can still reach a context or an action. Envelopes are excluded, because ingest itself
// makes their content.
func live(r *record) bool {
	return r.Ref.Kind != beliefs.Envelope && r.Ref.Axes.Truth != beliefs.Superseded &&
		r.Ref.Axes.Security < beliefs.Quarantined && r.Ref.Axes.Retrieval != beliefs.Hidden
}

func (f *Fold) applyReaudit(st *stage.State, _ *streams.Entry, e *streams.BeliefsEntry) error {
	run := new(reaudit)
	ok, err := st.Load([]byte{keyReaudit}, run)
	if err != nil || !ok {
		return err
	}
	if e.Last {
		return st.Delete([]byte{keyReaudit})
	}
	run.Index, run.Next, run.Named, run.Of = e.Index+1, e.Next, e.Named, e.Of
	return st.Put([]byte{keyReaudit}, run)
}
