package ingest

import (
	"bytes"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// What is known of statements about projects' data. It is no part of any
// project's state, and outlives what is forgotten. The second byte says what a
// key holds, so that none begins like a project's.
const keyCustody = 0xB0

func legalHoldKey(project string) []byte { return append([]byte{keyCustody, 0, 'h'}, project...) }
func statementKey(id string) []byte      { return append([]byte{keyCustody, 0, 's'}, id...) }
func dropKey(project string) []byte      { return append([]byte{keyCustody, 0, 'd'}, project...) }

// custody decides on a signed statement about a project's data. What is refused
// is recorded as a rejected command.
func (f *Fold) custody(st *stage.State, m *stage.Message, c *streams.Control, head streams.EntryHead) (*stage.Admission, error) {
	refuse := func(code streams.Code, format string, args ...any) (*stage.Admission, error) {
		return f.reject(st, m, &streams.RejectError{Code: code, Reason: fmt.Sprintf(format, args...)})
	}
	s, signer, err := streams.OpenCustody([]byte(c.Custody), f.pinned)
	if err != nil {
		return f.reject(st, m, err)
	}
	if p := streams.PartitionOf(s.Project); p != m.Address.Partition {
		return refuse(streams.CodeCommand, "project %s is in partition %d", s.Project, p)
	}
	if old := head.Time.Sub(s.Issued); old > streams.CustodyValid || old < -5*time.Minute {
		return refuse(streams.CodeCommand, "it was issued at %s, which is not within the hour before %s: sign it anew", s.Issued.Format(time.RFC3339), head.Time.Format(time.RFC3339))
	}
	if _, used, err := st.Get(statementKey(s.ID)); err != nil {
		return nil, err
	} else if used {
		return refuse(streams.CodeCommand, "statement %s was obeyed before: sign a new one", s.ID)
	}
	held, err := f.legalHold(st, s.Project)
	if err != nil {
		return nil, err
	}
	typ := streams.TypeLegalHold
	switch s.Do {
	case streams.DoForget:
		if held != "" {
			return refuse(streams.CodeLegalHold, "project %s is under legal hold %s", s.Project, held)
		}
		typ = streams.TypeForgotten
	case streams.DoHold:
		if held != "" {
			return refuse(streams.CodeLegalHold, "project %s is under legal hold %s already", s.Project, held)
		}
	case streams.DoRelease:
		if held == "" {
			return refuse(streams.CodeCommand, "project %s is under no legal hold", s.Project)
		}
	}
	head.ID = s.ID
	return admission(typ, s.Project, &streams.CustodyEntry{EntryHead: head, Do: s.Do, Signer: signer, Note: c.Custody})
}

// legalHold is the statement that a project is held by, or empty.
func (f *Fold) legalHold(st *stage.State, project string) (string, error) {
	v, _, err := st.Get(legalHoldKey(project))
	return string(v), err
}

func (f *Fold) applyCustody(st *stage.State, e *streams.Entry, b *streams.CustodyEntry) error {
	if err := st.Set(statementKey(b.ID), nil); err != nil {
		return err
	}
	switch b.Do {
	case streams.DoHold:
		return st.Set(legalHoldKey(e.Project), []byte(b.ID))
	case streams.DoRelease:
		return st.Delete(legalHoldKey(e.Project))
	}
	if _, err := st.Drop(func(k, v []byte) (bool, error) { return ofProject(k, v, e.Project) }); err != nil {
		return err
	}
	f.Reset()
	if err := st.Set(dropKey(e.Project), []byte(b.ID)); err != nil {
		return err
	}
	// A re-audit that was under way had its place in what is gone now. It
	// begins anew whether or not there was one, so that who folds what is left
	// of the ledger comes to the same state.
	return f.startReaudit(st, "forgotten "+b.ID)
}

// ofProject reports whether a record was derived from a project's events.
func ofProject(k, v []byte, project string) (bool, error) {
	switch {
	case len(k) == 0 || k[0] == keyCursor: // a group may be called like a project
		return false, nil
	case k[0] == keyDecided:
		// The proposals decided last, of whichever project: who folds what is
		// left of the ledger does not meet those that are gone.
		return true, nil
	case k[0] == keyNonceEnd && len(k) > 9: // behind a time, another key
		return stage.OfProject(k[9:], project), nil
	case k[0] == keyOwed && len(v) > 8:
		var o struct {
			Project string `json:"project"`
		}
		err := streams.Unmarshal(v, &o)
		return o.Project == project, err
	case k[0] == keyDue: // a clock, a time, and then the project
		_, rest, ok := bytes.Cut(k[1:], []byte{0})
		return ok && len(rest) > 8 && stage.OfProject(append([]byte{keyDue}, rest[8:]...), project), nil
	}
	return stage.OfProject(k, project), nil
}

// owedDrop is ingest's own word that it has dropped what was forgotten.
func (f *Fold) owedDrop(st *stage.State) (*stage.Admission, error) {
	var project, id string
	prefix := dropKey("")
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		project, id = string(bytes.TrimPrefix(k, prefix)), string(v)
		return false, nil
	})
	if err != nil || project == "" {
		return nil, err
	}
	now, err := f.clock(st, streams.SystemProject)
	if err != nil {
		return nil, err
	}
	return admission(streams.TypeDropped, project, &streams.DroppedEntry{EntryHead: streams.EntryHead{Time: now}, Statement: id})
}
