package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func init() {
	for _, t := range []streams.Type{streams.TypeForgotten, streams.TypeErased, streams.TypeLegalHold,
		streams.TypeExpired} {
		writes(t, (*Fold).applyCustody)
	}
	writesIn(streams.TypeDropped, (*Fold).applyDropped)
}

// keyCustody begins the keys of signed statements about a project's data (to forget, to expire, a legal hold) and of
// their progress. These records must outlive the data that they order to forget, so they are not under the project's
// own keys. The second byte of the key is zero, which no project's key has. The third byte is the kind of record.
const keyCustody = 0xB0

func legalHoldKey(project string) []byte { return append([]byte{keyCustody, 0, 'h'}, project...) }
func statementKey(id string) []byte      { return append([]byte{keyCustody, 0, 's'}, id...) }
func dropKey(project string) []byte      { return append([]byte{keyCustody, 0, 'd'}, project...) }

// The key of a person's legal hold ends with the project and the data subject's id. The key of an erasure ends with the
// project and the statement's id, because several erasures in one project can be pending.
func personHoldKey(project, subject string) []byte {
	return append(append(legalHoldKey(project), 0), subject...)
}
func eraseDropKey(project, id string) []byte { return append(append(dropKey(project), 0), id...) }

// trimKey exists if the ledger was trimmed, or if a trim was announced.
var trimKey = []byte{keyCustody, 0, 't'}

// noteTrim folds an entry of the retention stage: it records that the ledger is being trimmed.
func noteTrim(st *stage.State, e *streams.Entry) error {
	if b, err := streams.ReadRetention(e); err == nil && b.UpTo == 0 {
		return st.Delete(trimKey) // the announced trim was revoked
	}
	return st.Set(trimKey, nil)
}

// custody decides on a signed statement about a project's data. If it refuses the statement, it records a rejection.
func (f *Fold) custody(st *stage.State, m *stage.Message, c *streams.Control,
	head streams.EntryHead) (*stage.Admission, error) {
	refuse := func(code streams.Code, format string, args ...any) (*stage.Admission, error) {
		return f.reject(st, m, &streams.RejectError{Code: code, Reason: fmt.Sprintf(format, args...)})
	}
	s, signer, err := streams.OpenCustody([]byte(c.Custody), f.pinned)
	if err != nil {
		return f.reject(st, m, err)
	}
	// The signature must also verify with the trust file in force, because verifiers of the log use that file.
	trust, _, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil {
		return nil, err
	}
	if trust != nil {
		if _, _, err := streams.OpenCustody([]byte(c.Custody), trust.Verifiers(keys.RoleOperator)); err != nil {
			return refuse(streams.CodeSignature, "key %s is in the trust file that ingest was started with, and not in the "+
				"one in force: activate the new one (lazaret key activate) and sign again", signer)
		}
	}
	if p := streams.PartitionOf(s.Project); p != m.Address.Partition && s.Do != streams.DoExpire {
		return refuse(streams.CodeCommand, "the statement came in another partition: project %s is in partition %d",
			s.Project, p)
	}
	if s.DataSubject != "" && s.Project == streams.SystemProject {
		return refuse(streams.CodeCommand, "the pipeline's own project has no data subjects: name another project")
	}
	if old := head.Time.Sub(s.Issued); old > streams.CustodyValid || old < -5*time.Minute {
		return refuse(streams.CodeCommand, "the statement was issued at %s, which is not within the hour before %s: "+
			"sign it again", s.Issued.Format(time.RFC3339), head.Time.Format(time.RFC3339))
	}
	if _, used, err := st.Get(statementKey(s.ID)); err != nil {
		return nil, err
	} else if used {
		return refuse(streams.CodeCommand, "statement %s was carried out before: sign a new one", s.ID)
	}
	held, by, err := f.heldFrom(st, &s)
	if err != nil {
		return nil, err
	}
	typ := streams.TypeLegalHold
	switch s.Do {
	case streams.DoForget:
		if held != "" {
			return refuse(streams.CodeLegalHold, "%s is under legal hold %s", by, held)
		}
		typ = streams.TypeForgotten
		if s.DataSubject == "" && s.UpTo == 0 {
			return refuse(streams.CodeCommand,
				"it does not name the ledger entries that it covers: sign it with this version of lazaret audit forget")
		}
		if s.DataSubject == "" {
			break
		}
		typ = streams.TypeErased
		if _, trimmed, err := st.Get(trimKey); err != nil {
			return nil, err
		} else if trimmed {
			return refuse(streams.CodeTrimmed, "the ledger was trimmed, so no stage can rebuild its state of project %s "+
				"without one data subject: forget the whole project (lazaret audit forget --subject %s)", s.Project, s.Project)
		}
	case streams.DoExpire:
		typ = streams.TypeExpired
	case streams.DoHold:
		if held != "" {
			return refuse(streams.CodeLegalHold, "%s is under legal hold %s already", by, held)
		}
	case streams.DoRelease:
		if held == "" {
			return refuse(streams.CodeCommand, "%s is under no legal hold", by)
		}
	}
	head.ID, head.DataSubject = s.ID, s.DataSubject
	return admission(typ, s.Project, &streams.CustodyEntry{EntryHead: head, Do: s.Do, Signer: signer, Note: c.Custody,
		Steps: s.Do == streams.DoExpire})
}

