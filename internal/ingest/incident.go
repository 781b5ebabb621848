package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeIncident, (*Fold).applyIncident)
}

// An incident is opened by a serious finding, by a person, or by a service with a key. Findings with the same key
// belong to one incident. A person's signed order decides how the incident changes beliefs. The order takes effect at
// its own entry, and entries with the revisions follow. The record of an incident is a fold of the ledger.

// becauseIncident is RevisionsEntry.Because of revisions that an incident causes.
const becauseIncident = "incident"

func incidentKey(project, id string) []byte   { return stage.Key(keyIncident, project, id) }
func openCaseKey(project, key string) []byte  { return stage.Key(keyOpenCase, project, key) }
func touchedPrefix(project, id string) []byte { return stage.Key(keyTouched, project, id, "") }

func (f *Fold) incident(st *stage.State, project, id string) (*beliefs.Incident, error) {
	i := new(beliefs.Incident)
	ok, err := st.Load(incidentKey(project, id), i)
	if err != nil || !ok {
		return nil, err
	}
	return i, nil
}

// openCase returns the open incident for findings with a key, or nil.
func (f *Fold) openCase(st *stage.State, project, key string) (*beliefs.Incident, error) {
	if key == "" {
		return nil, nil
	}
	id, ok, err := st.Get(openCaseKey(project, key))
	if err != nil || !ok {
		return nil, err
	}
	return f.incident(st, project, string(id))
}

// findings handles those alerts of a sentinel or the arbiter whose severity opens an incident by the policy. Each
// opens an incident, or is added to the open incident with the same key. The state changes at once. An entry in the
// ledger follows for the first finding, and then whenever the number of findings is a power of two.
func (f *Fold) findings(st *stage.State, e *streams.Entry, alerts []streams.Alert) error {
	least, none := beliefs.Critical, false
	looked := false
	for i := range alerts {
		al := &alerts[i]
		s, err := beliefs.ParseSeverity(al.Severity)
		if err != nil || s < beliefs.Medium || al.Mode != alertEnforced || al.Exception != "" {
			continue // an alert below medium opens no incident: a policy cannot set a lower limit
		}
		if !looked {
			pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
			if err != nil {
				return err
			}
			if pol != nil {
				least, none = pol.Incidents()
			}
			looked = true
		}
		if none || s < least {
			continue
		}
		if err := f.finding(st, e, al, s); err != nil {
			return err
		}
	}
	return nil
}

// alertEnforced is Alert.Mode of an alert whose rule is enforced.
const alertEnforced = "enforce"

func (f *Fold) finding(st *stage.State, e *streams.Entry, al *streams.Alert, s beliefs.Severity) error {
	at := al.Time
	if at.IsZero() {
		at = e.Time
	}
	// All findings of one rule about one agent belong to one incident.
	key := "rule/" + streams.Clip(al.Rule, 80)
	if al.Agent != "" {
		key += "/" + streams.Clip(al.Agent, 64)
	}
	found := beliefs.IncidentFinding{Kind: beliefs.FindingAlert, ID: streams.Clip(al.ID, 128),
		Rule:  streams.Clip(al.Rule, 80),
		Text:  streams.Clip(al.Subject.Kind+" "+al.Subject.ID+": "+al.Message, beliefs.MaxIncidentTitle),
		Entry: e.Position(), At: at}
	inc, err := f.openCase(st, e.Project, key)
	if err != nil {
		return err
	}
	event := beliefs.IncidentEvidence
	if inc == nil {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%s", e.Project, key, e.Seq, al.ID))
		inc = &beliefs.Incident{ID: "i" + hex.EncodeToString(sum[:8]), Severity: s, Key: key, By: beliefs.BySentinel,
			Who: streams.Clip(al.Group+"/"+al.Rule, 120), Opened: at,
			Title: streams.Clip(strings.Join(strings.Fields(al.Message), " "), beliefs.MaxIncidentTitle)}
		event = beliefs.IncidentOpened
	}
	next, err := inc.With(found)
	if err != nil {
		return nil // the incident was closed in the meantime, which deleted its key
	}
	next.Severity = max(next.Severity, s)
	if err := f.keepIncident(st, e.Project, &next); err != nil {
		return err
	}
	if bits.OnesCount64(next.Findings) != 1 {
		return nil
	}
	f.wakes[st.Partition()] = true
	return st.Set(stage.Key(keyCase, e.Project, next.ID, string(event)), nil)
}