// heldFrom looks for a legal hold that forbids carrying out statement s. held is the id of the hold, or "" if there is
// none. by is the person or project under the hold. A project cannot be forgotten while one of its data subjects is
// under legal hold, and neither can entries that concern such a data subject.
func (f *Fold) heldFrom(st *stage.State, s *streams.Custody) (held, by string, err error) {
	project := "project " + s.Project
	person := func(subject string) string { return "data subject " + subject + " of " + project }
	get := func(key []byte, who string) {
		if v, ok, e := st.Get(key); e != nil {
			err = e
		} else if ok && held == "" {
			held, by = string(v), who
		}
	}
	if s.Do != streams.DoForget {
		if s.DataSubject != "" {
			get(personHoldKey(s.Project, s.DataSubject), person(s.DataSubject))
			return held, person(s.DataSubject), err
		}
		get(legalHoldKey(s.Project), project)
		return held, project, err
	}
	get(legalHoldKey(s.Project), project)
	all := s.DataSubject == "" || len(s.Others) == 1 && s.Others[0] == streams.AllOthers
	if !all {
		get(personHoldKey(s.Project, s.DataSubject), person(s.DataSubject))
		for _, o := range s.Others {
			get(personHoldKey(s.Project, o), person(o))
		}
		return held, by, err
	}
	prefix := personHoldKey(s.Project, "")
	scan := st.Scan(prefix, func(k, v []byte) (bool, error) {
		if held == "" {
			held, by = string(v), person(string(k[len(prefix):]))
		}
		return false, nil
	})
	return held, by, errors.Join(err, scan)
}

func (f *Fold) applyCustody(st *stage.State, e *streams.Entry, b *streams.CustodyEntry) error {
	if err := st.Set(statementKey(b.ID), nil); err != nil {
		return err
	}
	hold := legalHoldKey(e.Project)
	if b.DataSubject != "" {
		hold = personHoldKey(e.Project, b.DataSubject)
	}
	switch {
	case e.Type == streams.TypeExpired:
		f.dropTexts()
		return f.expire(st, b)
	case b.Do == streams.DoHold:
		return st.Set(hold, []byte(b.ID))
	case b.Do == streams.DoRelease:
		return st.Delete(hold)
	case e.Type == streams.TypeErased:
		// The stage's loop now folds the partition again without the listed entries. Their contents must not stay in
		// the cache.
		f.dropTexts()
		return st.Set(eraseDropKey(e.Project, b.ID), []byte(b.ID))
	}
	apart := []byte{keyCursor, keyDecided, keyNonceEnd, keyPending, keyDue}
	err := st.DropProject(e.Project, apart, func(k, v []byte) (bool, error) { return ofProject(k, v, e.Project) })
	if err != nil {
		return err
	}
	f.Reset()
	if err := st.Set(dropKey(e.Project), []byte(b.ID)); err != nil {
		return err
	}
	// The progress of a running re-audit is lost with the project's data. So always start a re-audit here, even if none
	// was running: then a fold of the ledger without the forgotten entries gives the same state.
	return f.startReaudit(st, "forgotten "+b.ID)
}

// ofProject reports whether a record was derived from a project's events. k is the record's key, and v its value.
func ofProject(k, v []byte, project string) (bool, error) {
	switch {
	case len(k) == 0 || k[0] == keyCursor: // the key names a sentinel group, which may have the name of a project
		return false, nil
	case k[0] == keyDecided:
		// The value lists the latest decided proposals of all projects. A fold of the remaining ledger would not list
		// those of the forgotten project. So the whole value is removed.
		return true, nil
	case k[0] == keyNonceEnd && len(k) > 9: // a time, followed by another key
		return stage.OfProject(k[9:], project), nil
	case k[0] == keyPending && len(v) > 8:
		var o struct {
			Project string `json:"project"`
		}
		err := streams.Unmarshal(v, &o)
		return o.Project == project, err
	case k[0] == keyDue: // in the key, the project comes after a clock and a time
		_, rest, ok := bytes.Cut(k[1:], []byte{0})
		return ok && len(rest) > 8 && stage.OfProject(append([]byte{keyDue}, rest[8:]...), project), nil
	}
	return stage.OfProject(k, project), nil
}

// applyDropped folds ingest's entry that reports that forgotten data was dropped, or a step of an expiry.
func (f *Fold) applyDropped(st *stage.State, project string, b *streams.DroppedEntry) error {
	if b.Step != nil {
		return f.expireStep(st, b.Step)
	}
	key := eraseDropKey(project, b.Statement)
	if _, ok, err := st.Get(key); err != nil {
		return err
	} else if !ok {
		key = dropKey(project)
	}
	return st.Delete(key)
}

// pendingDrop returns the entry that reports that forgotten data was dropped, or nil if none is pending.
func (f *Fold) pendingDrop(st *stage.State) (*stage.Admission, error) {
	var project, id string
	prefix := dropKey("")
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		of, _, _ := bytes.Cut(bytes.TrimPrefix(k, prefix), []byte{0})
		project, id = string(of), string(v)
		return false, nil
	})
	if err != nil || project == "" {
		return nil, err
	}
	now, err := f.clock(st, streams.SystemProject)
	if err != nil {
		return nil, err
	}
	return admission(streams.TypeDropped, project, &streams.DroppedEntry{EntryHead: streams.EntryHead{Time: now},
		Statement: id})
}