func (f *Fold) keepIncident(st *stage.State, project string, i *beliefs.Incident) error {
	if i.Key != "" {
		key := openCaseKey(project, i.Key)
		if i.State != beliefs.IncidentClosed {
			if err := st.Set(key, []byte(i.ID)); err != nil {
				return err
			}
		} else if id, ok, err := st.Get(key); err != nil {
			return err
		} else if ok && string(id) == i.ID {
			if err := st.Delete(key); err != nil {
				return err
			}
		}
	}
	return st.Put(incidentKey(project, i.ID), i)
}

// pendingIncident returns the next pending entry of an incident that findings opened or were added to, or nil.
func (f *Fold) pendingIncident(st *stage.State) (*stage.Admission, error) {
	var part []string
	err := st.Scan([]byte{keyCase}, func(k, _ []byte) (bool, error) {
		part = strings.Split(string(k[1:]), "\x00")
		return false, nil
	})
	if err != nil || len(part) != 3 {
		return nil, err
	}
	project, id, event := part[0], part[1], beliefs.IncidentEvent(part[2])
	inc, err := f.incident(st, project, id)
	if err != nil || inc == nil {
		return nil, err
	}
	now, err := f.clock(st, streams.SystemProject)
	if err != nil {
		return nil, err
	}
	return incidentEntry(project, &streams.IncidentEntry{EntryHead: streams.EntryHead{Time: now}, Event: event,
		Incident: *inc})
}

func incidentEntry(project string, e *streams.IncidentEntry) (*stage.Admission, error) {
	return admission(streams.TypeIncident, project, e, stage.LiveCopy(e, project, "incident", e.Incident.ID,
		string(e.Event))...)
}

// incidentOrder decides on a signed order about an incident. It returns an *approval.Error if it refuses the order.
func (f *Fold) incidentOrder(st *stage.State, project string, head streams.EntryHead, s *approval.SignedOrder,
	signed *streams.Signature, role beliefs.Authority) (*stage.Admission, error) {
	e := &streams.IncidentEntry{EntryHead: head, Event: incidentEvents[s.Do], Text: s.Reason, Signed: signed,
		Scope: s.Scope}
	inc, err := f.incident(st, project, s.Incident)
	if err != nil {
		return nil, err
	}
	findings := s.Finding
	for i := range findings {
		findings[i].At = head.Time
	}
	switch {
	case s.Do == approval.OpenIncident:
		severity, err := beliefs.ParseSeverity(s.Severity)
		if err != nil {
			return nil, orderError("%v", err)
		}
		if len(findings) == 0 {
			findings = []beliefs.IncidentFinding{{Kind: "note", ID: head.ID, Text: s.Title, At: head.Time}}
		}
		if inc != nil {
			return nil, orderError("incident %s exists already", s.Incident)
		}
		if inc, err = f.openCase(st, project, s.Key); err != nil {
			return nil, err
		}
		if inc != nil {
			e.Event = beliefs.IncidentEvidence
		} else {
			inc = &beliefs.Incident{ID: s.Incident, Severity: severity, Title: s.Title, Key: s.Key, By: role, Who: s.Signer,
				Opened: head.Time}
		}
		inc.Severity = max(inc.Severity, severity)
	case inc == nil:
		return nil, orderError("project %s has no incident %s", project, streams.Clip(s.Incident, 64))
	}
	next := *inc
	for _, x := range findings {
		if next, err = next.With(x); err != nil {
			return nil, orderError("%v", err)
		}
	}
	if e.Event != beliefs.IncidentOpened && e.Event != beliefs.IncidentEvidence {
		if next, err = next.After(e.Event); err != nil {
			return nil, orderError("%v", err)
		}
	}
	switch e.Event {
	case beliefs.IncidentContain:
		c, err := f.contain(st, project, s.Scope)
		if err != nil {
			return nil, err
		}
		if c.cut {
			return nil, orderError("more than %d beliefs match the scope: narrow it by source, session or time, and cover the "+
				"rest with another order", maxPinpoint)
		}
		if err := checkStanding(st, project, s.Scope, head.Time); err != nil {
			return nil, err
		}
		c.count(&next.Report)
	case beliefs.IncidentRepair:
		back, err := f.rederive(st, project, next.ID)
		if err != nil {
			return nil, err
		}
		for _, b := range back {
			next.Report.Recovered++
			if b.was.served() {
				next.Report.Collateral--
			}
		}
	case beliefs.IncidentClose:
		next.Closed, next.Closer, next.Outcome = head.Time, s.Signer, s.Reason
	}
	e.Incident = next
	return incidentEntry(project, e)
}

var incidentEvents = map[approval.Do]beliefs.IncidentEvent{
	approval.OpenIncident:       beliefs.IncidentOpened,
	approval.AddEvidence:        beliefs.IncidentEvidence,
	approval.QuarantineIncident: beliefs.IncidentContain,
	approval.RepairIncident:     beliefs.IncidentRepair,
	approval.CloseIncident:      beliefs.IncidentClose,
}

// applyIncident folds an entry of an incident.
func (f *Fold) applyIncident(st *stage.State, project string, e *streams.IncidentEntry) error {
	if e.Signed == nil {
		if err := st.Delete(stage.Key(keyCase, project, e.Incident.ID, string(e.Event))); err != nil {
			return err
		}
		if have, err := f.incident(st, project, e.Incident.ID); err != nil ||
			have != nil && have.Findings >= e.Incident.Findings {
			return err
		}
		return f.keepIncident(st, project, &e.Incident)
	}
	if err := f.useNonce(st, project, e.Signed.Nonce, e.Signed.Until, e.Time); err != nil {
		return err
	}
	id, by := e.Incident.ID, e.Signed.Signer
	switch e.Event {
	case beliefs.IncidentContain:
		c, err := f.contain(st, project, e.Scope)
		if err != nil {
			return err
		}
		var all []beliefs.Revision
		for i := range c.all {
			x := &c.all[i]
			if err := st.Put(append(touchedPrefix(project, id), x.rev.Belief...), &x.touched); err != nil {
				return err
			}
			rv := x.rev
			rv.Who, rv.At, rv.Why = by, e.Time, "incident "+id
			if !x.Out {
				rv.Who, rv.Why = whoLineage, fmt.Sprintf("it derives from %s, which incident %s took out of service", rv.Other, id)
			}
			if err := f.revise(st, project, &rv); err != nil {
				return err
			}
			if x.Root && x.record.Ref.Kind != beliefs.Envelope {
				if err := f.bury(st, project, x.record, buriedQuarantined, e.Time); err != nil {
					return err
				}
			}
			all = append(all, rv)
		}
		if err := f.queueRevisions(st, project, becauseIncident, all, e.Time); err != nil {
			return err
		}
		if err := addStanding(st, project, standingOrder{id, by, *e.Scope}, e.Time); err != nil {
			return err
		}
	case beliefs.IncidentRepair:
		back, err := f.rederive(st, project, id)
		if err != nil {
			return err
		}
		var all []beliefs.Revision
		for _, b := range back {
			rv := b.rev
			rv.Who, rv.At, rv.Why = by, e.Time, "incident "+id+": "+rv.Why
			if err := f.revise(st, project, &rv); err != nil {
				return err
			}
			if err := f.unflag(st, project, b.id); err != nil {
				return err
			}
			b.was.Back = true
			if err := st.Put(append(touchedPrefix(project, id), b.id...), &b.was); err != nil {
				return err
			}
			all = append(all, rv)
		}
		if err := f.queueRevisions(st, project, becauseIncident, all, e.Time); err != nil {
			return err
		}
	case beliefs.IncidentClose:
		if err := st.DropPrefix(touchedPrefix(project, id)); err != nil {
			return err
		}
		if err := removeStanding(st, project, id); err != nil {
			return err
		}
	}
	return f.keepIncident(st, project, &e.Incident)
}

// unflag removes a belief's flag.
func (f *Fold) unflag(st *stage.State, project, id string) error {
	r, err := f.belief(st, project, id)
	if err != nil || r == nil || r.Flag == "" {
		return err
	}
	r.Flag = ""
	return f.saveRecord(st, project, r)
}

// AskIncidents is the query for a project's incidents.
const AskIncidents = "incidents"

// IncidentsRequest asks for incidents of one project. They are returned in the order of their ids.
type IncidentsRequest struct {
	Project string `json:"project"`
	ID      string `json:"id,omitzero"`    // only this incident, with the beliefs that it touched
	After   string `json:"after,omitzero"` // only incidents after this id
}

// IncidentsAnswer is a page of incidents. Next is the After of the request for the next page, or "" on the last page.
type IncidentsAnswer struct {
	Incidents []IncidentView `json:"incidents"`
	Next      string         `json:"next,omitzero"`
}

// IncidentView is an incident as the query returns it.
type IncidentView struct {
	beliefs.Incident
	Project string `json:"project"`
	// Touched are the first 1,000 beliefs that the incident withheld or flagged. It is empty for a closed incident.
	Touched []TouchedBelief `json:"touched,omitzero"`
}

// TouchedBelief is a belief that an incident withheld or flagged.
type TouchedBelief struct {
	Belief string       `json:"belief"`
	Root   bool         `json:"root"` // the belief matched the scope; else it derives from a belief that did
	Out    bool         `json:"quarantined"`
	Back   bool         `json:"recovered"`
	Was    beliefs.Axes `json:"was"`
	Now    beliefs.Axes `json:"now"`
}

// maxIncidents is the maximum number of incidents in an answer.
const maxIncidents = 1000

func listIncidents(st *stage.State, req []byte) (any, error) {
	var q IncidentsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	ans := &IncidentsAnswer{Incidents: []IncidentView{}}
	prefix := incidentKey(q.Project, "")
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		id := string(k[len(prefix):])
		if id <= q.After || q.ID != "" && id != q.ID {
			return true, nil
		}
		if len(ans.Incidents) == maxIncidents {
			ans.Next = ans.Incidents[maxIncidents-1].ID
			return false, nil
		}
		view := IncidentView{Project: q.Project}
		if err := streams.Unmarshal(v, &view.Incident); err != nil {
			return false, err
		}
		ans.Incidents = append(ans.Incidents, view)
		return true, nil
	})
	if err != nil || q.ID == "" || len(ans.Incidents) != 1 {
		return ans, err
	}
	f := New(Config{})
	inc := &ans.Incidents[0]
	prefix = touchedPrefix(q.Project, q.ID)
	err = st.Scan(prefix, func(k, v []byte) (bool, error) {
		t := new(touched)
		if err := streams.Unmarshal(v, t); err != nil {
			return false, err
		}
		x := TouchedBelief{Belief: string(k[len(prefix):]), Root: t.Root, Out: t.Out, Back: t.Back, Was: t.Was}
		r, err := f.belief(st, q.Project, x.Belief)
		if r != nil {
			x.Now = r.Ref.Axes
		}
		inc.Touched = append(inc.Touched, x)
		return len(inc.Touched) < 1000, err
	})
	return ans, err
}
